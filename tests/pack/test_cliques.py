"""The bound by buffers that meet two at a time: never above need, and what holes in lifetimes take."""

from __future__ import annotations

from itertools import combinations
from random import Random

import lowtide
from lowtide.ir.problem import Arena, Buffer, Placement, Problem
from lowtide.pack.bounds import live_peak
from lowtide.pack.cliques import MOST, clique_bound


def triangle(size: int = 16, **more) -> Problem:
    """Three buffers that meet two at a time."""
    meetings = {"a": (0, 4), "b": (0, 2), "c": (2, 4)}
    buffers = [Buffer(id, size, tuple((t, t + 1) for t in ticks)) for id, ticks in meetings.items()]
    return Problem(tuple(buffers), **more)


def holes(chance: Random, count: int) -> Problem:
    """Buffers with lifetimes of one to three intervals, some of which may share or lie in others."""
    buffers = []
    for i in range(count):
        cuts = sorted(chance.sample(range(12), 2 * chance.randint(1, 3)))
        lifetime = tuple(zip(cuts[::2], cuts[1::2], strict=True))
        buffers.append(Buffer(f"b{i}", chance.choice((16, 16, 32, 48)), lifetime))
    same = [(a.id, b.id) for a, b in combinations(buffers, 2) if a.size == b.size and chance.random() < 0.1]
    reserved = chance.choice((0, 0, 16))
    return Problem(tuple(buffers), arenas=(Arena(reserved=reserved),), may_coincide=tuple(same))


def heaviest(problem: Problem) -> int:
    """The same bound by trying every set."""
    free = {frozenset(pair) for pair in problem.may_coincide}

    def apart(a: Buffer, b: Buffer) -> bool:
        meet = any(s < v and u < t for s, t in a.lifetime for u, v in b.lifetime)
        return meet and frozenset((a.id, b.id)) not in free

    return problem.arenas[0].reserved + max(
        sum(buffer.size for buffer in chosen)
        for count in range(1, len(problem.buffers) + 1)
        for chosen in combinations(problem.buffers, count)
        if all(apart(a, b) for a, b in combinations(chosen, 2))
    )


def test_three_that_meet_two_at_a_time_need_bytes_of_their_own():
    problem = triangle()
    assert live_peak(problem) == 32
    assert clique_bound(problem) == 48
    plan = lowtide.plan(problem)
    assert (plan.arena_bytes, plan.lower_bound_bytes) == (48, 48)


def test_what_may_share_bytes_is_not_counted_twice():
    assert clique_bound(triangle(may_coincide=(("a", "b"),))) == 32
    assert clique_bound(triangle(placements=(Placement("a", "b", 0), Placement("b", "c", 0)))) == 16


def test_a_reserved_prefix_counts():
    assert clique_bound(triangle(arenas=(Arena(reserved=8),))) == 56


def test_it_is_the_heaviest_set_and_no_plan_is_below_it():
    chance, gained = Random(7), 0
    for _ in range(150):
        problem = holes(chance, chance.randint(2, 8))
        bound = clique_bound(problem)
        if bound:
            assert bound == heaviest(problem)
            arena = lowtide.plan(problem, packer="exact").arena_bytes
            assert arena >= bound
            gained += bound > live_peak(problem)
    assert gained > 5


def test_what_is_found_before_time_is_up_is_a_bound_too():
    problem = holes(Random(3), 12)
    bounds = [clique_bound(problem, steps=steps) for steps in (1, 3, 10, 10_000)]
    assert bounds == sorted(bounds)
    assert bounds[-1] == heaviest(problem)


def test_it_is_left_out_where_it_wins_nothing_or_costs_too_much():
    assert clique_bound(Problem((Buffer("a", 16, ((0, 2),)), Buffer("b", 16, ((1, 3),))))) == 0
    assert clique_bound(Problem(tuple(Buffer(f"b{i}", 1, ((0, 1), (2, 3))) for i in range(MOST + 1)))) == 0
