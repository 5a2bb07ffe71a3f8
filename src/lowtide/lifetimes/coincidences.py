"""Which buffers may coincide because a kernel writes its output over an input that dies there.

A front end says what kernels allow (``Step.overwrites``). Here liveness decides where that is of use: the two
may be alive together at such steps and nowhere else, the input must hold nothing that is read afterwards,
and the output nothing from before. The packer decides whether it helps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.lifetimes.nesting import overlap

if TYPE_CHECKING:
    from lowtide.base.union_find import Classes
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.problem import Lifetime
    from lowtide.lifetimes.liveness import Liveness


def find_coincidences(
    flow: FlowGraph, liveness: Liveness, classes: Classes, lifetimes: dict[int, Lifetime]
) -> list[tuple[int, int]]:
    """Pairs of classes that may lie in exactly the same bytes; in clock order.

    Args:
        flow: program points, with what kernels allow at each.
        liveness: of its storages.
        classes: storages that share a buffer.
        lifetimes: of each class that is planned, by its representative.
    """
    storages = flow.program.storages
    members = classes.members()
    allowed: dict[tuple[int, int], set[int]] = {}
    for tick, point in enumerate(flow.points):
        over: dict[int, set[int]] = {}
        for written, read in point.overwrites:
            if storages[written].size == storages[read].size:
                over.setdefault(written, set()).add(read)
        for written, read in point.overwrites:
            output, dying = classes.find(written), classes.find(read)
            if output == dying or output not in lifetimes or dying not in lifetimes:
                continue
            a, b = storages[written], storages[read]
            if not a.size or a.size != b.size or a.arena != b.arena:
                continue
            held = members[dying]
            if any(liveness.is_live_after(member, tick) for member in held):
                continue
            if not {*point.full_writes, *point.partial_writes}.isdisjoint(held):
                continue
            looked_at = set(point.reads).intersection(held)
            if read not in looked_at or not looked_at <= over[written]:
                continue  # other reads of the same bytes, which may not be written over
            # A pair may change roles: a loop's carry is written over by the body, and written over it again.
            allowed.setdefault((min(output, dying), max(output, dying)), set()).add(tick)
    return [
        pair
        for pair, ticks in allowed.items()
        if all(
            tick in ticks
            for start, stop in overlap(lifetimes[pair[0]], lifetimes[pair[1]])
            for tick in range(start, stop)
        )
    ]
