"""Seeded tiny problems with every feature there is, and their best arenas by brute force."""

from __future__ import annotations

import random
from dataclasses import replace

from bruteforce import Arrays, brute_force
from lowtide.ir.problem import Arena, Buffer, Lifetime, Placement, Problem, align_up

HORIZON = 9


def tiny_problem(seed: int) -> Problem:
    """Two to six buffers with any mix of features; some of these problems have no solution."""
    chance = random.Random(seed)
    arenas = [
        Arena(id, reserved=chance.choice((0, 0, 0, 1, 3)))
        for id in range(1, 1 + chance.choices((1, 2, 3), (7, 2, 1))[0])
    ]
    alignments = chance.choice(((1,), (4,), (1, 2), (1, 2, 3, 4)))
    buffers = [
        Buffer(
            id=f"b{i}",
            size=chance.choice((0, 1, 2, 3, 3, 4, 5)),
            lifetime=_lifetime(chance),
            alignment=chance.choice(alignments),
            arena=chance.choice(arenas).id,
        )
        for i in range(chance.randint(2, 6))
    ]
    placements = _placements(chance, buffers) if chance.random() < 0.3 else ()
    coincide = _coinciding(chance, buffers) if chance.random() < 0.3 else ()
    if chance.random() < 0.3:
        buffers = [_pinned(chance, buffer) for buffer in buffers]
    problem = Problem(tuple(buffers), tuple(arenas), coincide, placements)
    if chance.random() < 0.3:
        limited = (replace(a, capacity=a.reserved + chance.randint(0, 14)) for a in problem.arenas)
        problem = replace(problem, arenas=tuple(limited))
    return problem


def unlimited(problem: Problem) -> Problem:
    """The same problem without capacities."""
    return replace(problem, arenas=tuple(replace(arena, capacity=None) for arena in problem.arenas))


def smallest(problem: Problem) -> list[int | None]:
    """The least bytes of each arena, capacities aside; None where no plan keeps pins and placements."""
    parts = [problem.part(arena)[0] for arena in problem.arenas]
    found = [_smallest(part) for part in parts]
    # A pin of a buffer without bytes takes none, but is an offset within the arena all the same.
    ends = [max((b.offset or 0 for b in part.buffers), default=0) for part in parts]
    return [None if best is None else max(best, end) for best, end in zip(found, ends, strict=True)]


def _smallest(part: Problem) -> int | None:
    limit = roof(part)
    # What cannot be placed even alone would have brute force try all places of all others.
    group = groups(part)
    for one in set(group.values()):
        alone = replace(
            part,
            buffers=tuple(buffer for buffer in part.buffers if group[buffer.id] == one),
            may_coincide=tuple(pair for pair in part.may_coincide if {group[id] for id in pair} == {one}),
            placements=tuple(placement for placement in part.placements if group[placement.inner] == one),
        )
        if brute_force(to_arrays(alone), limit) is None:
            return None
    return brute_force(to_arrays(part), limit)


def groups(part: Problem) -> dict[str, str]:
    """For each buffer the outermost one that it lies in, which stands for its rigid group."""
    outer = {placement.inner: placement.outer for placement in part.placements}
    found = {}
    for buffer in part.buffers:
        at = buffer.id
        while at in outer:
            at = outer[at]
        found[buffer.id] = at
    return found


def roof(part: Problem) -> int:
    """Bytes within which one arena's buffers have a plan if they have any: one stacked above the other.

    A rigid group finds a legal place in every stretch as long as the product of its alignments.
    """
    top = max([part.arenas[0].reserved, *(b.offset + b.size for b in part.buffers if b.offset is not None)])
    slack = max((b.alignment for b in part.buffers), default=1) if not part.placements else 12
    return top + sum(align_up(b.size, slack) + slack for b in part.buffers if b.offset is None)


def to_arrays(part: Problem) -> Arrays:
    """One arena's problem for brute force; what is pinned, or tied to it, comes first, then what is large."""
    group = groups(part)
    pinned = {group[b.id] for b in part.buffers if b.offset is not None}
    order = sorted(part.buffers, key=lambda b: (group[b.id] not in pinned, b.offset is None, -b.size))
    index = {buffer.id: i for i, buffer in enumerate(order)}
    return Arrays(
        size=[b.size for b in order],
        lives=[list(b.lifetime) for b in order],
        alignment=[b.alignment for b in order],
        pin=[-1 if b.offset is None else b.offset for b in order],
        reserved=part.arenas[0].reserved,
        coincide=[(index[a], index[b]) for a, b in part.may_coincide],
        placements=[(index[p.inner], index[p.outer], p.distance) for p in part.placements],
    )


def _lifetime(chance: random.Random) -> Lifetime:
    points = sorted(chance.sample(range(HORIZON), 2 * chance.choices((1, 2, 3), (6, 2, 1))[0]))
    return tuple(zip(points[::2], points[1::2], strict=True))


def _placements(chance: random.Random, buffers: list[Buffer]) -> tuple[Placement, ...]:
    """Chains and trees of them; now and then one whose alignment cannot be kept."""
    found = []
    for i, inner in enumerate(buffers[1:], 1):
        outer = chance.choice(buffers[:i])
        if inner.arena != outer.arena or inner.size > outer.size or chance.random() < 0.3:
            continue
        distance = chance.randint(0, outer.size - inner.size)
        if chance.random() < 0.8:
            distance -= distance % inner.alignment
        found.append(Placement(inner.id, outer.id, distance))
    return tuple(found)


def _coinciding(chance: random.Random, buffers: list[Buffer]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (a.id, b.id)
        for i, a in enumerate(buffers)
        for b in buffers[i + 1 :]
        if a.size == b.size and a.arena == b.arena and chance.random() < 0.6
    )


def _pinned(chance: random.Random, buffer: Buffer) -> Buffer:
    if chance.random() < 0.7:
        return buffer
    return replace(buffer, offset=buffer.alignment * chance.randint(0, 8 // buffer.alignment))
