"""Program points with successor edges: the form that liveness, verifier and replay share.

A front end that has a control-flow graph already makes a FlowGraph itself; ``lowering`` makes one of
a Program's regions. The position of a point is its tick on the one clock.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lowtide.ir.program import Program

PointKind = Literal["entry", "step", "select", "test", "next", "copy", "exit"]


@dataclass(frozen=True, slots=True)
class Ref:
    """A value in one activation of its region."""

    activation: int
    value: int


@dataclass(frozen=True, slots=True)
class Binding:
    """What a parameter stands for during one activation.

    Args:
        ref: the caller's value; None if it holds no tensor that anybody tracks.
        part: None for the whole of it; 0 for the loop's current slice, -1 for the one before.
    """

    ref: Ref | None
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Activation:
    """One laid-out run of a region: which region, who called it, and what its parameters stand for."""

    region: int
    parent: int | None
    call_step: int
    bindings: dict[int, Binding]


@dataclass(frozen=True, slots=True)
class Bytes:
    """Where a value's bytes may be: storages, and the layout if it covers one from end to end."""

    storages: tuple[int, ...]
    layout: str


@dataclass(frozen=True, slots=True)
class Copy:
    """``target := source``, one of the copies that a point makes all at once, or its only one.

    Args:
        target, source: the values; a None source holds no tensor.
        target_storage: the storage filled, or None where the target holds no tensor.
        source_storages: where the source's bytes may be.
        same_layout: whether the bytes arrive as they are, so that both could share one buffer.
        part: None to fill the whole target; otherwise only the loop's current slice (0), or the
            first slice from the first slice of the source (-1).
    """

    target: Ref | None
    source: Ref | None
    target_storage: int | None
    source_storages: tuple[int, ...]
    same_layout: bool
    part: int | None = None


@dataclass(frozen=True, slots=True)
class SameBytes:
    """After a point, storage ``inner`` holds what storage ``outer`` holds from ``distance`` bytes on."""

    inner: int
    outer: int
    distance: int


@dataclass(frozen=True, slots=True)
class Point:
    """One tick: what is read, then what is written, and where control may go next.

    Args:
        kind: entry and exit of the program; a step; select one of the successors by a value; test: the
            first successor if the value is true, else the second; next: the first successor while a
            scan has slices left, else the second; copy: parallel copies at a call's start, a region's
            end or a loop's back edge, or one of those that are made one after another.
        activation: position of the running activation.
        step: position in the region's steps of the step at work, or of the call that this belongs to.
        reads, writes, partial: positions of storages; ``writes`` are written from end to end.
        copies: made all at once: every source is read before any target is written, but for those among
            ``reads``, which are read while the targets are written.
        decides: the value that select and test look at.
        successors: positions of points.
        overwrites: pairs of storages ``(written, read)`` that may lie in exactly the same bytes.
        matches: storages, one written and one read, that are the same bytes afterwards.
    """

    kind: PointKind
    activation: int
    step: int = -1
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    partial: tuple[int, ...] = ()
    copies: tuple[Copy, ...] = ()
    decides: Ref | None = None
    successors: tuple[int, ...] = ()
    overwrites: tuple[tuple[int, int], ...] = ()
    matches: tuple[SameBytes, ...] = ()

    @property
    def all_reads(self) -> Iterator[int]:
        """Storages read, by the step itself or as the source of a copy."""
        yield from self.reads
        for copy in self.copies:
            yield from copy.source_storages

    @property
    def full_writes(self) -> Iterator[int]:
        """Storages written from end to end."""
        yield from self.writes
        for copy in self.copies:
            if copy.target_storage is not None and copy.part is None:
                yield copy.target_storage

    @property
    def partial_writes(self) -> Iterator[int]:
        """Storages of which some bytes are written."""
        yield from self.partial
        for copy in self.copies:
            if copy.target_storage is not None and copy.part is not None:
                yield copy.target_storage


@dataclass(frozen=True)
class FlowGraph:
    """Program points in clock order. ``spans`` says when each region runs, one interval an activation."""

    program: Program
    points: tuple[Point, ...]
    activations: tuple[Activation, ...]
    spans: tuple[tuple[int, int, int], ...]

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the points from which each point can be reached in one move."""
        found: list[list[int]] = [[] for _ in self.points]
        for tick, point in enumerate(self.points):
            for successor in point.successors:
                found[successor].append(tick)
        return tuple(map(tuple, found))

    @cached_property
    def blocks(self) -> dict[int, range]:
        """Points that run one after the other and no other way, by the first of them, in clock order."""
        found: dict[int, range] = {}
        first = 0
        for tick, point in enumerate(self.points):
            following = tick + 1
            if point.successors != (following,) or self.predecessors[following] != (tick,):
                found[first] = range(first, following)
                first = following
        return found

    @cached_property
    def blocks_before(self) -> dict[int, tuple[int, ...]]:
        """For each block those from whose ends it can be reached in one move, by their first points."""
        starts = {block[-1]: first for first, block in self.blocks.items()}
        return {first: tuple(starts[tick] for tick in self.predecessors[first]) for first in self.blocks}

    def describe(self, tick: int) -> str:
        """What happens at a tick, for people: ``root/true_graph_0/mul``."""
        point = self.points[tick]
        region = self.program.regions[self.activations[point.activation].region]
        if point.kind in ("entry", "exit"):
            return f"{region.name} {point.kind}"
        if 0 <= point.step < len(region.steps):
            name = f"{region.name}/{region.steps[point.step].name}"
            return name if point.kind == "step" else f"{name} ({point.kind})"
        return f"{region.name} (return)"


def spans_by_region(flow: FlowGraph) -> dict[int, list[tuple[int, int]]]:
    """When each region runs: one half-open interval for each of its activations."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for region, start, stop in flow.spans:
        found[region].append((start, stop))
    return found
