"""A bound where lifetimes have holes: buffers of which any two are alive together need separate bytes.

Where every lifetime is one interval, such buffers are all alive at one time, and the live peak is this bound.
Around branches and loops they need not be: three buffers may meet two at a time and never all at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.union_find import Classes

if TYPE_CHECKING:
    from lowtide.ir.problem import Problem

MOST = 400
"""Buffers; above so many the search would seldom end, and the heuristics seldom need it."""

STEPS = 2_000
"""Sets of buffers that are looked at; what was found by then is a bound all the same."""


def clique_bound(problem: Problem, *, steps: int = STEPS) -> int:
    """Bytes of the heaviest set of buffers, found in so many steps, of which no two may share any.

    A lower bound on the problem's one arena, reserved prefix included; 0 where it cannot exceed the peak.
    """
    buffers = problem.buffers
    if len(buffers) > MOST or all(len(buffer.lifetime) == 1 for buffer in buffers):
        return 0
    reserved = problem.arenas[0].reserved if problem.arenas else 0
    order = sorted(range(len(buffers)), key=lambda i: -buffers[i].size)
    search = _Search([buffers[i].size for i in order], _apart(problem, order), steps)
    search.grow((1 << len(order)) - 1, 0)
    return reserved + search.best


def _apart(problem: Problem, order: list[int]) -> list[int]:
    """For each buffer of the order, as bits, those that may share no byte with it."""
    events = []
    for rank, position in enumerate(order):
        for start, stop in problem.buffers[position].lifetime:
            events += [(start, 1, rank), (stop, 0, rank)]
    apart, alive = [0] * len(order), 0
    for _, begins, rank in sorted(events):  # what ends at a tick is gone before anything begins
        if not begins:
            alive &= ~(1 << rank)
            continue
        apart[rank] |= alive
        alive |= 1 << rank
    rank_of = {problem.buffers[position].id: rank for rank, position in enumerate(order)}
    groups = Classes(len(order))
    for placement in problem.placements:
        groups.merge(rank_of[placement.inner], rank_of[placement.outer])
    shared = [(rank_of[a], rank_of[b]) for a, b in problem.may_coincide]
    for members in groups.members().values():
        shared += [(a, b) for a in members for b in members if a != b]
    for rank, others in enumerate(apart):
        for other in _bits(others):
            apart[other] |= 1 << rank
    for a, b in shared:
        apart[a] &= ~(1 << b)
        apart[b] &= ~(1 << a)
    return apart


class _Search:
    """Branch and bound: colours of buffers that may share bound what a set can add."""

    def __init__(self, sizes: list[int], apart: list[int], steps: int) -> None:
        self.sizes, self.apart, self.steps = sizes, apart, steps
        self.best = 0

    def grow(self, candidates: int, weight: int) -> None:
        self.best = max(self.best, weight)
        self.steps -= 1
        if self.steps < 0:
            return
        for rank, most in reversed(self.coloured(candidates)):
            if weight + most <= self.best:
                return
            self.grow(candidates & self.apart[rank], weight + self.sizes[rank])
            candidates &= ~(1 << rank)

    def coloured(self, candidates: int) -> list[tuple[int, int]]:
        """Candidates, with the most that they and those before them can add: one of each colour."""
        found, total = [], 0
        while candidates:
            colour, heaviest = candidates, 0
            while colour:
                rank = (colour & -colour).bit_length() - 1
                heaviest = max(heaviest, self.sizes[rank])
                found.append((rank, total + heaviest))
                candidates &= ~(1 << rank)
                colour &= ~(self.apart[rank] | 1 << rank)
            total += heaviest
        return found


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
