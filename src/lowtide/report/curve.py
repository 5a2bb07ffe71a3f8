"""The curve of live bytes of one arena: its peak, its summits, and what it would be without a buffer."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.ir.problem import merge_intervals
from lowtide.pack.arrays import to_kernel

if TYPE_CHECKING:
    from lowtide.ir.problem import Lifetime, Problem


@dataclass(frozen=True)
class Curve:
    """``bytes[i]`` are alive from ``ticks[i]`` until ``ticks[i + 1]``; neighbours differ; the last is 0."""

    ticks: tuple[int, ...]
    bytes: tuple[int, ...]

    @property
    def peak(self) -> int:
        """The most bytes alive at any tick."""
        return max(self.bytes, default=0)

    def at(self, tick: int) -> int:
        """Bytes alive at a tick."""
        position = bisect_right(self.ticks, tick) - 1
        return self.bytes[position] if position >= 0 else 0

    def lasts(self) -> Lifetime:
        """When the peak is reached."""
        peak = self.peak
        found = [
            (start, stop)
            for start, stop, size in zip(self.ticks, self.ticks[1:], self.bytes, strict=False)
            if size == peak
        ]
        return merge_intervals(found)

    def summits(self, count: int) -> list[int]:
        """First ticks of the highest local maxima, highest first, then earliest."""
        padded = (0, *self.bytes, 0)
        found = [i for i in range(len(self.bytes)) if padded[i] < padded[i + 1] > padded[i + 2]]
        found.sort(key=lambda i: (-self.bytes[i], i))
        return [self.ticks[i] for i in found[:count]]

    def next_highest(self) -> int | None:
        """First tick of the most bytes below the peak; None if there is nothing between it and 0."""
        peak = self.peak
        below = max((size for size in self.bytes if size < peak), default=0)
        return self.ticks[self.bytes.index(below)] if below else None

    @cached_property
    def _by_height(self) -> list[int]:
        return sorted(range(len(self.bytes)), key=lambda i: -self.bytes[i])

    def without(self, size: int, lifetime: Lifetime) -> int:
        """The peak if a buffer of this size and lifetime were gone."""
        lifetime = merge_intervals(lifetime)
        starts = [start for start, _ in lifetime]
        inside = 0
        for i in self._by_height:
            height = self.bytes[i]
            if height <= inside:
                break
            # A stretch of one height may be that of several buffers in turn, and this one's only in part.
            at = bisect_right(starts, self.ticks[i]) - 1
            if at < 0 or lifetime[at][1] < self.ticks[i + 1]:
                return height
            inside = max(inside, height - size)
        return inside


def floor_of(part: Problem) -> Problem:
    """One arena's buffers, each alive only while it needs bytes of its own.

    At any one time a buffer inside another that is alive needs none, and of buffers that may coincide those
    do of which no two may. The live peak of what remains is a lower bound, whatever shares bytes.
    """
    return _apart(part) if part.has_permissions else part


def _apart(part: Problem) -> Problem:
    outer = {part.index[p.inner]: part.index[p.outer] for p in part.placements}
    twins: dict[int, set[int]] = {}
    for a, b in part.may_coincide:
        twins.setdefault(part.index[a], set()).add(part.index[b])
        twins.setdefault(part.index[b], set()).add(part.index[a])
    linked = sorted({*outer, *outer.values(), *twins})
    events: dict[int, list[tuple[int, bool]]] = {}
    for i in linked:
        for start, stop in merge_intervals(part.buffers[i].lifetime):
            events.setdefault(start, []).append((i, True))
            events.setdefault(stop, []).append((i, False))
    kept: dict[int, list[tuple[int, int]]] = {i: [] for i in linked}
    alive: set[int] = set()
    ticks = sorted(events)
    for tick, following in zip(ticks, [*ticks[1:], ticks[-1] if ticks else 0], strict=True):
        for i, begins in events[tick]:
            (alive.add if begins else alive.discard)(i)
        for i in _disjoint(alive, outer, twins):
            kept[i].append((tick, following))
    buffers = []
    for i, buffer in enumerate(part.buffers):
        if i not in kept:
            buffers.append(buffer)
        elif kept[i]:
            buffers.append(replace(buffer, lifetime=merge_intervals(kept[i])))
    return replace(part, buffers=tuple(buffers), may_coincide=(), placements=())


def _disjoint(alive: set[int], outer: dict[int, int], twins: dict[int, set[int]]) -> list[int]:
    """Of linked buffers that are alive together, those of which no two can share bytes; as the kernel does.

    Twins are of one size, so that it does not matter which of them stay: fewest twins first.
    """
    left = []
    for i in sorted(alive):
        around = outer.get(i)
        while around is not None and around not in alive:
            around = outer.get(around)
        if around is None:
            left.append(i)
    degree = {i: len(twins.get(i, set()).intersection(left)) for i in left}
    found = [i for i in left if not degree[i]]
    undecided = {i for i in left if degree[i]}
    while undecided:
        chosen = min(undecided, key=lambda i: (degree[i], i))
        found.append(chosen)
        undecided.discard(chosen)
        for other in twins[chosen] & undecided:
            undecided.discard(other)
            for further in twins[other] & undecided:
                degree[further] -= 1
    return found


def live_curve(part: Problem) -> Curve:
    """The curve of one arena's problem, without its reserved prefix; see ``floor_of``."""
    ticks, sizes = _kernel.live_curve(to_kernel(part))
    return Curve(tuple(ticks), tuple(sizes))


def live_peaks(problem: Problem) -> dict[int, int]:
    """The live peak of each arena by memory id, reserved prefixes included.

    Bytes that live buffers may share are counted once; see ``floor_of``.
    """
    found = {}
    for arena in problem.arenas:
        part, _ = problem.part(arena)
        found[arena.id] = live_curve(floor_of(part)).peak + arena.reserved
    return found


def without_buffers(problem: Problem, ids: set[str]) -> Problem:
    """The problem without some buffers, and the rules that name them."""
    return replace(
        problem,
        buffers=tuple(buffer for buffer in problem.buffers if buffer.id not in ids),
        may_coincide=tuple(pair for pair in problem.may_coincide if ids.isdisjoint(pair)),
        placements=tuple(p for p in problem.placements if ids.isdisjoint((p.inner, p.outer))),
    )
