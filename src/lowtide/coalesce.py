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

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.classes import Classes
from lowtide.liveness import bits, positions

if TYPE_CHECKING:
    from lowtide.flow import FlowGraph, Point
    from lowtide.liveness import Liveness
    from lowtide.program import Storage


@dataclass(frozen=True)
class Coalesced:
    """Storages that share one buffer.

    Args:
        classes: the storages of each buffer.
        interferes: by class, the storages that hold other bytes at some time when it is alive, as a bit set;
            known of the ends of copies only.
    """

    classes: Classes
    interferes: dict[int, int]


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
    matched = [(same.inner, same.outer) for point in flow.points for same in point.matches] if matches else []
    both_ways = [(a, b) for a, b in dict.fromkeys(pairs + matched) if a != b]
    pairs = [(a, b) for a, b in both_ways if _can_share(storages[a], storages[b])]
    pairs.sort(key=lambda pair: -(storages[pair[0]].size or 0))
    ends = {end for pair in pairs + matched for end in pair}
    if not ends:
        return Coalesced(classes, {})
    interferes = _interference(flow, liveness, ends, matches=matches)
    for a, b in pairs:
        a, b = classes.find(a), classes.find(b)
        if a == b or (interferes[a] >> b) & 1:
            continue
        both = interferes[a] | interferes[b]
        low = classes.merge(a, b)
        high = b if low == a else a
        # What interferes with one member interferes with all: keep both directions on representatives.
        interferes[low] = both
        for other in positions(both):
            other = classes.find(other)
            interferes[other] |= 1 << low
            interferes[low] |= 1 << other
        interferes[high] = both
    return Coalesced(classes, interferes)


def _can_share(a: Storage, b: Storage) -> bool:
    """Whether two storages could be one buffer, leaving lifetimes aside.

    Both must be planned: what the caller provides, or what has no bound, is in no arena, and a plan has no
    way to say that a buffer of ours lies in it.
    """
    planned = a.planned and b.planned and a.size is not None
    return planned and a.size == b.size and a.arena == b.arena


def _interference(flow: FlowGraph, liveness: Liveness, ends: set[int], *, matches: bool) -> dict[int, int]:
    """For each end of a copy, the bit set of the other ends that it interferes with."""
    of_interest = bits(ends)
    interferes = dict.fromkeys(ends, 0)
    for tick, point in enumerate(flow.points):
        written = bits(point.full_writes) | bits(point.partial_writes)
        if not written & of_interest:
            continue
        same = _same_bytes(point, written, matches=matches)
        # A step reads while it writes; parallel copies read everything first.
        nearby = (liveness.live_out[tick] | written | bits(point.reads)) & of_interest
        for storage in positions(written & of_interest):
            conflicts = nearby & ~(1 << storage) & ~same.get(storage, 0)
            interferes[storage] |= conflicts
            for other in positions(conflicts):
                interferes[other] |= 1 << storage
    return interferes


def _same_bytes(point: Point, written: int, *, matches: bool) -> dict[int, int]:
    """For each storage written by a copy, those that hold the same bytes afterwards and were not written."""
    found: dict[int, int] = {}
    own = bits(point.writes) | bits(point.partial)
    for copy in point.copies:
        target = copy.target_storage
        if target is not None and copy.same_layout and not (own >> target) & 1:
            found[target] = bits(copy.source_storages) & ~written
    if matches:
        for same in point.matches:
            for storage, other in ((same.inner, same.outer), (same.outer, same.inner)):
                if (written >> storage) & 1 and not (written >> other) & 1:
                    found[storage] = found.get(storage, 0) | 1 << other
    return found
