"""The curve of live bytes of one arena: its peak, its summits, and what it would be without a buffer."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.arrays import to_kernel
from lowtide.pack.bounds import without_sharing
from lowtide.problem import merge_intervals

if TYPE_CHECKING:
    from lowtide.problem import Lifetime, Problem


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
    """The buffers of one arena that need bytes of their own."""
    return without_sharing(part) if part.has_permissions else part


def live_curve(part: Problem) -> Curve:
    """The curve of one arena's problem, without its reserved prefix; see ``floor_of``."""
    ticks, sizes = _kernel.live_curve(to_kernel(part))
    return Curve(tuple(ticks), tuple(sizes))


def live_peaks(problem: Problem) -> dict[int, int]:
    """The live peak of each arena by memory id, reserved prefixes included.

    Bytes that live buffers may share are counted once.
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
