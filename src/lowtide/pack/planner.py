"""Problem -> Plan: every arena packed under a policy, and what was proved put beside it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.base.constants import DEFAULT_TIMEOUT, LIMIT
from lowtide.base.errors import InfeasibleError, InputError, LowtideError
from lowtide.base.units import format_size
from lowtide.ir.plan import ArenaUse, Plan, Progress
from lowtide.ir.problem import Placement, Problem, end_of
from lowtide.pack.arrays import to_kernel
from lowtide.pack.bounds import live_peak, lower_bound
from lowtide.pack.hierarchy import pack_hierarchy
from lowtide.pack.registry import Options, Packer, Packing, get

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lowtide.ir.problem import Arena
    from lowtide.pack.hierarchy import Hierarchy


def plan_problem(
    problem: Problem,
    *,
    packer: str = "auto",
    hierarchy: Hierarchy = "joint",
    options: Options | None = None,
    given: Mapping[int, Sequence[int]] | None = None,
) -> Plan:
    """Place every buffer of a problem.

    Args:
        problem: what to place, and the rules.
        packer: name of a registered packer.
        hierarchy: which reuse between regions is allowed.
        options: time, seed, threads.
        given: offsets that some arenas have already, by memory id; they are checked like a packer's.

    Raises:
        InfeasibleError: an arena's capacity, or a pin, cannot be kept; the message says by how much.
        InputError: there is no such packer or policy, or pins or placements contradict each other.
        UnsupportedError: the packer cannot honour something in the problem.
    """
    options = options or Options(timeout=DEFAULT_TIMEOUT)
    pack = get(packer)
    _check_pins(problem)
    began = time.perf_counter()
    offsets = [0] * len(problem.buffers)
    objects: list[int | None] = [None] * len(problem.buffers)
    uses, histories, starts = [], [], []
    interrupted = False
    for turn, arena in enumerate(problem.arenas):
        part, positions = problem.part(arena)
        peak = live_peak(part)
        floor = lower_bound(part, peak=peak)
        _check_groups(part)
        starts.append(time.perf_counter() - began)
        budget = _Budget(part, options, pack, len(problem.arenas) - turn, began, interrupted)
        if given is not None and arena.id in given:
            packing = Packing(tuple(given[arena.id]))
        else:
            packing = pack_hierarchy(part, hierarchy, budget.pack, floor)
        interrupted = budget.interrupted
        _check_packing(part, packing, packer)
        for i, position in enumerate(positions):
            offsets[position] = packing.offsets[i]
            if packing.object_ids is not None:
                objects[position] = packing.object_ids[i]
        end = max(end_of(part.buffers, packing.offsets), arena.reserved)
        use = ArenaUse(arena.id, end, peak, max(floor, packing.lower_bound))
        _check_capacity(arena, use)
        uses.append(use)
        histories.append(packing.history)
    return Plan(
        problem=problem,
        offsets=tuple(offsets),
        uses=tuple(uses),
        packer=packer,
        hierarchy=hierarchy,
        object_ids=tuple(objects) if objects and None not in objects else None,
        seconds=time.perf_counter() - began,
        history=_merge_histories(uses, histories, starts),
        interrupted=interrupted,
    )


def plan_at(problem: Problem, offsets: Sequence[int]) -> Plan:
    """The plan that somebody else made, such as the one in a file: right or wrong, as the verifier will say.

    Args:
        problem: what is placed.
        offsets: in the order of its buffers.
    """
    uses = []
    for arena in problem.arenas:
        part, positions = problem.part(arena)
        peak = live_peak(part)
        end = max(end_of(part.buffers, [offsets[i] for i in positions]), arena.reserved)
        uses.append(ArenaUse(arena.id, end, peak, lower_bound(part, peak=peak)))
    return Plan(problem, tuple(offsets), tuple(uses), packer="file")


class _Budget:
    """Shares the time that is left among arenas, and among the packings that one arena's policies need.

    Once a packing was interrupted there is no time left for any other.
    """

    def __init__(
        self,
        whole: Problem,
        options: Options,
        packer: Packer,
        arenas_left: int,
        began: float,
        interrupted: bool,
    ) -> None:
        self.whole, self.options, self.packer = whole, options, packer
        self.interrupted = interrupted
        self.alone = len({buffer.region for buffer in whole.buffers}) <= 1  # then there is one packing only
        if options.timeout is not None:
            left = max(options.timeout - (time.perf_counter() - began), 0.0)
            self.deadline = time.perf_counter() + left / arenas_left

    def pack(self, problem: Problem) -> Packing:
        """Pack with a share of the time left. A policy's own problem comes first, and seldom needs it."""
        packing = self.packer(problem, replace(self.options, timeout=self._seconds(problem)))
        self.interrupted |= packing.interrupted
        return packing

    def _seconds(self, problem: Problem) -> float | None:
        if self.interrupted:
            return _LEAST_SECONDS
        if self.options.timeout is None:
            return None
        share = _PART_SHARE if problem is not self.whole else 1.0 if self.alone else _WHOLE_SHARE
        return max(share * (self.deadline - time.perf_counter()), _LEAST_SECONDS)


_WHOLE_SHARE = 0.7
"""Of an arena's time, for a packing of all of its buffers; stricter policies get the rest."""

_PART_SHARE = 0.3
"""Of what is left, for the buffers of one region alone."""

_LEAST_SECONDS = 0.01
"""Even when time is up every packer may try its cheap heuristics."""


def _check_pins(problem: Problem) -> None:
    """Refuse pins that contradict each other before any packer trips over them."""
    pinned = tuple(buffer for buffer in problem.buffers if buffer.offset is not None)
    if not pinned:
        return
    ids = {buffer.id for buffer in pinned}
    among = replace(
        problem,
        buffers=pinned,
        may_coincide=tuple(pair for pair in problem.may_coincide if ids.issuperset(pair)),
        placements=_among(problem, ids),
        regions=(),
    )
    for arena in among.arenas:
        part, positions = among.part(arena)
        pins = [among.buffers[i].offset or 0 for i in positions]
        for kind, i, j in _kernel.check(to_kernel(part), pins, 1).violations:
            if kind == "capacity":
                continue  # the bound says this better: it counts every pin
            a = part.buffers[i].label
            other = f" and {part.buffers[j].label!r}" if j >= 0 else ""
            raise InputError(f"the pins of buffer {a!r}{other} cannot be kept ({kind}): correct or drop them")


def _among(problem: Problem, ids: set[str]) -> tuple[Placement, ...]:
    """Which of these buffers lie in one another, directly or inside others that are not among them."""
    outwards = {placement.inner: placement for placement in problem.placements}
    found = []
    for placement in problem.placements:
        step, distance = placement, placement.distance
        while step.outer not in ids and step.outer in outwards:
            step = outwards[step.outer]
            distance += step.distance
        if placement.inner in ids and step.outer in ids:
            found.append(Placement(placement.inner, step.outer, distance))
    return tuple(found)


def _check_groups(part: Problem) -> None:
    """Refuse placements that no offset can keep, because of alignments or pins."""
    found = _kernel.contradiction(to_kernel(part)) if part.placements else None
    if found is not None:
        label = part.buffers[found[0]].label
        raise InputError(f"the placements that {label!r} is part of cannot be kept: {found[1]}")


def _check_packing(part: Problem, packing: Packing, packer: str) -> None:
    """Whatever a packer returns, nobody gets a wrong plan."""
    if len(packing.offsets) != len(part.buffers):
        raise LowtideError(
            f"packer {packer!r} returned {len(packing.offsets)} offsets for {len(part.buffers)} buffers"
        )
    if any(type(offset) is not int or not 0 <= offset < LIMIT for offset in packing.offsets):
        raise LowtideError(
            f"packer {packer!r} returned an offset that is not a whole number from 0 to 2^63 - 1"
        )
    top = end_of(part.buffers, packing.offsets)
    if top >= LIMIT:
        raise LowtideError(f"packer {packer!r} returned a plan that ends beyond 2^63 - 1")
    if packing.lower_bound > max(top, part.arenas[0].reserved if part.arenas else 0):
        raise LowtideError(
            f"packer {packer!r} claims a bound of {packing.lower_bound} bytes above its own plan"
        )
    for kind, i, j in _kernel.check(to_kernel(part.without_capacity()), packing.offsets, 1).violations:
        names = " and ".join(repr(part.buffers[k].label) for k in (i, j) if k >= 0)
        raise LowtideError(f"packer {packer!r} returned a wrong plan: {kind} of {names}")


def _check_capacity(arena: Arena, use: ArenaUse) -> None:
    if arena.capacity is None or use.bytes <= arena.capacity:
        return
    found = f"the best plan found takes {_bytes(use.bytes)}"
    if use.lower_bound_bytes > arena.capacity:
        found = f"no plan takes less than {_bytes(use.lower_bound_bytes)}"
    raise InfeasibleError(f"arena {arena.id} has a capacity of {_bytes(arena.capacity)}, but {found}")


def _bytes(count: int) -> str:
    return f"{count} bytes" if count < 1024 else f"{count} bytes ({format_size(count)})"


def _merge_histories(
    uses: list[ArenaUse], histories: list[tuple[Progress, ...]], starts: list[float]
) -> tuple[Progress, ...]:
    """Histories of the arenas, which are packed in turn, as one of their sum.

    While one is packed, those before it count as they ended and those after it as they will begin.
    """
    merged: list[Progress] = []
    for turn, (history, start) in enumerate(zip(histories, starts, strict=True)):
        others = [
            (use.bytes, use.lower_bound_bytes)
            if other < turn or not histories[other]
            else (histories[other][0].arena_bytes, histories[other][0].lower_bound_bytes)
            for other, use in enumerate(uses)
            if other != turn
        ]
        arena, bound = sum(a for a, _ in others), sum(b for _, b in others)
        merged += [
            Progress(start + entry.seconds, arena + entry.arena_bytes, bound + entry.lower_bound_bytes)
            for entry in history
        ]
    return tuple(merged)
