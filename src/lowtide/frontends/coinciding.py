"""What a file's own plan lets share bytes while both are alive, written down as permissions of its problem.

A plan with outputs over inputs, and copies that lie in what they copy, is right although live tensors
coincide. Whether it is was found out by following the bytes; here the tensors about which nothing was found
are taken as they lie: those in the same bytes at one step may coincide, those in the same bytes for longer
are one buffer, and those inside others are placed there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.base.union_find import Classes
from lowtide.ir.problem import Buffer, Placement, Problem, merge_intervals
from lowtide.lifetimes.nesting import overlap
from lowtide.pack.arrays import to_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.ir.problem import Lifetime

Pairs = list[tuple[int, int]]


def permit_sharing(problem: Problem, offsets: Sequence[int], refused: set[str]) -> tuple[Problem, list[int]]:
    """The problem with every pair permitted that shares bytes while both are alive; and its offsets.

    Args:
        problem: buffers of which no two may share bytes while both are alive.
        offsets: where they lie.
        refused: ids of buffers that get no permission.
    """
    pairs = [
        (i, j)
        for i, j in sharing_pairs(problem, offsets)
        if refused.isdisjoint((problem.buffers[i].id, problem.buffers[j].id))
    ]
    if not pairs:
        return problem, list(offsets)
    problem, offsets, pairs = _merge(problem, offsets, pairs)
    return _nest(problem, offsets, pairs), offsets


def sharing_pairs(problem: Problem, offsets: Sequence[int]) -> Pairs:
    """Positions of buffers that share bytes while both are alive."""
    found: Pairs = []
    for arena in problem.arenas:
        part, positions = problem.part(arena)
        most = len(positions) * len(positions)
        for kind, i, j in _kernel.check(to_kernel(part), [offsets[p] for p in positions], most).violations:
            if kind == "overlap":
                found.append((positions[i], positions[j]))
    return found


def _merge(problem: Problem, offsets: Sequence[int], pairs: Pairs) -> tuple[Problem, list[int], Pairs]:
    """Make one buffer of those that lie in the same bytes for more than a step; the pairs that are left."""
    buffers = problem.buffers
    classes = Classes(len(buffers))
    for i, j in pairs:
        if (offsets[i], buffers[i].size) == (offsets[j], buffers[j].size) and _for_long(
            buffers[i], buffers[j]
        ):
            classes.merge(i, j)
    members = classes.members()
    position = {lead: at for at, lead in enumerate(members)}
    merged = replace(
        problem, buffers=tuple(_joined([buffers[m] for m in found]) for found in members.values())
    )
    places = [offsets[lead] for lead in members]
    left = {tuple(sorted((position[classes.find(i)], position[classes.find(j)]))) for i, j in pairs}
    return merged, places, sorted((i, j) for i, j in left if i != j)


def _for_long(a: Buffer, b: Buffer) -> bool:
    return any(stop - start > 1 for start, stop in overlap(a.lifetime, b.lifetime))


def _joined(buffers: list[Buffer]) -> Buffer:
    if len(buffers) == 1:
        return buffers[0]
    return replace(
        buffers[0],
        lifetime=merge_intervals(interval for buffer in buffers for interval in buffer.lifetime),
        alignment=max(buffer.alignment for buffer in buffers),
        members=tuple(name for buffer in buffers for name in buffer.members or (buffer.id,)),
    )


def _nest(problem: Problem, offsets: Sequence[int], pairs: Pairs) -> Problem:
    """Permit pairs that lie in the same bytes to coincide, and place those inside others there.

    A buffer has one place: the smallest of those around it. One of the others that this does not lie in is
    around it at other times, and then its bytes are counted as the other's.
    """
    buffers = list(problem.buffers)
    same: list[tuple[str, str]] = []
    around: dict[int, list[int]] = {}
    for i, j in pairs:
        inner, outer = sorted((i, j), key=lambda at: buffers[at].size)
        if (offsets[i], buffers[i].size) == (offsets[j], buffers[j].size):
            same.append((buffers[i].id, buffers[j].id))
        elif offsets[outer] <= offsets[inner] <= offsets[outer] + buffers[outer].size - buffers[inner].size:
            around.setdefault(inner, []).append(outer)
    parent: dict[int, int] = {}
    for inner, outers in sorted(around.items(), key=lambda item: -buffers[item[0]].size):
        parent[inner] = min(outers, key=lambda at: (buffers[at].size, at))
        chain = set(_upwards(parent, inner))
        for other in outers:
            rest = _without(buffers[inner].lifetime, buffers[other].lifetime)
            if other not in chain and rest:
                buffers[inner] = replace(buffers[inner], lifetime=rest)
    placements = tuple(
        Placement(buffers[inner].id, buffers[outer].id, offsets[inner] - offsets[outer])
        for inner, outer in sorted(parent.items())
    )
    return replace(problem, buffers=tuple(buffers), may_coincide=tuple(same), placements=placements)


def _upwards(parent: dict[int, int], at: int) -> list[int]:
    """What is around a buffer, from the inside."""
    found = []
    while at in parent:
        at = parent[at]
        found.append(at)
    return found


def _without(lifetime: Lifetime, other: Lifetime) -> Lifetime:
    """The part of a lifetime that is in none of another's."""
    both = overlap(lifetime, other)
    left = []
    for start, stop in lifetime:
        for begin, end in both:
            if start <= begin < stop:
                if begin > start:
                    left.append((start, begin))
                start = end
        if start < stop:
            left.append((start, stop))
    return tuple(left)
