"""Steps that can be run in one go without any loss: what makes the exact search small.

Where the bytes that a step adds and frees do not depend on what else has run, a run of steps is a *unit*
with two numbers: the most bytes that it needs (its *hill*, above what was alive before) and what it leaves
(its *net*). Two units, the second needing the first, become one if

- the hill lies in the second, the first adds bytes and nothing but the second waits for it: then the first
  may as well run just before it is needed; or
- the hill lies in the first, the second frees bytes and needs nothing but the first: then the second may as
  well run at once.

Moving a unit in this way lets no other step see more live bytes, and the moved steps run beside what the
hill, which is no lower, ran beside: so some order of least peak keeps the unit together, in any partial
order. For trees and series-parallel graphs these are the hill-valley segments of Liu (*An application of
generalized tree pebbling to sparse matrix factorization*, 1987) and of Kayaaslan, Lambert, Marchal and Uçar
(*Scheduling series-parallel task graphs to minimize peak memory*, 2018), the cumulative-cost sequences of
Abdel-Wahab and Kameda (1978). Two chains of units between the same two neighbours are merged as they do:
units that free first, lowest hill first, then units that add, in the order of what they free again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.transforms.reorder.work import Model


@dataclass(frozen=True, slots=True)
class Unit:
    """Steps that run in a row.

    Args:
        steps: in order.
        earlier: all steps that must run before it, as a bit set.
        members: its steps, as a bit set.
        profile: hill and net, where they do not depend on what else has run.
    """

    steps: tuple[int, ...]
    earlier: int
    members: int
    profile: tuple[int, int] | None


class _Draft:
    """A unit while units are being merged: hill and net as ``(least, most)`` over all that may have run."""

    __slots__ = ("earlier", "hill", "members", "net", "next", "previous", "steps")

    def __init__(self, model: Model, step: int) -> None:
        self.steps = [step]
        self.members = 1 << step
        self.earlier = model.earlier[step]
        self.previous: set[int] = set()
        self.next: set[int] = set()
        need = model.needs[step]
        hills, nets = [], []
        for waiting in (model.later[step], model.everything & ~self.earlier & ~self.members):
            freed = need.freed + sum(size for users, size in need.last if not users & waiting)
            nets.append(need.kept - freed)
            hills.append(need.grown + need.correction(model.ranges, waiting))
        self.hill, self.net = (hills[0], hills[1]), (nets[0], nets[1])

    @property
    def fixed(self) -> bool:
        """Whether hill and net do not depend on what else has run."""
        return self.hill[0] == self.hill[1] and self.net[0] == self.net[1]

    def append(self, other: _Draft) -> None:
        """Run another unit right after this one."""
        self.hill = (
            max(self.hill[0], self.net[0] + other.hill[0]),
            max(self.hill[1], self.net[1] + other.hill[1]),
        )
        self.net = (self.net[0] + other.net[0], self.net[1] + other.net[1])
        self.steps += other.steps
        self.members |= other.members
        self.earlier = (self.earlier | other.earlier) & ~self.members

    def freeze(self) -> Unit:
        profile = (self.hill[0], self.net[0]) if self.fixed else None
        return Unit(tuple(self.steps), self.earlier, self.members, profile)


def find_units(model: Model) -> tuple[Unit, ...]:
    """The units of a model, in the order in which the given order completes them."""
    drafts = {step: _Draft(model, step) for step in range(model.count)}
    merged = True
    while merged:
        _connect(drafts)
        merged = _merge_neighbours(drafts) or _merge_parallel(drafts)
    return tuple(draft.freeze() for draft in sorted(drafts.values(), key=lambda draft: max(draft.steps)))


def _connect(drafts: dict[int, _Draft]) -> None:
    """Link each unit to its nearest neighbours."""
    home = {step: key for key, draft in drafts.items() for step in draft.steps}
    for draft in drafts.values():
        draft.previous, draft.next = set(), set()
    for key, draft in drafts.items():
        left = draft.earlier
        while left:
            near = home[left.bit_length() - 1]
            draft.previous.add(near)
            drafts[near].next.add(key)
            left &= ~(drafts[near].earlier | drafts[near].members)


def _merge_neighbours(drafts: dict[int, _Draft]) -> bool:
    """Merge pairs until none is left that may be; whether there was one."""
    merged = False
    for key in sorted(drafts):
        while key in drafts:
            first = drafts[key]
            other = next((k for k in sorted(first.next) if _may_merge(first, drafts[k])), None)
            if other is None:
                break
            second = drafts.pop(other)
            first.append(second)
            for k in second.previous - {key}:
                drafts[k].next.discard(other)
                drafts[k].next.add(key)
            for k in second.next:
                drafts[k].previous.discard(other)
                drafts[k].previous.add(key)
            first.previous |= second.previous - {key}
            first.next = (first.next - {other}) | second.next
            merged = True
    return merged


def _may_merge(first: _Draft, second: _Draft) -> bool:
    """Whether two neighbours may run in one go; the one that would be moved must have fixed numbers."""
    if (
        first.fixed
        and len(first.next) == 1
        and first.net[0] >= 0
        and first.hill[0] <= first.net[0] + second.hill[0]
    ):
        return True
    return (
        second.fixed
        and len(second.previous) == 1
        and second.net[0] <= 0
        and first.hill[0] >= first.net[1] + second.hill[0]
    )


def _merge_parallel(drafts: dict[int, _Draft]) -> bool:
    """Put chains between the same neighbours into one chain; whether there were any."""
    groups: dict[tuple[frozenset[int], frozenset[int]], list[list[int]]] = {}
    seen: set[int] = set()
    for key in sorted(drafts):
        if key in seen or not drafts[key].fixed or _link(drafts, key, forward=False) is not None:
            continue
        chain = [key]
        while (following := _link(drafts, chain[-1], forward=True)) is not None:
            chain.append(following)
        seen.update(chain)
        ends = frozenset(drafts[key].previous), frozenset(drafts[chain[-1]].next)
        groups.setdefault(ends, []).append(chain)
    merged = False
    for chains in groups.values():
        if len(chains) < 2:
            continue
        merged = True
        chain = sorted((key for chain in chains for key in chain), key=lambda key: _rank(drafts[key]))
        for before, after in pairwise(chain):
            drafts[after].earlier |= drafts[before].earlier | drafts[before].members
    return merged


def _link(drafts: dict[int, _Draft], key: int, *, forward: bool) -> int | None:
    """The next unit of a chain, or the one before: it has no other neighbour on that side."""
    near = drafts[key].next if forward else drafts[key].previous
    if len(near) != 1:
        return None
    (other,) = near
    back = drafts[other].previous if forward else drafts[other].next
    return other if len(back) == 1 and drafts[other].fixed else None


def _rank(draft: _Draft) -> tuple[bool, int, int]:
    """Units that free bytes first, lowest hill first; then those that add, most to be freed again first."""
    hill, net = draft.hill[0], draft.net[0]
    return (net > 0, hill if net <= 0 else net - hill, max(draft.steps))
