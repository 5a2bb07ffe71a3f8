"""The four policies by which a tree of regions shares one arena.

=========  =====================================================================================
sum        every region has bytes of its own: root, then each region in turn
stacked    a caller's bytes lie above the largest of the regions that run inside it, which share
block      a caller's buffers are packed with one block for each region that it calls, alive at
           the calls; so blocks of exclusive branches share, and use the caller's holes
joint      every buffer of every region is placed on the one timeline
=========  =====================================================================================

Each policy also considers the plans of the stricter ones, which are legal under it, and keeps the
smallest: ``joint <= block <= stacked <= sum`` for every packer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from lowtide.base.errors import InputError, UnsupportedError
from lowtide.base.recursion import deep_recursion
from lowtide.ir.problem import Buffer, Problem, align_up, end_of, merge_intervals
from lowtide.pack.registry import Packing

if TYPE_CHECKING:
    from collections.abc import Callable

    from lowtide.ir.problem import RegionSpan

Hierarchy = Literal["joint", "block", "stacked", "sum"]
POLICIES: tuple[Hierarchy, ...] = get_args(Hierarchy)


def pack_hierarchy(
    problem: Problem, policy: Hierarchy, pack: Callable[[Problem], Packing], bound: int
) -> Packing:
    """Pack one arena under a policy.

    Args:
        problem: buffers of one arena, and the regions that own them.
        policy: which reuse between regions is allowed.
        pack: packs a problem as if it had no hierarchy.
        bound: bytes below which no plan can be; reaching it ends the search.

    Raises:
        InputError: there is no such policy.
        UnsupportedError: only ``joint`` can honour the problem: buffers are pinned, lie inside those of other
            regions, or live beyond their own, or nothing says when a region runs (a CSV cannot).
    """
    if policy not in POLICIES:
        raise InputError(f"there is no hierarchy {policy!r}: choose one of {', '.join(POLICIES)}")
    if len({buffer.region for buffer in problem.buffers}) <= 1:
        return pack(problem)
    obstacle = _obstacle(problem)
    if obstacle is not None:
        if policy != "joint":
            raise UnsupportedError(f"hierarchy {policy} is out of reach: {obstacle}: use joint")
        return pack(problem)
    tree = _Tree(problem, pack)
    best: Packing | None = None
    proved = bound
    # The loosest first: it usually meets the bound, and then the stricter ones need not be tried.
    for attempt in POLICIES[POLICIES.index(policy) :]:
        found = tree.packing(attempt)
        if attempt == "joint" and found.object_ids is None:
            proved = max(proved, found.lower_bound)  # of plans with objects it would hold for no others
        if best is None or end_of(problem.buffers, found.offsets) < end_of(problem.buffers, best.offsets):
            best = found
        if end_of(problem.buffers, best.offsets) <= proved:
            break
    assert best is not None
    return replace(best, lower_bound=max(best.lower_bound, proved))


def _obstacle(problem: Problem) -> str | None:
    """Why regions cannot be packed apart; None if they can."""
    spans = {region.name: merge_intervals(region.span) for region in problem.regions}
    region_of = {buffer.id: buffer.region for buffer in problem.buffers}
    if any(region_of[placement.inner] != region_of[placement.outer] for placement in problem.placements):
        return "a buffer lies inside one of another region"
    for buffer in problem.buffers:
        if buffer.offset is not None:
            return f"buffer {buffer.label!r} is pinned"
        if buffer.region not in spans:
            return f"buffer {buffer.label!r} is in region {buffer.region!r}, and nothing says when that runs"
        for start, stop in buffer.lifetime:
            if not any(begin <= start and stop <= end for begin, end in spans[buffer.region]):
                return f"buffer {buffer.label!r} is alive when its region {buffer.region!r} does not run"
    return None


class _Tree:
    """The regions of a problem, each with the buffers that it owns."""

    def __init__(self, problem: Problem, pack: Callable[[Problem], Packing]) -> None:
        self.problem, self.pack = problem, pack
        self.regions: dict[str, RegionSpan] = {region.name: region for region in problem.regions}
        self.own: dict[str, list[int]] = {name: [] for name in self.regions}
        for i, buffer in enumerate(problem.buffers):
            if buffer.region not in self.own:
                raise InputError(
                    f"buffer {buffer.label!r} is in region {buffer.region!r}, which is not listed"
                )
            self.own[buffer.region].append(i)
        self.reserved = problem.arenas[0].reserved if problem.arenas else 0
        self.packed: dict[str, tuple[list[int], int]] = {}

    def packing(self, policy: Hierarchy) -> Packing:
        if policy == "joint":
            return self.pack(self.problem)
        offsets = [0] * len(self.problem.buffers)
        if policy == "block":
            self.blocks(offsets)
        else:
            self.piles(offsets, stacked=policy == "stacked")
        # Across regions bytes are shared in parts, so what were objects inside one are objects no more.
        return Packing(tuple(offsets))

    def piles(self, offsets: list[int], *, stacked: bool) -> None:
        """sum and stacked: a region's own buffers stay together, packed by themselves."""
        top: dict[str, int] = {}

        def pile(name: str) -> int:
            """Lay a region above all that must lie below it; return where it ends."""
            if name in top:
                return top[name]
            inside = [other for other in self.regions if self.runs_inside(other, name)]
            below = [pile(other) for other in inside] if stacked else list(top.values())
            base = align_up(max(below, default=self.reserved), self.alignment(name))
            inner, size = self.packed_alone(name)
            for i, offset in zip(self.own[name], inner, strict=True):
                offsets[i] = base + offset
            top[name] = base + size
            return top[name]

        with deep_recursion():
            for name in self.regions:
                pile(name)

    def packed_alone(self, name: str) -> tuple[list[int], int]:
        """A region's own buffers, packed from 0: their offsets and the bytes that they take."""
        if name not in self.packed:
            buffers = [self.problem.buffers[i] for i in self.own[name]]
            self.packed[name] = self.pack_parts(buffers)
        return self.packed[name]

    def pack_parts(self, buffers: list[Buffer]) -> tuple[list[int], int]:
        if not buffers:
            return [], 0
        ids = {buffer.id for buffer in buffers}
        part = Problem(
            buffers=tuple(buffers),
            may_coincide=tuple(pair for pair in self.problem.may_coincide if ids.issuperset(pair)),
            placements=tuple(p for p in self.problem.placements if p.inner in ids),
        )
        offsets = list(self.pack(part).offsets)
        return offsets, end_of(buffers, offsets)

    def runs_inside(self, inner: str, outer: str) -> bool:
        """Whether a region is ever active during an activation of another: spans of calls nest."""
        return inner != outer and any(
            begin <= start and stop <= end
            for begin, end in self.regions[outer].span
            for start, stop in self.regions[inner].span
        )

    def alignment(self, name: str) -> int:
        return max((self.problem.buffers[i].alignment for i in self.own[name]), default=1)

    def blocks(self, offsets: list[int]) -> None:
        """block: children first, each packed into one block that its parent then places."""
        children: dict[str, list[str]] = {name: [] for name in self.regions}
        for name, region in self.regions.items():
            if region.parent is not None:
                children[region.parent].append(name)
        layout: dict[str, dict[str, int]] = {}
        size: dict[str, int] = {}
        need: dict[str, int] = {}
        for name in reversed(self.regions):
            blocks = [
                Buffer(
                    id=_block_id(child),
                    size=size[child],
                    lifetime=merge_intervals(self.regions[child].span),
                    alignment=need[child],
                    arena=self.problem.arenas[0].id,
                )
                for child in children[name]
                if size[child]
            ]
            parts = [*(self.problem.buffers[i] for i in self.own[name]), *blocks]
            found, size[name] = self.pack_parts(parts)
            layout[name] = {part.id: offset for part, offset in zip(parts, found, strict=True)}
            need[name] = max((part.alignment for part in parts), default=1)
        base = dict.fromkeys(self.regions, 0)
        for name in self.regions:
            if self.regions[name].parent is None:
                base[name] = align_up(self.reserved, need[name])
            for i in self.own[name]:
                offsets[i] = base[name] + layout[name][self.problem.buffers[i].id]
            for child in children[name]:
                base[child] = base[name] + layout[name].get(_block_id(child), 0)


def _block_id(region: str) -> str:
    """Id of a region's block; no front end makes ids with a NUL."""
    return f"\0{region}"
