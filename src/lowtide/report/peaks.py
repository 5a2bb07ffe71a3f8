"""The peak of every arena, the buffers alive at it, and how long each has waited."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from lowtide.report.curve import Curve, floor_of, live_curve
from lowtide.report.findings import Alive, Moment, Peak, Touch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Arena, Buffer, Problem

SUMMITS = 5
"""Local maxima that an explanation lists."""


def find_peaks(problem: Problem, flow: FlowGraph | None, plan: Plan | None) -> tuple[Peak, ...]:
    """The peak of each arena that holds anything."""
    found = []
    for position, arena in enumerate(problem.arenas):
        part = floor_of(problem.part(arena)[0])
        curve = live_curve(part)
        if curve.peak == 0:
            continue
        use = None if plan is None else plan.uses[position]
        found.append(
            _peak(
                arena,
                part,
                curve,
                flow,
                None if use is None else use.bytes,
                curve.peak + arena.reserved if use is None else use.lower_bound_bytes,
            )
        )
    return tuple(found)


def _peak(
    arena: Arena, part: Problem, curve: Curve, flow: FlowGraph | None, arena_bytes: int | None, bound: int
) -> Peak:
    lasts = curve.lasts()
    tick = lasts[0][0]
    alive = sorted(
        (b for b in part.buffers if b.size and any(start <= tick < stop for start, stop in b.lifetime)),
        key=lambda buffer: -buffer.size,
    )
    touches = None if flow is None else Touches(flow, tick)
    begins: dict[int, Buffer] = {}
    for buffer in part.buffers:
        for start, _ in buffer.lifetime:
            begins.setdefault(start, buffer)

    def moment(at: int) -> Moment:
        size = curve.at(at) + arena.reserved
        if flow is not None:
            return _moment_of(flow, at, size)
        first = begins.get(at)
        if first is None:
            return Moment(at, f"tick {at}", size)
        return Moment(at, first.label, size, first.operator, first.source)

    below = curve.next_highest()
    return Peak(
        arena=arena.id,
        bytes=curve.peak + arena.reserved,
        lower_bound_bytes=bound,
        arena_bytes=arena_bytes,
        reserved=arena.reserved,
        at=moment(tick),
        lasts=lasts,
        alive=tuple(_alive(buffer, curve, touches) for buffer in alive),
        next=None if below is None else moment(below),
        summits=tuple(map(moment, curve.summits(SUMMITS))),
    )


def _moment_of(flow: FlowGraph, tick: int, size: int) -> Moment:
    point = flow.points[tick]
    activation, position = flow.activations[point.activation], point.step
    if position < 0 and activation.parent is not None:  # a region returns: named after whoever called it
        activation, position = flow.activations[activation.parent], activation.call_step
    steps = flow.program.regions[activation.region].steps
    step = steps[position] if position >= 0 else None
    return Moment(
        tick,
        flow.describe(tick),
        size,
        None if step is None else step.operator,
        None if step is None else step.source,
    )


def _alive(buffer: Buffer, curve: Curve, touches: Touches | None) -> Alive:
    written = read = idle = None
    if touches is not None:
        written, read, idle = touches.of(buffer)
    return Alive(
        name=buffer.label,
        bytes=buffer.size,
        lifetime=buffer.lifetime,
        wins=curve.peak - curve.without(buffer.size, buffer.lifetime),
        kind=buffer.kind,
        region=buffer.region,
        dtype=buffer.dtype,
        shape=buffer.shape,
        operator=buffer.operator,
        source=buffer.source,
        written=written,
        read=read,
        idle=idle,
    )


class Touches:
    """Who touches a buffer before and after one tick, by the shortest path through the program points.

    Two breadth-first searches, one along the edges and one against them, serve all buffers.
    """

    def __init__(self, flow: FlowGraph, tick: int) -> None:
        self.flow, self.tick = flow, tick
        self.positions = {storage.name: i for i, storage in enumerate(flow.program.storages)}
        self.reads: dict[int, list[int]] = {}
        self.writes: dict[int, list[int]] = {}
        for at, point in enumerate(flow.points):
            for storage in set(point.all_reads):
                self.reads.setdefault(storage, []).append(at)
            for storage in {*point.full_writes, *point.partial_writes}:
                self.writes.setdefault(storage, []).append(at)
        self.ahead = _distances(tick, [point.successors for point in flow.points])
        self.behind = _distances(tick, flow.predecessors)

    def storages(self, buffer: Buffer) -> list[int]:
        """Positions of the storages that the buffer holds."""
        names = buffer.members or (buffer.id,)
        return [self.positions[name] for name in names if name in self.positions]

    def of(self, buffer: Buffer) -> tuple[Touch | None, Touch | None, bool]:
        """The last write, the next read, and whether the tick itself touches it in neither way."""
        storages = self.storages(buffer)
        reads = [at for storage in storages for at in self.reads.get(storage, ())]
        writes = [at for storage in storages for at in self.writes.get(storage, ())]
        idle = self.tick not in reads and self.tick not in writes
        return self._nearest(writes, self.behind), self._nearest(reads, self.ahead), idle

    def last_use(self, buffer: Buffer) -> Touch | None:
        """The last step before the tick, or at it, that reads or writes the buffer."""
        storages = self.storages(buffer)
        uses = [at for s in storages for at in (*self.reads.get(s, ()), *self.writes.get(s, ()))]
        return self._nearest(uses, self.behind)

    def _nearest(self, ticks: Sequence[int], distances: dict[int, int]) -> Touch | None:
        reachable = [(distances[at], at) for at in ticks if at in distances]
        if not reachable:
            return None
        away, at = min(reachable)
        return Touch(self.flow.describe(at), at, away)


def _distances(start: int, edges: Sequence[Sequence[int]]) -> dict[int, int]:
    """Edges on the shortest path from ``start`` to everything that can be reached."""
    found = {start: 0}
    queue = deque([start])
    while queue:
        at = queue.popleft()
        for following in edges[at]:
            if following not in found:
                found[following] = found[at] + 1
                queue.append(following)
    return found
