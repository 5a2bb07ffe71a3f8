"""The order of least peak, proved: best-first search over the sets of steps that may have run.

What is alive depends only on which steps have run, so one search node a set is enough, and the least peak of
all ways to it is all that must be known of them: the dynamic program over zero-indegree sets of Ahn et al.
(*Ordering chaos: memory-aware scheduling of irregularly wired neural networks for edge devices*, MLSys 2020).
Sets are taken in the order of that peak, as in Dijkstra's algorithm with maxima for sums, so that none is
looked at whose peak exceeds the least; when time runs out, the peak reached is a lower bound. Two things keep
the number of sets small: units (``units``), and that whatever needs no more than is needed anyway, and leaves
no more alive than before, is run at once without looking at alternatives.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.transforms.reorder.pieces import Unit
    from lowtide.transforms.reorder.work import Model


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """How much a search may cost.

    Args:
        nodes: sets of steps that it may look at.
        seconds: None for no limit; with one, the answer may depend on the clock.
    """

    nodes: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class FoundOrder:
    """What a search found.

    Args:
        order: of least peak; None if the budget was spent before, or no order's peak is below the ceiling.
        bound: no order's peak is below this.
        nodes: how many sets of steps were looked at.
    """

    order: tuple[int, ...] | None
    bound: int
    nodes: int


def run_unit(model: Model, unit: Unit, done: int, live: int) -> tuple[int, int, int]:
    """Run a unit: the most bytes that it needs, those alive after it, and the steps that have run then."""
    if unit.profile is not None:
        hill, net = unit.profile
        return live + hill, live + net, done | unit.members
    peak = 0
    for step in unit.steps:
        most, live = model.run(step, done, live)
        done |= 1 << step
        peak = max(peak, most)
    return peak, live, done


class Search:
    """One search for the order of least peak of a model.

    Args:
        model: what is ordered.
        units: its units.
        threshold: peaks up to this are all the same.
        ceiling: only orders whose peak is below this are of interest; None for all.
    """

    def __init__(
        self, model: Model, units: Sequence[Unit], threshold: int = 0, ceiling: int | None = None
    ) -> None:
        self.model, self.units = model, units
        self.threshold = max(threshold, model.bound)
        self.ceiling = ceiling
        self.came_from: dict[int, tuple[int, tuple[int, ...]]] = {}
        """For each set of steps that was reached: the set before it, and the units that led from there."""
        self.least: dict[int, int] = {}
        self.following: list[list[int]] = [[] for _ in units]
        """For each unit those of which it may be the last that they wait for."""
        home = {step: position for position, unit in enumerate(units) for step in unit.steps}
        for position, unit in enumerate(units):
            left = unit.earlier
            while left:
                near = home[left.bit_length() - 1]
                self.following[near].append(position)
                left &= ~(units[near].earlier | units[near].members)

    def run(self, budget: SearchBudget) -> FoundOrder:
        """Search until an order is proved to be of least peak, or the budget is spent."""
        began = time.perf_counter()
        everything = self.model.everything
        start = self.model.live(0)
        pushed = nodes = 0
        queue = [(self.threshold, 0, 0, 0, start)]
        self.least[0] = self.threshold
        while queue:
            peak, _, _, done, live = heapq.heappop(queue)
            if peak > self.least[done]:
                continue
            if done == everything:
                return FoundOrder(self.order(), peak, nodes)
            nodes += 1
            late = budget.seconds is not None and nodes % 256 == 0
            if nodes > budget.nodes or (late and time.perf_counter() - began > (budget.seconds or 0)):
                return FoundOrder(None, peak, nodes)
            for most, after, reached, path in self.branches(peak, done, live):
                if self.ceiling is not None and most >= self.ceiling:
                    continue
                if most < self.least.get(reached, most + 1):
                    self.least[reached] = most
                    self.came_from[reached] = (done, path)
                    pushed += 1
                    heapq.heappush(queue, (most, -reached.bit_count(), pushed, reached, after))
        assert self.ceiling is not None
        return FoundOrder(None, max(self.ceiling, self.threshold), nodes)

    def branches(self, peak: int, done: int, live: int) -> list[tuple[int, int, int, tuple[int, ...]]]:
        """Where to go from a set of steps: peak, live bytes, the set reached, the units that lead there."""
        path: list[int] = []
        missing = ~done
        ready = [
            position
            for position, unit in enumerate(self.units)
            if not unit.earlier & missing and not done >> unit.steps[0] & 1
        ]
        while True:
            found = []
            for position in ready:
                most, after, reached = run_unit(self.model, self.units[position], done, live)
                if most <= peak and after <= live:
                    break
                found.append((max(peak, most), after, reached, (*path, position)))
            else:
                return found or [(peak, live, done, tuple(path))]
            path.append(position)
            done, live, missing = reached, after, ~reached
            ready.remove(position)
            ready += [other for other in self.following[position] if not self.units[other].earlier & missing]
            ready.sort()

    def order(self) -> tuple[int, ...]:
        """The steps on the way to the set of all steps."""
        units: list[int] = []
        done = self.model.everything
        while done:
            done, path = self.came_from[done]
            units[:0] = path
        return tuple(step for position in units for step in self.units[position].steps)


def orders_below(model: Model, ceiling: int, most: int) -> Iterator[tuple[int, ...]]:
    """Orders whose peak is below a ceiling, so many at the most."""

    def extend(done: int, live: int, order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if done == model.everything:
            yield order
        for step in range(model.count):
            if not done >> step & 1 and not model.earlier[step] & ~done:
                peak, after = model.run(step, done, live)
                if peak < ceiling:
                    yield from extend(done | 1 << step, after, (*order, step))

    if model.floor < ceiling:
        yield from islice(extend(0, model.live(0), ()), most)
