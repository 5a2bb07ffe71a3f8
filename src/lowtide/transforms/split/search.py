"""Which segments to run in parts, along which axes, and in how many: least work for a peak.

Segments begin and end where few bytes are alive. What is alive there does not depend on how the steps between
are run, so a choice of segments is a path from the first step to the last, its peak is the largest along it,
and its work the sum: for any limit on the peak the cheapest choice is a shortest path. Bisection over the
limit gives the least peak that a budget of multiply-adds buys, and the trade between the two on the way.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from math import inf, isqrt
from typing import TYPE_CHECKING

from lowtide.transforms.split.live import Lives
from lowtide.transforms.split.rules import shape_of, value_of
from lowtide.transforms.split.segments import UNITS, cuts, grow, plan_parts
from lowtide.transforms.split.tape import Tape
from lowtide.transforms.split.work import macs_of, total_macs

if TYPE_CHECKING:
    from torch import fx
    from torch.export import ExportedProgram

    from lowtide.transforms.split.segments import Interval, Run, Segment

_COUNTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128)
"""Numbers of parts that are tried."""

_REACH = 14
"""A segment spans at most so many places where few bytes are alive: overlaps pile up in longer ones."""

_LONG = 4
"""Steps with the same bytes alive: a long stretch."""

_SOME, _EVERY = 7, 1 << 30
"""A way to run a segment is first judged by so many of its parts, and by all of them before it is chosen."""

_CLOSE = 1.005
"""Bisection ends when the limit that can be held and the one that cannot are as close as this."""


@dataclass(frozen=True)
class Option:
    """One way to run a range of steps.

    Args:
        segment: those of them that run in parts.
        count: number of parts.
        keeps: whether overlaps are kept, not computed again.
        peak: most bytes alive meanwhile.
        macs: multiply-adds more than whole.
        entries: calls that run instead of the segment's steps.
        tape: these calls; None while the numbers are told from some of the parts.
    """

    segment: Segment
    count: int
    keeps: bool
    peak: int
    macs: int
    entries: int
    tape: Tape | None = None


@dataclass(frozen=True)
class Choice:
    """Segments to run in parts.

    Args:
        options: one a segment, in order.
        peak: most bytes alive, as the quick judge counts.
        macs: multiply-adds more than without.
    """

    options: tuple[Option, ...]
    peak: int
    macs: int


@dataclass
class Search:
    """All that is known of the ways to run a program in parts.

    Args:
        program: an export whose nodes carry fake tensors.
        max_macs: the work allowed, as a multiple of the program's.
        deadline: on the clock of ``time.monotonic``; None for as long as it takes.
    """

    program: ExportedProgram
    max_macs: float = 1.10
    deadline: float | None = None
    front: list[Choice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lives = Lives(self.program)
        self.steps = self.lives.steps
        self.macs = total_macs(self.steps)
        self.budget = int(self.macs * (self.max_macs - 1))
        self._whole = [self.lives.whole_peak(place) for place in range(len(self.steps))]
        self._places = self._quiet_places()
        self._options: dict[tuple[int, int], list[Option]] = {}

    @property
    def whole_peak(self) -> int:
        """The peak without any parts."""
        return max(self._whole, default=0)

    @property
    def is_late(self) -> bool:
        """Whether the deadline is over."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def least(self) -> Choice:
        """The choice of least peak within the budget; of those the one of least work."""
        good, high, low = Choice((), self.whole_peak, 0), self.whole_peak, 0
        for start in self._places:
            low = max(low, self.lives.crossing(start)) if start in (0, len(self.steps)) else low
        low = max(low - 1, 0)
        while high > low * _CLOSE and high - low > 16 and not self.is_late:
            limit = max(isqrt(low * high), (low * 3 + high) // 4)
            found = self.within(limit)
            if found is None:
                low = limit
            else:
                good, high = found, found.peak
        return good if self.is_late else self.within(high) or good

    def within(self, limit: int) -> Choice | None:
        """The choice of least work whose peak is within a limit; None if the budget buys none.

        Args:
            limit: bytes.
        """
        while True:
            options = self._shortest(limit)
            if options is None:
                return None
            rough = [option for option in options if option.tape is None]
            if not rough:
                break
            for option in rough:
                self._make_exact(option)
        whole = set(range(len(self.steps)))
        for option in options:
            whole.difference_update(range(option.segment.first, option.segment.last + 1))
        peaks = [self._whole[place] for place in whole] + [option.peak for option in options]
        found = Choice(tuple(options), max(peaks, default=0), sum(option.macs for option in options))
        self.front.append(found)
        return found

    def _shortest(self, limit: int) -> list[Option] | None:
        """The cheapest path from the first step to the last, of which nothing has a peak above a limit."""
        count = len(self.steps)
        hot = [0]
        for peak in self._whole:
            hot.append(hot[-1] + (peak > limit))
        best: list[tuple[float, int]] = [(inf, 0)] * (count + 1)
        best[0] = (0, 0)
        came: list[tuple[int, Option | None]] = [(0, None)] * (count + 1)
        index = {place: i for i, place in enumerate(self._places)}
        for place in range(count):
            if best[place][0] > self.budget:
                continue
            macs, entries = best[place]
            if self._whole[place] <= limit and best[place] < best[place + 1]:
                best[place + 1], came[place + 1] = best[place], (place, None)
            if place not in index or self.lives.crossing(place) > limit:
                continue
            for end in self._places[index[place] + 1 : index[place] + 1 + _REACH]:
                if hot[end] == hot[place] or self.lives.crossing(end) > limit:
                    continue
                for option in self.options(place, end - 1):
                    new = (macs + option.macs, entries + option.entries)
                    if option.peak <= limit and new < best[end]:
                        best[end], came[end] = new, (place, option)
        if best[count][0] > self.budget:
            return None
        chosen, place = [], count
        while place:
            place, found = came[place]
            chosen += [] if found is None else [found]
        return chosen[::-1]

    def _quiet_places(self) -> list[int]:
        """Both ends of every stretch in which fewer bytes are alive than before and after it.

        So many bytes may be alive for long, and then fewer: the end of such a stretch is a place too, since a
        segment that begins in front of it may never have them whole.
        """
        count = len(self.steps)
        alive = [self.lives.crossing(place) for place in range(count + 1)]
        found = {0, count}
        start = 0
        for place in range(1, count + 1):
            if alive[place] == alive[start]:
                continue
            if alive[place] < alive[start]:
                found |= {place - 1} if place - start >= _LONG else set()
            elif start == 0 or alive[start - 1] > alive[start]:
                found |= {start, place - 1}
            start = place
        return sorted(found)

    def options(self, first: int, last: int) -> list[Option]:
        """Ways to run a range of steps in parts, none of which is worse than another in peak and work."""
        known = self._options.get((first, last))
        if known is None:
            known = self._options[first, last] = _undominated(self._try(first, last))
        return known

    def _make_exact(self, option: Option) -> None:
        """Put numbers that are told from all parts in the place of an option's."""
        segment = option.segment
        known = self._options[segment.first, segment.last]
        known.remove(option)
        exact = self._option(segment, option.count, option.keeps, _EVERY)
        if exact is not None:
            known.append(exact)

    def _try(self, first: int, last: int) -> Iterator[Option]:
        value = value_of(self.steps[last])
        tried: list[tuple[int, set[fx.Node]]] = []
        for axis, size in enumerate([] if value is None else value.shape):
            segment = grow(self.steps, first, last, axis) if size > 1 else None
            if segment is None or (size, set(segment.axes)) in tried:
                continue  # columns are no better than as many rows
            tried.append((size, set(segment.axes)))
            for keeps in (False, True):
                yield from self._counts(segment, size, keeps)

    def _counts(self, segment: Segment, size: int, keeps: bool) -> Iterator[Option]:
        least, before, worse = max(self._whole[segment.first : segment.last + 1]), 0, 0
        for count in (*(c for c in _COUNTS if c < size), *((size,) if size <= _COUNTS[-1] else ())):
            if self.is_late or worse > 3:
                return
            option = self._option(segment, count, keeps, _SOME)
            if option is None:
                continue
            if option.macs > self.budget:
                return
            worse = worse + 1 if before and option.peak > before else 0
            before = option.peak
            if option.peak < least:
                least = option.peak
                yield option

    def _option(self, segment: Segment, count: int, keeps: bool, some: int) -> Option | None:
        """A way to run a segment; None if it is none.

        Args:
            segment: the steps.
            count: of its parts.
            keeps: whether overlaps are kept.
            some: how many parts to look at; if there are more, those in the middle are taken to be alike.
        """
        size = shape_of(segment.end)[segment.axes[segment.end]]
        for unit in UNITS:
            found = self._option_in_units(segment, cuts(size, count, unit), keeps, some)
            if found is not None:
                return found
        return None

    def _option_in_units(
        self, segment: Segment, intervals: list[Interval], keeps: bool, some: int
    ) -> Option | None:
        """A way to run a segment in given parts."""
        count = len(intervals)
        if not count:
            return None
        alike = max(count - some, 0)
        if alike:
            # What is kept comes from the part before: of the last ones alone it would not be known.
            intervals = intervals[:some] if keeps else intervals[: some - 2] + intervals[-2:]
        plans = plan_parts(segment, intervals, keeps=keeps, covers=not alike)
        if plans is None or (keeps and not any(run.start < run.fresh for plan in plans for run in plan)):
            return None
        tape = Tape(segment, plans)
        work = [sum(map(_macs_of_run, repeat(segment), plan)) for plan in plans]
        calls = len(tape.entries)
        if alike:
            work += [work[2]] * alike
            calls += calls * alike // some
        usual = sum(macs_of(node) for node in segment.axes)
        if alike and keeps:
            work = [usual]  # nothing is computed twice
        peak = self.lives.peak(segment.first, segment.last, tape)
        return Option(segment, count, keeps, peak, sum(work) - usual, calls, None if alike else tape)


def _macs_of_run(segment: Segment, run: Run) -> int:
    shape = list(shape_of(run.node))
    shape[segment.axes[run.node]] = run.stop - run.fresh
    return macs_of(run.node, shape)


def _undominated(options: Iterable[Option]) -> list[Option]:
    """Those of which none other has less work and no higher peak."""
    found: list[Option] = []
    for option in sorted(options, key=lambda o: (o.macs, o.peak, o.count)):
        if not found or option.peak < found[-1].peak:
            found.append(option)
    return found
