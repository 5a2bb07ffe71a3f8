"""Which steps of a region must stay in which order.

Two steps keep their order if one writes bytes that the other touches (read after write, write after read,
write after write), through whatever views, parameters and calls; if both have side effects, random numbers
and changes of state among them; or if the caller says so. Everything else may move. A step that runs regions
counts as one step that touches what they touch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.lifetimes.liveness import bits, positions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lowtide.ir.flow import FlowGraph
    from lowtide.lifetimes.liveness import Liveness


@dataclass(frozen=True, slots=True)
class Access:
    """What one step touches that others may touch too, as bit sets of storages.

    Args:
        start, stop: when it runs, in ticks.
        reads: storages that it looks at.
        fills: storages that it writes from end to end, and of which it does not look at the old bytes.
        changes: storages of which it writes something.
        effects: whether it has side effects, or changes state.
        inner: storages of the regions that it runs, which nobody else sees.
        scratch: storages that it fills and that mean nothing to other steps.
    """

    start: int
    stop: int
    reads: int
    fills: int
    changes: int
    effects: bool
    inner: int = 0
    scratch: int = 0

    @property
    def touched(self) -> int:
        """All storages that it touches and others may see."""
        return self.reads | self.fills | self.changes | self.scratch


class RegionLayout:
    """When each step of each activation runs on the clock of a flow graph, and what it touches.

    Args:
        flow: program points.
        liveness: of its storages.
    """

    def __init__(self, flow: FlowGraph, liveness: Liveness) -> None:
        self.flow, self.liveness = flow, liveness
        self.spans: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
        self.edges: dict[int, list[int]] = defaultdict(list)
        """For each activation its points that belong to no step: entry, copies at the end, exit."""
        for tick, point in enumerate(flow.points):
            activation, step = point.activation, point.step
            if step < 0:
                self.edges[activation].append(tick)
            while True:
                if step >= 0:
                    first, _ = self.spans[activation].get(step, (tick, tick))
                    self.spans[activation][step] = (first, tick + 1)
                parent = flow.activations[activation].parent
                if parent is None:
                    break
                activation, step = parent, flow.activations[activation].call_step
        storages = flow.program.storages
        self.stateful = bits(
            i for i, s in enumerate(storages) if s.persistent or s.kind in ("state", "input")
        )

    def live_in(self, tick: int) -> int:
        """Storages alive when a point begins."""
        point = self.flow.points[tick]
        into = self.liveness.live_after(tick).difference(point.full_writes).union(point.all_reads)
        known = (self.liveness.live_after(predecessor) for predecessor in self.flow.predecessors[tick])
        return bits(into.intersection(set().union(*known)))

    def access(self, activation: int, position: int) -> Access:
        """What a step of an activation touches."""
        flow = self.flow
        start, stop = self.spans[activation][position]
        step = flow.program.regions[flow.activations[activation].region].steps[position]
        reads = fills = changes = 0
        effects = step.effects and step.call is None
        inside = set()
        for tick in range(start, stop):
            point = flow.points[tick]
            reads |= bits(point.all_reads)
            fills |= bits(point.full_writes)
            changes |= bits(point.partial_writes)
            inner = flow.activations[point.activation].region
            if point.activation != activation:
                inside.add(inner)
                if point.kind == "step":
                    effects |= flow.program.regions[inner].steps[point.step].effects
        if step.call is None:
            effects |= bool((fills | changes) & self.stateful)
            scratch = bits(step.scratch)
            changes |= fills & reads & ~scratch
            return Access(start, stop, reads, fills & ~(reads | scratch), changes, effects, scratch=scratch)
        own = bits(i for i, s in enumerate(flow.program.storages) if s.region in inside)
        own &= ~(self.live_in(start) | self.live_in(stop) | self.stateful)
        named = bits(
            storage
            for value in (*step.call.results, *step.call.carries)
            if value is not None and (storage := flow.program.values[value].storage) is not None
        )
        touched = (reads | fills | changes) & ~own
        effects |= bool((fills | changes) & self.stateful)
        filled = fills & named & touched & ~self.live_in(start)
        changed = (fills | changes) & touched & ~filled
        return Access(start, stop, reads & touched & ~filled, filled, changed, effects, own)


def dependences(
    accesses: Iterable[list[Access]], edges: Iterable[tuple[int, int]], leaders: Mapping[int, int]
) -> tuple[int, ...]:
    """For each step of a region all steps that must run before it, as a bit set.

    Args:
        accesses: what the steps touch, one list an activation of the region.
        edges: more pairs of steps that keep their order, the earlier first.
        leaders: for storages that share a buffer, the one that stands for all; they are taken for one.
    """
    nearest: dict[int, int] = defaultdict(int)
    count = 0
    for first, second in edges:
        nearest[second] |= 1 << first
    for steps in accesses:
        count = len(steps)
        written: dict[int, int] = {}
        read: dict[int, int] = defaultdict(int)
        effect: int | None = None
        for position, access in enumerate(steps):
            writes = {leaders.get(s, s) for s in positions(access.fills | access.changes)}
            for storage in {leaders.get(s, s) for s in positions(access.reads)} - writes:
                if storage in written:
                    nearest[position] |= 1 << written[storage]
                read[storage] |= 1 << position
            for storage in writes:
                if storage in written:
                    nearest[position] |= 1 << written[storage]
                nearest[position] |= read.pop(storage, 0)
                written[storage] = position
            if access.effects:
                if effect is not None:
                    nearest[position] |= 1 << effect
                effect = position
    earlier: list[int] = []
    for position in range(count):
        found = nearest[position]
        for other in positions(nearest[position]):
            found |= earlier[other]
        earlier.append(found)
    return tuple(earlier)
