"""Ranges of bytes by address: which of some that come and go meet a given one.

Ranges of one arena are kept sorted by their start, apart for each power of two of their length: of those that
meet a range none starts further below it than that power. So where ranges lie beside each other a question
costs a few binary searches, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes ``start`` to ``stop`` of an arena."""

    arena: int
    start: int
    stop: int

    def meets(self, other: Range) -> bool:
        """Whether the two share a byte."""
        return self.arena == other.arena and self.start < other.stop and other.start < self.stop


class Addresses:
    """Ranges with a number each."""

    def __init__(self) -> None:
        self._by_length: dict[int, dict[int, list[tuple[int, int, int]]]] = {}

    def add(self, number: int, range_: Range) -> None:
        """Take a range in; one that is empty meets nothing and is left out."""
        length = range_.stop - range_.start
        if length:
            lengths = self._by_length.setdefault(range_.arena, {})
            insort(lengths.setdefault(length.bit_length(), []), (range_.start, range_.stop, number))

    def remove(self, number: int, range_: Range) -> None:
        """Take out a range that is in."""
        length = range_.stop - range_.start
        if length:
            entries = self._by_length[range_.arena][length.bit_length()]
            del entries[bisect_left(entries, (range_.start, range_.stop, number))]

    def meeting(self, range_: Range) -> Iterator[int]:
        """The numbers of those that share a byte with a range; nothing may come or go meanwhile."""
        if range_.start == range_.stop:
            return
        for bits, entries in self._by_length.get(range_.arena, {}).items():
            position = bisect_left(entries, (range_.start - (1 << bits) + 2,))
            while position < len(entries) and entries[position][0] < range_.stop:
                if entries[position][1] > range_.start:
                    yield entries[position][2]
                position += 1


def meetings(ranges: Mapping[int, Range], numbers: Iterable[int]) -> dict[int, set[int]]:
    """For each of some ranges the others that share a byte with it; what meets none is left out."""
    found: dict[int, set[int]] = {}
    placed = sorted(
        (range_.arena, range_.start, range_.stop, number)
        for number in set(numbers)
        if (range_ := ranges.get(number)) is not None and range_.stop > range_.start
    )
    open_: list[tuple[int, int]] = []  # (stop, number), all in one arena
    arena = None
    for at, start, stop, number in placed:
        if at != arena:
            arena, open_ = at, []
        open_ = [(end, other) for end, other in open_ if end > start]
        for _, other in open_:
            found.setdefault(number, set()).add(other)
            found.setdefault(other, set()).add(number)
        open_.append((stop, number))
    return found
