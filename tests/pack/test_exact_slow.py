"""100,000 tiny problems with every feature, against brute force, and some against CP-SAT; a sample of them in
the fast suite.

The seed is the problem: a failure names it, and ``tiny_problem(seed)`` is the one to look at.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import pytest

from lowtide.base.errors import InfeasibleError, InputError
from lowtide.ir.plan import Plan
from lowtide.ir.problem import Problem
from lowtide.pack.exact import rules
from lowtide.pack.planner import plan_problem
from lowtide.pack.registry import Options
from tiny_problems import smallest, tiny_problem, unlimited

CHUNK = 5_000
"""Problems a test, so that several processes can share the work."""

PROBLEMS = 100_000


def planned(problem: Problem, packer: str, disable: tuple[str, ...] = ()) -> Plan | None:
    """A verified plan, or None if the packer says that there is none."""
    try:
        plan = plan_problem(problem, packer=packer, options=Options(threads=1, disable=disable))
    except (InfeasibleError, InputError):
        return None
    plan.verify()
    return plan


def compare(problem: Problem, best: list[int | None], packer: str, disable: tuple[str, ...] = ()) -> None:
    """The smallest arena, or the proof that there is none; and the same question with capacities."""
    possible = None not in best
    plan = planned(unlimited(problem), packer, disable)
    assert (plan is not None) == possible
    if plan is not None:
        assert [use.bytes for use in plan.uses] == best
        assert [use.lower_bound_bytes for use in plan.uses] == best
    if unlimited(problem) == problem:
        return
    room = [arena.capacity for arena in problem.arenas]
    fits = possible and all(c is None or (b is not None and b <= c) for b, c in zip(best, room, strict=True))
    fitted = planned(problem, packer, disable)
    assert (fitted is not None) == fits
    if fitted is not None:
        for use, least, capacity in zip(fitted.uses, best, room, strict=True):
            assert least is not None
            assert use.lower_bound_bytes <= least <= use.bytes
            assert capacity is None or use.bytes <= capacity


def agrees(seed: int) -> None:
    """Every problem by ``exact``; some with rules left out; some by ``auto``."""
    problem = tiny_problem(seed)
    best = smallest(problem)
    compare(problem, best, "exact")
    if seed % 4 == 1:
        chance = random.Random(seed)
        compare(problem, best, "exact", tuple(name for name in rules() if chance.random() < 0.5))
    if seed % 4 == 2:
        compare(problem, best, "auto")


@contextlib.contextmanager
def named(seed: int) -> Iterator[None]:
    """A failure says which problem it was."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"problem {seed}: {error!r}") from error


def agree(first: int, count: int) -> None:
    for seed in range(first, first + count):
        with named(seed):
            agrees(seed)


def test_a_sample_agrees_with_brute_force() -> None:
    agree(PROBLEMS, 1_000)


def test_the_sample_has_everything() -> None:
    """Each feature occurs, alone or with others, and so do problems without a solution."""
    problems = [tiny_problem(seed) for seed in range(PROBLEMS, PROBLEMS + 300)]
    buffers = [buffer for problem in problems for buffer in problem.buffers]
    for present in (
        any(len(b.lifetime) > 1 for b in buffers),
        any(b.alignment > 1 for b in buffers),
        any(b.offset is not None for b in buffers),
        any(b.size == 0 for b in buffers),
        any(a.reserved for p in problems for a in p.arenas),
        any(a.capacity is not None for p in problems for a in p.arenas),
        any(len(p.arenas) > 1 for p in problems),
        any(p.may_coincide and p.placements for p in problems),
        any(None in smallest(p) for p in problems),
    ):
        assert present


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, PROBLEMS, CHUNK))
def test_all_agree_with_brute_force(first: int) -> None:
    agree(first, CHUNK)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_some_agree_with_cpsat() -> None:
    """Brute force and search could share a misunderstanding; CP-SAT's model is stated in other terms."""
    pytest.importorskip("ortools")
    from cpsat import smallest_by_cpsat

    for seed in range(2 * PROBLEMS, 2 * PROBLEMS + 3_000):
        problem = tiny_problem(seed)
        best = [smallest_by_cpsat(problem.part(arena)[0]) for arena in problem.arenas]
        with named(seed):
            compare(problem, best, "exact")
