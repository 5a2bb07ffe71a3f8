"""When each storage holds bytes that matter, in ticks.

Liveness (Aho, Lam, Sethi and Ullman, *Compilers*, 2nd ed., section 9.2), solved storage by storage: from each
use back to what defined it, block by block, then forward from what may have written it. So the work is what
the lifetimes have of blocks, and what comes out are intervals.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lowtide.ir.problem import merge_intervals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.problem import Lifetime


@dataclass(frozen=True)
class Liveness:
    """Intervals of ticks, one entry a storage.

    Args:
        live_out: the points after which it holds bytes that some path still reads.
        occupied: the points at which it must not be disturbed: alive before or after, or touched.
    """

    live_out: tuple[Lifetime, ...]
    occupied: tuple[Lifetime, ...]

    def is_live_after(self, storage: int, tick: int) -> bool:
        """Whether a storage is alive after a point."""
        intervals = self.live_out[storage]
        position = bisect_right(intervals, tick, key=lambda interval: interval[0]) - 1
        return position >= 0 and tick < intervals[position][1]

    def live_after(self, tick: int) -> set[int]:
        """The storages that are alive after a point."""
        return self._live_index.at(tick)

    def occupied_at(self, tick: int) -> set[int]:
        """The storages that must not be disturbed at a point."""
        return self._occupied_index.at(tick)

    @cached_property
    def _live_index(self) -> _Stabbing:
        return _Stabbing(self.live_out)

    @cached_property
    def _occupied_index(self) -> _Stabbing:
        return _Stabbing(self.occupied)


class _Stabbing:
    """Which of some sets of intervals contain a tick: a segment tree."""

    def __init__(self, lifetimes: Iterable[Lifetime]) -> None:
        known = [(start, stop, i) for i, lifetime in enumerate(lifetimes) for start, stop in lifetime]
        self.size = max((stop for _, stop, _ in known), default=0)
        self.nodes: dict[int, list[int]] = defaultdict(list)
        for start, stop, number in known:
            low, high = start + self.size, stop + self.size
            while low < high:
                if low & 1:
                    self.nodes[low].append(number)
                    low += 1
                if high & 1:
                    high -= 1
                    self.nodes[high].append(number)
                low >>= 1
                high >>= 1

    def at(self, tick: int) -> set[int]:
        found: set[int] = set()
        node = tick + self.size if 0 <= tick < self.size else 0
        while node:
            found.update(self.nodes.get(node, ()))
            node >>= 1
        return found


def bits(members: Iterable[int]) -> int:
    """The bit set of some positions."""
    found = 0
    for member in members:
        found |= 1 << member
    return found


def positions(bit_set: int) -> Iterator[int]:
    """The positions in a bit set, lowest first."""
    while bit_set:
        low = bit_set & -bit_set
        yield low.bit_length() - 1
        bit_set ^= low


def solve(flow: FlowGraph) -> Liveness:
    """When each storage is alive.

    A full write ends the old bytes' life, a partial write does not. Bytes live only where they may also
    have been written: what is first written inside a loop is not alive before the loop.
    """
    solver = _Solver(flow)
    live_out: list[Lifetime] = []
    occupied: list[Lifetime] = []
    for storage, info in enumerate(flow.program.storages):
        touches = solver.touches.get(storage, [])
        alive = solver.live_out(touches)
        live_out.append(alive)
        if info.persistent:
            occupied.append(((0, len(flow.points)),))
        else:
            occupied.append(merge_intervals([*alive, *((t.tick, t.tick + 1) for t in touches)]))
    return Liveness(tuple(live_out), tuple(occupied))


@dataclass(slots=True)
class _Touch:
    """What a point does to a storage."""

    tick: int
    reads: bool = False
    fills: bool = False
    writes: bool = False


class _Solver:
    def __init__(self, flow: FlowGraph) -> None:
        self.flow = flow
        self.starts = list(flow.blocks)
        self.touches: dict[int, list[_Touch]] = defaultdict(list)
        for tick, point in enumerate(flow.points):
            for storage in point.all_reads:
                self.touch(storage, tick).reads = True
            for storage in point.full_writes:
                touch = self.touch(storage, tick)
                touch.fills = touch.writes = True
            for storage in point.partial_writes:
                self.touch(storage, tick).writes = True

    def touch(self, storage: int, tick: int) -> _Touch:
        known = self.touches[storage]
        if not known or known[-1].tick != tick:
            known.append(_Touch(tick))
        return known[-1]

    def live_out(self, touches: list[_Touch]) -> Lifetime:
        """After which points a storage with these touches is alive."""
        by_block: dict[int, list[_Touch]] = defaultdict(list)
        for touch in touches:
            by_block[self.starts[bisect_right(self.starts, touch.tick) - 1]].append(touch)
        wanted_in, wanted_out = self.backward(by_block)
        written = self.forward(by_block, wanted_in)
        found: list[tuple[int, int]] = []
        for first in by_block.keys() | wanted_in:
            # Between touches nothing changes: from the last one to the first, what is wanted after each; then
            # from the first one to the last, whether anything is written by then.
            inside = by_block.get(first, ())
            wanted = [first in wanted_out]
            for touch in reversed(inside):
                wanted.append(touch.reads or (wanted[-1] and not touch.fills))
            is_written = first in written
            start = first
            for touch in inside:
                if wanted.pop() and is_written and start < touch.tick:
                    found.append((start, touch.tick))
                is_written |= touch.writes
                start = touch.tick
            if wanted.pop() and is_written:
                found.append((start, self.flow.blocks[first].stop))
        return merge_intervals(found)

    def backward(self, by_block: dict[int, list[_Touch]]) -> tuple[set[int], set[int]]:
        """The blocks at whose beginning, and whose end, some path reads the storage before it is filled."""
        wanted_in = {first for first, inside in by_block.items() if _reads_first(inside)}
        wanted_out: set[int] = set()
        queue = list(wanted_in)
        while queue:
            for before in self.flow.blocks_before[queue.pop()]:
                if before not in wanted_out:
                    wanted_out.add(before)
                    filled = any(touch.fills for touch in by_block.get(before, ()))
                    if not filled and before not in wanted_in:
                        wanted_in.add(before)
                        queue.append(before)
        return wanted_in, wanted_out

    def forward(self, by_block: dict[int, list[_Touch]], wanted: Collection[int]) -> set[int]:
        """The blocks at whose beginning the storage is wanted and may have been written.

        Behind the last write on a way to such a block the storage is wanted all along.
        """
        written: set[int] = set()
        queue = [first for first, inside in by_block.items() if any(touch.writes for touch in inside)]
        while queue:
            for after in self.flow.points[self.flow.blocks[queue.pop()][-1]].successors:
                if after in wanted and after not in written:
                    written.add(after)
                    queue.append(after)
        return written


def _reads_first(touches: Iterable[_Touch]) -> bool:
    for touch in touches:
        if touch.reads:
            return True
        if touch.fills:
            return False
    return False
