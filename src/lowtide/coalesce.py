"""Which storages may share one buffer, so that the copies between them cost nothing.

A call's result is filled by a copy from each region's output, a loop's carry by a copy on the back
edge. Where source and target do not interfere they become one buffer, as a register allocator
coalesces the copies of phi functions (Chaitin et al., *Register allocation via coloring*, 1981):
two storages interfere if one is written while the other is alive, unless that write is the copy of
one to the other. A branch that returns its own input while that lives on, one that returns a value
twice, and a loop that swaps its carries all interfere, and keep a real copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.classes import Classes
from lowtide.liveness import bits, positions

if TYPE_CHECKING:
    from lowtide.flow import FlowGraph, Point
    from lowtide.liveness import Liveness
    from lowtide.program import Storage


def coalesce(flow: FlowGraph, liveness: Liveness) -> Classes:
    """Merge the ends of copies wherever they do not interfere; largest first, then in clock order."""
    storages = flow.program.storages
    classes = Classes(len(storages))
    pairs = [
        (copy.target_storage, copy.source_storages[0])
        for point in flow.points
        for copy in point.copies
        if copy.same_layout and copy.target_storage is not None and len(copy.source_storages) == 1
    ]
    pairs = [(a, b) for a, b in dict.fromkeys(pairs) if a != b and _can_share(storages[a], storages[b])]
    pairs.sort(key=lambda pair: -(storages[pair[0]].size or 0))
    if not pairs:
        return classes
    interferes = _interference(flow, liveness, {end for pair in pairs for end in pair})
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
    return classes


def _can_share(a: Storage, b: Storage) -> bool:
    """Whether two storages could be one buffer, leaving lifetimes aside.

    Both must be planned: what the caller provides, or what has no bound, is in no arena, and a plan has no
    way to say that a buffer of ours lies in it.
    """
    planned = a.planned and b.planned and a.size is not None
    return planned and a.size == b.size and a.arena == b.arena


def _interference(flow: FlowGraph, liveness: Liveness, ends: set[int]) -> dict[int, int]:
    """For each end of a copy, the bit set of the other ends that it interferes with."""
    of_interest = bits(ends)
    interferes = dict.fromkeys(ends, 0)
    for tick, point in enumerate(flow.points):
        written = bits(point.full_writes) | bits(point.partial_writes)
        if not written & of_interest:
            continue
        sources = _copied_from(point, written)
        # A step reads while it writes; parallel copies read everything first.
        nearby = (liveness.live_out[tick] | written | bits(point.reads)) & of_interest
        for storage in positions(written & of_interest):
            conflicts = nearby & ~(1 << storage) & ~sources.get(storage, 0)
            interferes[storage] |= conflicts
            for other in positions(conflicts):
                interferes[other] |= 1 << storage
    return interferes


def _copied_from(point: Point, written: int) -> dict[int, int]:
    """For each target of a copy, its source, where the source still holds the same bytes afterwards."""
    found: dict[int, int] = {}
    own = bits(point.writes) | bits(point.partial)
    for copy in point.copies:
        target = copy.target_storage
        if target is not None and copy.same_layout and not (own >> target) & 1:
            found[target] = bits(copy.source_storages) & ~written
    return found
