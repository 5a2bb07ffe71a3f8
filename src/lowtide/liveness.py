"""Which storages hold bytes that matter, at every program point.

Two textbook data flows (Aho, Lam, Sethi and Ullman, *Compilers*, 2nd ed., section 9.2) solved to a
fixed point: backward liveness and forward "may have been written". Sets of storages are Python
integers used as bit sets: bit *s* stands for storage *s*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lowtide.flow import FlowGraph


@dataclass(frozen=True)
class Liveness:
    """Bit sets of storages, one an entry of ``flow.points``.

    Args:
        live_out: holds bytes after the point that some path still reads.
        occupied: must not be disturbed while the point works: alive before or after it, or touched by it.
    """

    live_out: tuple[int, ...]
    occupied: tuple[int, ...]


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
    """Solve both data flows.

    A full write ends the old bytes' life, a partial write does not. Bytes live only where they may also
    have been written: what is first written inside a loop is not alive before the loop.
    """
    points = flow.points
    reads = [bits(point.all_reads) for point in points]
    kills = [bits(point.full_writes) for point in points]
    writes = [kill | bits(point.partial_writes) for kill, point in zip(kills, points, strict=True)]

    live_in = [0] * len(points)
    live_out = [0] * len(points)
    changed = True
    while changed:
        changed = False
        for tick in range(len(points) - 1, -1, -1):
            out = 0
            for successor in points[tick].successors:
                out |= live_in[successor]
            live_out[tick] = out
            into = reads[tick] | (out & ~kills[tick])
            if into != live_in[tick]:
                live_in[tick] = into
                changed = True

    predecessors = flow.predecessors
    written_in = [0] * len(points)
    written_out = list(writes)
    changed = True
    while changed:
        changed = False
        for tick in range(len(points)):
            into = 0
            for predecessor in predecessors[tick]:
                into |= written_out[predecessor]
            written_in[tick] = into
            out = into | writes[tick]
            if out != written_out[tick]:
                written_out[tick] = out
                changed = True

    always = bits(i for i, storage in enumerate(flow.program.storages) if storage.persistent)
    for tick in range(len(points)):
        live_out[tick] &= written_out[tick]
    occupied = [
        (live_in[tick] & written_in[tick]) | live_out[tick] | reads[tick] | writes[tick] | always
        for tick in range(len(points))
    ]
    return Liveness(tuple(live_out), tuple(occupied))
