"""The bytes that are alive while the steps of one region run in some order.

A *live range* is one life of a buffer: from the step that fills it to the last step that touches it. Steps
that have run are a bit set, and a set of steps says by itself which live ranges are alive: those that have
begun and are not through. So an order's peak is the maximum over its prefixes of what the next step needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lowtide.lifetimes.liveness import positions

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class LiveRange:
    """One life of a buffer.

    Args:
        size: bytes.
        start: position of the step that begins it; -1 if it is alive before the first.
        users: the steps that touch it, ``start`` included, as a bit set.
        lasting: whether it is alive after the last step.
    """

    size: int
    start: int
    users: int
    lasting: bool = False

    def alive(self, done: int) -> bool:
        """Whether it is alive between steps when those of a bit set have run."""
        return (self.start < 0 or bool(done >> self.start & 1)) and (self.lasting or bool(self.users & ~done))


@dataclass(frozen=True, slots=True)
class Instant:
    """What a step that runs regions needs at some point of them.

    Args:
        own: bytes of buffers that nothing outside the step sees.
        touched: the live ranges among those that it touches that are alive then, as a bit set, even if they
            are not alive both before and after the step.
    """

    own: int
    touched: int


@dataclass(frozen=True, slots=True)
class Sharing:
    """Bytes that a step needs only once if one of the live ranges that it touches ends there.

    Args:
        other: the live range that takes the bytes, or keeps them.
        ending: the live range that has to end.
        size: bytes.
        whole: whether ``ending`` takes exactly the place of ``other``, so that each of the two can share
            with one only; otherwise ``ending`` lies inside.
    """

    other: int
    ending: int
    size: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Work:
    """What one step needs while it runs.

    Args:
        instants: of a step that runs regions; empty for one that needs all it touches at once.
        shares: what need not be counted twice.
    """

    instants: tuple[Instant, ...] = ()
    shares: tuple[Sharing, ...] = ()

    def renumbered(self, number: dict[int, int]) -> Work:
        """The same with other positions of live ranges."""
        return Work(
            tuple(
                Instant(instant.own, sum(1 << number[position] for position in positions(instant.touched)))
                for instant in self.instants
            ),
            tuple(
                Sharing(number[share.other], number[share.ending], share.size, share.whole)
                for share in self.shares
            ),
        )


@dataclass(frozen=True, slots=True)
class Need:
    """What one step adds to the live bytes, in the form that searches work with.

    Args:
        grown: bytes of the live ranges that it begins.
        kept: of these, the bytes that somebody still uses later.
        freed: bytes of what it touches alone and did not begin.
        last: of what others touch too and did not begin here: users, and bytes that go with the last of them.
        old: live ranges that it touches and did not begin: position, size.
        work: its instants and shares.
    """

    grown: int
    kept: int
    freed: int
    last: tuple[tuple[int, int], ...]
    old: tuple[tuple[int, int], ...]
    work: Work

    @classmethod
    def of(cls, model: Model, step: int) -> Need:
        """What a step of a model adds."""
        grown = kept = freed = 0
        last, old = [], []
        for position in model.touched[step]:
            life = model.ranges[position]
            others = life.users & ~(1 << step)
            if life.start == step:
                grown += life.size
                kept += life.size if life.lasting or others else 0
                continue
            old.append((position, life.size))
            if not life.lasting and others:
                last.append((life.users, life.size))
            elif not life.lasting:
                freed += life.size
        return cls(grown, kept, freed, tuple(last), tuple(old), model.work[step])

    def correction(self, ranges: Sequence[LiveRange], waiting: int) -> int:
        """What the step needs beyond all that is alive before it and all that it begins; mostly negative.

        Args:
            ranges: of the model.
            waiting: the steps that run after this one, as a bit set.
        """
        found = 0
        if self.work.instants:
            always = sum(
                1 << position
                for position, _ in self.old
                if ranges[position].lasting or ranges[position].users & waiting
            )
            most = max(
                instant.own + sum(ranges[p].size for p in positions(instant.touched | always))
                for instant in self.work.instants
            )
            found = most - self.grown - sum(size for _, size in self.old)
        if self.work.shares:
            found -= _shared(
                [
                    share
                    for share in self.work.shares
                    if not ranges[share.ending].lasting and not ranges[share.ending].users & waiting
                ]
            )
        return found


def _shared(shares: list[Sharing]) -> int:
    """The most bytes that can be shared: a matching (Kuhn, 1955) of what coincides, and all parts."""
    partners: dict[int, list[Sharing]] = {}
    for share in shares:
        if share.whole:
            partners.setdefault(share.other, []).append(share)
    taken: dict[int, Sharing] = {}

    def match(other: int, tried: set[int]) -> bool:
        for share in partners[other]:
            if share.ending not in tried:
                tried.add(share.ending)
                if share.ending not in taken or match(taken[share.ending].other, tried):
                    taken[share.ending] = share
                    return True
        return False

    for other in sorted(partners, key=lambda other: -partners[other][0].size):
        match(other, set())
    inside = {share.ending: share.size for share in shares if not share.whole and share.ending not in taken}
    return sum(share.size for share in taken.values()) + sum(inside.values())


@dataclass(frozen=True)
class Model:
    """The steps of one region, as far as their order matters to live bytes. The given order is 0, 1, 2 …

    Args:
        earlier: for each step all steps that must run before it, not only the nearest, as a bit set.
        ranges: live ranges.
        work: one entry a step.
        base: bytes that are alive all the time.
        floor: bytes that are alive before the first or after the last step, whatever the order.
    """

    earlier: tuple[int, ...]
    ranges: tuple[LiveRange, ...]
    work: tuple[Work, ...]
    base: int = 0
    floor: int = 0

    @property
    def count(self) -> int:
        """How many steps there are."""
        return len(self.earlier)

    @property
    def everything(self) -> int:
        """All steps, as a bit set."""
        return (1 << self.count) - 1

    @cached_property
    def later(self) -> tuple[int, ...]:
        """For each step all steps that must run after it, as a bit set."""
        found = [0] * self.count
        for step in reversed(range(self.count)):
            left = self.earlier[step]
            while left:  # the nearest ones; those that they need are passed on by them
                near = left.bit_length() - 1
                found[near] |= found[step] | 1 << step
                left &= ~(self.earlier[near] | 1 << near)
        return tuple(found)

    @cached_property
    def touched(self) -> tuple[tuple[int, ...], ...]:
        """For each step the live ranges that it touches."""
        found: list[list[int]] = [[] for _ in range(self.count)]
        for position, life in enumerate(self.ranges):
            for step in positions(life.users):
                found[step].append(position)
        return tuple(map(tuple, found))

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """What each step adds to the live bytes."""
        return tuple(Need.of(self, step) for step in range(self.count))

    def live(self, done: int) -> int:
        """Bytes alive when the steps of a bit set have run."""
        return self.base + sum(life.size for life in self.ranges if life.alive(done))

    def run(self, step: int, done: int, live: int) -> tuple[int, int]:
        """Run one step.

        Args:
            step: which.
            done: the steps that have run, as a bit set.
            live: ``live(done)``.

        Returns:
            The most bytes that are needed during the step, and those alive after it.
        """
        need = self.needs[step]
        waiting = ~(done | 1 << step)
        freed = need.freed
        for users, size in need.last:
            if not users & waiting:
                freed += size
        most = live + need.grown
        if need.work.instants or need.work.shares:
            most += need.correction(self.ranges, waiting)
        return most, live + need.kept - freed

    def peaks(self, order: Sequence[int]) -> list[int]:
        """Bytes that each step of an order needs while it runs."""
        done, live = 0, self.live(0)
        found = []
        for step in order:
            most, live = self.run(step, done, live)
            done |= 1 << step
            found.append(most)
        return found

    def peak(self, order: Sequence[int]) -> int:
        """The most bytes alive at any time under an order."""
        return max((self.floor, *self.peaks(order)))

    def allows(self, order: Sequence[int]) -> bool:
        """Whether an order has every step once, and keeps all that must be kept."""
        done = 0
        for step in order:
            if self.earlier[step] & ~done or done >> step & 1:
                return False
            done |= 1 << step
        return done == self.everything

    def least(self, step: int) -> int:
        """Bytes that a step needs under every order: what is surely alive then, and what it touches.

        With everything run that may run before it, the step frees and shares as much as it ever can.
        """
        need = self.needs[step]
        most = self.base + self.surely[step] + need.grown
        if need.work.instants or need.work.shares:
            most += need.correction(self.ranges, self.later[step])
        return most

    @cached_property
    def surely(self) -> tuple[int, ...]:
        """For each step the bytes begun before it that are needed by it or later, under every order."""
        always = sum(life.size for life in self.ranges if life.lasting and life.start < 0)
        found = [always] * self.count
        for life in self.ranges:
            if life.lasting and life.start < 0:
                continue
            after = self.everything if life.start < 0 else self.later[life.start]
            if not life.lasting:
                before = life.users
                for user in positions(life.users):
                    before |= self.earlier[user]
                after &= before
            for step in positions(after):
                found[step] += life.size
        return tuple(found)

    @cached_property
    def bound(self) -> int:
        """Bytes below which no order's peak can be."""
        return max((self.floor, *map(self.least, range(self.count))))

    def part(self, done: int, steps: Sequence[int]) -> Model:
        """Some steps in a row, as a model of their own.

        Args:
            done: the steps that have run before them, as a bit set.
            steps: which; all that they must come after is among them or done.
        """
        local = {step: position for position, step in enumerate(steps)}
        chosen = sum(1 << step for step in steps)

        def inside(mask: int) -> int:
            return sum(1 << local[step] for step in positions(mask & chosen))

        number: dict[int, int] = {}
        ranges: list[LiveRange] = []
        base = self.base
        for position, life in enumerate(self.ranges):
            begins_here = life.start >= 0 and bool(chosen >> life.start & 1)
            if not begins_here and not life.alive(done):
                continue
            lasting = life.lasting or bool(life.users & ~(done | chosen))
            users = life.users & chosen
            if not users:
                base += life.size
                continue
            number[position] = len(ranges)
            start = local[life.start] if begins_here else -1
            ranges.append(LiveRange(life.size, start, inside(users), lasting))
        work = tuple(self.work[step].renumbered(number) for step in steps)
        return Model(tuple(inside(self.earlier[step]) for step in steps), tuple(ranges), work, base)
