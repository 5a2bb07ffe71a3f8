"""Which segments to run in parts, along which axes, and in how many: least work for a peak.

Segments begin and end where few bytes are alive. What is alive there does not depend on how the steps between
are run, so a choice of segments is a path from the first step to the last, its peak is the largest along it,
and its work the sum: for any limit on the peak the cheapest choice is a shortest path. Bisection over the
limit gives the least peak that a budget of multiply-adds buys, and the trade between the two on the way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, isqrt
from typing import TYPE_CHECKING

from lowtide.transforms.split.live import Lives
from lowtide.transforms.split.rules import shape_of
from lowtide.transforms.split.segments import cuts, grow, plan_parts
from lowtide.transforms.split.tape import Tape
from lowtide.transforms.split.work import macs_of, total_macs

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from lowtide.transforms.split.segments import Segment

_COUNTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128)
"""Numbers of parts that are tried."""

_REACH = 14
"""A segment spans at most so many places where few bytes are alive: overlaps pile up in longer ones."""

_CLOSE = 1.005
"""Bisection ends when the limit that can be held and the one that cannot are as close as this."""


@dataclass(frozen=True)
class Option:
    """One way to run a range of steps.

    Args:
        tape: what runs instead of the segment.
        peak: most bytes alive meanwhile.
        macs: multiply-adds more than whole.
        count: number of parts.
    """

    tape: Tape
    peak: int
    macs: int
    count: int


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
        return good

    def within(self, limit: int) -> Choice | None:
        """The choice of least work whose peak is within a limit; None if the budget buys none.

        Args:
            limit: bytes.
        """
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
                    new = (macs + option.macs, entries + len(option.tape.entries))
                    if option.peak <= limit and new < best[end]:
                        best[end], came[end] = new, (place, option)
        if best[count][0] > self.budget:
            return None
        return self._path(came)

    def _path(self, came: list[tuple[int, Option | None]]) -> Choice:
        chosen: list[Option] = []
        peak, place = 0, len(self.steps)
        while place:
            before, option = came[place]
            if option is None:
                peak = max(peak, self._whole[before])
            else:
                chosen.append(option)
                peak = max(peak, option.peak)
            place = before
        found = Choice(tuple(reversed(chosen)), peak, sum(option.macs for option in chosen))
        self.front.append(found)
        return found

    def _quiet_places(self) -> list[int]:
        """Both ends of every stretch in which fewer bytes are alive than before and after it."""
        count = len(self.steps)
        alive = [self.lives.crossing(place) for place in range(count + 1)]
        found = {0, count}
        start = 0
        for place in range(1, count + 1):
            if alive[place] == alive[start]:
                continue
            if (start == 0 or alive[start - 1] > alive[start]) and alive[place] > alive[start]:
                found |= {start, place - 1}
            start = place
        return sorted(found)

    def options(self, first: int, last: int) -> list[Option]:
        """Ways to run a range of steps in parts, none of which is worse than another in peak and work."""
        known = self._options.get((first, last))
        if known is None:
            known = []
            for option in sorted(self._try(first, last), key=lambda o: (o.macs, o.peak, o.count)):
                if not known or option.peak < known[-1].peak:
                    known.append(option)
            self._options[first, last] = known
        return known

    def _try(self, first: int, last: int) -> Iterator[Option]:
        end = self.steps[last]
        whole = max(self._whole[first : last + 1])
        try:
            shape = shape_of(end)
        except AssertionError:
            return
        for axis in range(len(shape) - 1, -1, -1):
            segment = grow(self.steps, first, last, axis) if shape[axis] > 1 else None
            if segment is not None:
                for keeps in (False, True):
                    yield from self._counts(segment, shape[axis], whole, keeps)

    def _counts(self, segment: Segment, size: int, whole: int, keeps: bool) -> Iterator[Option]:
        usual = sum(macs_of(node) for node in segment.axes)
        least, worse = whole, 0
        for count in (*(c for c in _COUNTS if c < size), *((size,) if size <= _COUNTS[-1] else ())):
            if self.is_late or worse > 2:
                return
            plans = plan_parts(segment, cuts(size, count), keeps=keeps)
            if plans is None:
                continue
            tape = Tape(segment, plans)
            if keeps and not any(run.start < run.fresh for plan in plans for run in plan):
                return  # there are no overlaps
            macs = sum(macs_of(entry.node, entry.shape) for entry in tape.entries if entry.kind == "run")
            if macs - usual > self.budget:
                return
            peak = self.lives.peak(segment.first, segment.last, tape)
            worse = worse + 1 if peak >= least else 0
            if peak < least:
                least = peak
                yield Option(tape, peak, macs - usual, count)
