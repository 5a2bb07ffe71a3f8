"""Packers against the smallest arena there is, found by trying every order."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from lowtide.ir.problem import Arena, Buffer, Problem
from lowtide.pack.bounds import live_peak, lower_bound
from lowtide.pack.planner import plan_problem
from lowtide.pack.registry import Options
from oracle import smallest_arena
from strategies import problems

PACKERS = ("first-fit", "first-fit-area", "first-fit-duration", "first-fit-start", "best-fit", "auto")
QUICK = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def best(problem: Problem) -> list[int]:
    return [smallest_arena(problem.part(arena)[0]) for arena in problem.arenas]


@QUICK
@given(problems(permissions=False, max_buffers=6))
def test_no_packer_beats_the_best_plan(problem: Problem) -> None:
    smallest = best(problem)
    for packer in PACKERS:
        plan = plan_problem(problem, packer=packer, options=Options(timeout=1.0, threads=1))
        for use, bytes in zip(plan.uses, smallest, strict=True):
            assert use.bytes >= bytes
            assert use.live_peak_bytes <= use.lower_bound_bytes <= bytes
            if use.bytes == use.lower_bound_bytes:
                assert use.bytes == bytes


@QUICK
@given(problems(permissions=False, max_buffers=6))
def test_auto_finds_the_best_plan(problem: Problem) -> None:
    """With few buffers the search ends by itself, and says that it has."""
    plan = plan_problem(problem, packer="auto", options=Options(threads=1))
    assert [use.bytes for use in plan.uses] == best(problem)
    assert plan.is_optimal


@QUICK
@given(problems(permissions=False, max_buffers=6))
def test_bounds_hold(problem: Problem) -> None:
    for arena in problem.arenas:
        part, _ = problem.part(arena)
        assert live_peak(part) <= lower_bound(part) <= smallest_arena(part)


def test_the_oracle_itself() -> None:
    """A gap between two that are alive: the best plan leaves none; a hole in a lifetime is used."""
    long = Buffer("long", 8, ((0, 10),))
    holed = Buffer("holed", 16, ((0, 2), (8, 10)))
    between = Buffer("between", 16, ((2, 8),))
    assert smallest_arena(Problem((long, holed, between))) == 24
    pinned = Buffer("pinned", 8, ((0, 10),), offset=40)
    assert smallest_arena(Problem((long, pinned), (Arena(1, reserved=4),))) == 48
    assert smallest_arena(Problem((Buffer("a", 6, ((0, 1),)), Buffer("b", 8, ((0, 1),), 4)))) == 14
