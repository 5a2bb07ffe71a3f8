"""Which storages may share one buffer, so that the copies between them cost nothing.

A call's result is filled by a copy from each region's output, a loop's carry by a copy on the back
edge. Where source and target do not interfere they become one buffer, as a register allocator
coalesces the copies of phi functions (Chaitin et al., *Register allocation via coloring*, 1981):
two storages interfere if one is written while the other is alive, unless that write is the copy of
one to the other. A branch that returns its own input while that lives on, one that returns a value
twice, and a loop that swaps its carries all interfere, and keep a real copy.

The copies that steps make themselves (``Step.matches``) are subject to the same rule, if asked for:
those between storages of one size are coalesced here, parts and their wholes placed by ``nesting``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.base.union_find import Classes
from lowtide.lifetimes.liveness import bits, positions

if TYPE_CHECKING:
    from lowtide.ir.flow import FlowGraph, Point
    from lowtide.ir.program import Storage
    from lowtide.lifetimes.liveness import Liveness


@dataclass(frozen=True)
class Coalesced:
    """Storages that share one buffer.

    Args:
        classes: the storages of each buffer.
        interference: what may not share bytes, known of the ends of copies only.
    """

    classes: Classes
    interference: Interference


@dataclass(frozen=True)
class Interference:
    """Which storages hold other bytes while one is written.

    Args:
        number: of each end of a copy, in bit sets.
        always: for each end those of the others that it cannot share a byte with, as a bit set of numbers.
        unless: for pairs of ends, smaller first, of which one is written by copies from the other only: how
            far the first must start above the second, in bytes, for those copies to change nothing.
    """

    number: dict[int, int]
    always: dict[int, int]
    unless: dict[tuple[int, int], int]

    def allows(self, a: int, b: int, distance: int) -> bool:
        """Whether one storage may start so many bytes above the other and share bytes with it."""
        if b in self.number and (self.always.get(a, 0) >> self.number[b]) & 1:
            return False
        pair, above = ((a, b), distance) if a < b else ((b, a), -distance)
        return self.unless.get(pair, above) == above


def coalesce(flow: FlowGraph, liveness: Liveness, *, matches: bool = False) -> Coalesced:
    """Merge the ends of copies wherever they do not interfere; largest first, then in clock order.

    Args:
        matches: whether copies that steps make count too.
    """
    storages = flow.program.storages
    classes = Classes(len(storages))
    pairs = [
        (copy.target_storage, copy.source_storages[0])
        for point in flow.points
        for copy in point.copies
        if copy.same_layout and copy.target_storage is not None and len(copy.source_storages) == 1
    ]
    matched = [same for point in flow.points for same in point.matches] if matches else []
    ends = {end for pair in pairs for end in pair} | {end for m in matched for end in (m.inner, m.outer)}
    if not ends:
        return Coalesced(classes, Interference({}, {}, {}))
    interference = _interference(flow, liveness, ends, matches=matches)
    pairs += [(same.inner, same.outer) for same in matched if not same.distance]
    pairs = [(a, b) for a, b in dict.fromkeys(pairs) if a != b and _can_share(storages[a], storages[b])]
    pairs.sort(key=lambda pair: -(storages[pair[0]].size or 0))
    _merge(pairs, classes, interference)
    return Coalesced(classes, interference)


def _merge(pairs: list[tuple[int, int]], classes: Classes, interference: Interference) -> None:
    """Make one class of the two ends of each pair in turn, where they do not interfere."""
    number, ends = interference.number, list(interference.number)
    interferes = dict(interference.always)
    for (a, b), distance in interference.unless.items():
        if distance:  # they cannot start in one place
            interferes[a] |= 1 << number[b]
            interferes[b] |= 1 << number[a]
    for a, b in pairs:
        a, b = classes.find(a), classes.find(b)
        if a == b or (interferes[a] >> number[b]) & 1:
            continue
        both = interferes[a] | interferes[b]
        low = classes.merge(a, b)
        high = b if low == a else a
        # What interferes with one member interferes with all: keep both directions on representatives.
        interferes[low] = both
        for other in positions(both):
            found = classes.find(ends[other])
            interferes[found] |= 1 << number[low]
            interferes[low] |= 1 << number[found]
        interferes[high] = both


def _can_share(a: Storage, b: Storage) -> bool:
    """Whether two storages could be one buffer, leaving lifetimes aside.

    Both must be planned: what the caller provides, or what has no bound, is in no arena, and a plan has no
    way to say that a buffer of ours lies in it.
    """
    planned = a.planned and b.planned and a.size is not None
    return planned and a.size == b.size and a.arena == b.arena


def _interference(flow: FlowGraph, liveness: Liveness, ends: set[int], *, matches: bool) -> Interference:
    """What of the ends of copies is written while others are alive, and not by a copy from these."""
    number = {storage: i for i, storage in enumerate(sorted(ends))}
    by_number = list(number)
    always = dict.fromkeys(ends, 0)
    unless: dict[tuple[int, int], int] = {}
    changes: dict[int, int] = defaultdict(int)
    for storage in ends:
        for start, stop in liveness.live_out[storage]:
            changes[start] ^= 1 << number[storage]
            changes[stop] ^= 1 << number[storage]
    alive = 0

    def never(a: int, b: int) -> None:
        always[a] |= 1 << number[b]
        always[b] |= 1 << number[a]
        unless.pop((min(a, b), max(a, b)), None)

    for tick, point in enumerate(flow.points):
        alive ^= changes.pop(tick, 0)
        written = {*point.full_writes, *point.partial_writes}
        of_interest = sorted(written & ends)
        if not of_interest:
            continue
        same = _same_bytes(point, written, matches=matches)
        # A step reads while it writes; parallel copies read everything first.
        nearby = alive | bits(number[end] for end in (*of_interest, *(ends.intersection(point.reads))))
        for storage in of_interest:
            for found in positions(nearby & ~(1 << number[storage]) & ~always[storage]):
                other = by_number[found]
                distance = same.get((storage, other))
                pair, above = (storage, other), distance
                if storage > other:
                    pair, above = (other, storage), None if distance is None else -distance
                if above is None or unless.setdefault(pair, above) != above:
                    never(storage, other)
    return Interference(number, always, unless)


def _same_bytes(point: Point, written: set[int], *, matches: bool) -> dict[tuple[int, int], int]:
    """How far a storage that a copy writes starts above one that holds the same bytes and is not written."""
    found: dict[tuple[int, int], int] = {}
    own = {*point.writes, *point.partial}
    for copy in point.copies:
        target = copy.target_storage
        if target is not None and copy.same_layout and target not in own:
            found |= {(target, s): 0 for s in copy.source_storages if s not in written}
    for match in point.matches if matches else ():
        ends = (match.inner, match.outer, match.distance), (match.outer, match.inner, -match.distance)
        for storage, other, distance in ends:
            if storage in written and other not in written:
                found[storage, other] = distance
    return found
