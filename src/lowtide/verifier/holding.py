"""Which storages hold what was last written to them, at every program point, under a plan.

What is followed forward is the set of storages that are *held*, by address: a write looks up whose bytes it
takes, and they are held no more. So a stretch of points costs hardly more than what it reads and writes.
Where paths meet, what is held is what all of them hold. Losing one storage changes nothing for another: so
what a way back takes away is taken out of the sets at the ends of stretches, without a look at their points.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.verifier.addresses import Addresses, meetings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Set

    from lowtide.ir.flow import Copy, FlowGraph, Point
    from lowtide.ir.problem import Lifetime
    from lowtide.verifier.addresses import Range


class Holding:
    """The data flow of one plan.

    Args:
        flow: program points.
        ranges: where the plan has each storage that it places.
        lifetimes: when it keeps their bytes; at any other time they are anyone's.
    """

    def __init__(
        self, flow: FlowGraph, ranges: Mapping[int, Range], lifetimes: Mapping[int, Lifetime]
    ) -> None:
        self.flow, self.ranges, self.lifetimes = flow, ranges, lifetimes
        # What has no bytes cannot be lost, nor can a constant: it has no place and is there from the entry.
        self.followed = {
            i for i, s in enumerate(flow.program.storages) if s.size != 0 and s.kind != "constant"
        }
        self.begins: dict[int, list[int]] = defaultdict(list)
        """The storages that the plan keeps from each tick on."""
        self.ends: dict[int, list[int]] = defaultdict(list)
        """The storages that it keeps no more."""
        for storage in self.followed & lifetimes.keys():
            for start, stop in lifetimes[storage]:
                if stop > 0:
                    self.begins[max(start, 0)].append(storage)
                    self.ends[stop].append(storage)

    def walk(self) -> Iterator[tuple[int, Set[int]]]:
        """Every point that can be reached, in clock order, and what is held when it begins, on all paths."""
        stretches = self.draft()
        self.settle(stretches)
        sweep = _Sweep(self)
        for first, block in self.flow.blocks.items():
            entering = stretches[first].entering if first in stretches else set()
            for tick in block:
                sweep.reach(tick, entering if tick == first else None)
                if first in stretches:
                    yield tick, sweep.held.members
                sweep.work(tick)

    def draft(self) -> dict[int, _Stretch]:
        """What each stretch makes of what is held, as if no way led back."""
        found: dict[int, _Stretch] = {}
        before = self.flow.blocks_before
        reached = self.reached()
        sweep = _Sweep(self)
        for first, block in self.flow.blocks.items():
            ways = [found[block].leaving for block in before[first] if block in found]
            entering = set.intersection(*ways) if ways else set()
            for tick in block:
                sweep.reach(tick, entering if tick == first else None)
                sweep.work(tick)
            if first in reached:
                held = sweep.held.members
                found[first] = _Stretch(entering, set(held), sweep.fresh & held)
        return found

    def reached(self) -> set[int]:
        """The stretches to which some path leads, by their first points."""
        found, queue = {0}, [0]
        while queue:
            for successor in self.flow.points[self.flow.blocks[queue.pop()][-1]].successors:
                if successor not in found:
                    found.add(successor)
                    queue.append(successor)
        return found

    def settle(self, stretches: dict[int, _Stretch]) -> None:
        """Take out of what is held what ways that lead back do not hold, until nothing changes.

        What is lost at the beginning of a stretch is lost at its end too, unless the stretch has written it.
        """
        after: dict[int, list[int]] = defaultdict(list)
        queue: deque[tuple[int, set[int]]] = deque()
        for first, stretch in stretches.items():
            for before in self.flow.blocks_before[first]:
                if before in stretches:
                    after[before].append(first)
                    queue.append((first, stretch.entering - stretches[before].leaving))
        while queue:
            first, lost = queue.popleft()
            stretch = stretches[first]
            lost = lost & stretch.entering
            stretch.entering.difference_update(lost)
            lost = (lost & stretch.leaving) - stretch.fresh
            stretch.leaving.difference_update(lost)
            if lost:
                queue.extend((following, lost) for following in after[first])

    def takers(self, point: Point) -> Iterator[tuple[int, Collection[int]]]:
        """What a point writes and is not there already, and whose bytes each write leaves as they are."""
        untouched = self.untouched(point)
        for storage in (*point.writes, *point.partial):
            yield storage, untouched.get(storage, ())
        for copy in point.copies:
            if copy.target_storage is not None and not self.stays(copy):
                yield copy.target_storage, ()

    def untouched(self, point: Point) -> dict[int, set[int]]:
        """For each storage that a point writes, those read whose bytes the write leaves as they are."""
        found: dict[int, set[int]] = {}
        for copy in point.copies:
            if copy.target_storage is not None and self.stays(copy):
                found[copy.target_storage] = {copy.source_storages[0]}
        for same in point.matches:
            inner, outer = self.ranges.get(same.inner), self.ranges.get(same.outer)
            if inner is None or outer is None or inner.arena != outer.arena:
                continue
            if inner.start == outer.start + same.distance and inner.stop <= outer.stop:
                found.setdefault(same.inner, set()).add(same.outer)
                found.setdefault(same.outer, set()).add(same.inner)
        return found

    def coincide(self, a: int, b: int) -> bool:
        """Whether the plan has two storages in exactly the same bytes."""
        return a in self.ranges and self.ranges[a] == self.ranges.get(b)

    def stays(self, copy: Copy) -> bool:
        """Whether a copy leaves every byte as it is, because both ends are in one place."""
        if not copy.same_layout or len(copy.source_storages) != 1 or copy.target_storage is None:
            return False
        return self.coincide(copy.target_storage, copy.source_storages[0])


class Held:
    """The storages that are held, and where they are, of those that the plan places."""

    def __init__(self, ranges: Mapping[int, Range]) -> None:
        self.ranges = ranges
        self.members: set[int] = set()
        self.addresses = Addresses()

    def become(self, members: Set[int]) -> None:
        """Hold these and no others."""
        for storage in self.members - members:
            self.discard(storage)
        for storage in members - self.members:
            self.add(storage)

    def add(self, storage: int) -> None:
        if storage not in self.members:
            self.members.add(storage)
            if storage in self.ranges:
                self.addresses.add(storage, self.ranges[storage])

    def discard(self, storage: int) -> None:
        if storage in self.members:
            self.members.discard(storage)
            if storage in self.ranges:
                self.addresses.remove(storage, self.ranges[storage])

    def give_way(self, written: int, excused: Collection[int] = ()) -> None:
        """Lose what shares a byte with a storage that is written, but for what is excused."""
        if written in self.ranges:
            for other in list(self.addresses.meeting(self.ranges[written])):
                if other != written and other not in excused:
                    self.discard(other)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What a stretch of points makes of what is held.

    Args:
        entering: what is held where it begins.
        leaving: what is held where it ends.
        fresh: of this, what the stretch itself has written.
    """

    entering: set[int]
    leaving: set[int]
    fresh: set[int]


class _Sweep:
    """Carries what is held through all points in clock order, stretch by stretch."""

    def __init__(self, of: Holding) -> None:
        self.of = of
        self.held = Held(of.ranges)
        self.kept = of.followed - of.lifetimes.keys()  # no plan says when these are done with
        self.fresh: set[int] = set()

    def reach(self, tick: int, entering: Set[int] | None = None) -> None:
        """Come to a point: what the plan does not keep is lost.

        Args:
            tick: the point.
            entering: what is held before it, where a stretch begins.
        """
        ending = self.of.ends.get(tick, ())
        self.kept.difference_update(ending)
        self.kept.update(self.of.begins.get(tick, ()))
        if entering is not None:
            self.held.become(entering & self.kept)
            self.fresh = set()
        for storage in ending:
            if storage not in self.kept:
                self.held.discard(storage)

    def work(self, tick: int) -> None:
        """Do what a point does: what it writes takes its bytes, and is held from then on."""
        point, of = self.of.flow.points[tick], self.of
        for storage, excused in of.takers(point):
            self.held.give_way(storage, excused)
        collided = meetings(of.ranges, (*point.full_writes, *point.partial_writes))
        for storage in point.full_writes:
            if storage in self.kept and storage not in collided:
                self.held.add(storage)
                self.fresh.add(storage)
