"""The verifier finds what its rules say, no more and no less, on branches, loops and mutants of plans."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.ir.flow import Activation, FlowGraph, Point
from lowtide.ir.plan import Plan
from lowtide.ir.program import Program
from lowtide.lifetimes.lowering import lower
from lowtide.lifetimes.timeline import problem_of_flow
from lowtide.pack.planner import plan_problem
from lowtide.testing import random_program
from lowtide.verifier.addresses import Addresses, Range, meetings
from lowtide.verifier.ownership import check_ownership
from mutants import MUTATIONS, mutants
from slow_ownership import Fault, SlowOwnership

SIMULATED = tuple(kind for kind in MUTATIONS if kind not in ("forget", "shrink"))
PLACES = {"unknown", "unasked", "twice", "misfit", "unplaced"}
"""Faults of places, after which nothing is followed."""


def found_by(program: Program, plan: Plan) -> set[Fault] | None:
    """What the verifier finds, in the form of the slow one; None if places are wrong already."""
    faults = check_ownership(program, plan, limit=10**6)
    if any(fault.kind in PLACES for fault in faults):
        return None
    found = set()
    for fault in faults:
        tick = re.search(r"\(tick (\d+)\)", fault.message)
        assert tick is not None
        names = fault.buffers[:1] if fault.kind == "lost" else fault.buffers
        found.add((int(tick[1]), fault.kind, names))
    return found


def compare(random: Random, steps: int, count: int) -> int:
    """Judge mutants of one program's plans both ways; return how many were wrong."""
    program = random_program(
        random,
        steps=random.randint(1, steps),
        depth=random.randint(0, 3),
        plan_inputs=random.random() < 0.7,
        plan_outputs=random.random() < 0.7,
        sharing=random.random() < 0.7,
    )
    flow = lower(program)
    elide, in_place = random.random() < 0.5, random.random() < 0.5
    plan = plan_problem(problem_of_flow(flow, in_place=in_place, elide_copies=elide), packer="first-fit")
    wrong = 0
    for judged in (plan, *(mutant.plan for mutant in mutants(plan, random, count, SIMULATED))):
        found = found_by(program, judged)
        if found is not None:
            assert found == SlowOwnership(flow, judged).faults()
            wrong += bool(found)
    return wrong


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_the_same_faults_as_pair_by_pair(random: Random) -> None:
    compare(random, steps=16, count=4)


def test_mutants_are_judged_the_same() -> None:
    assert sum(compare(Random(seed), steps=20, count=6) for seed in range(40)) > 40


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_many_mutants_are_judged_the_same() -> None:
    for seed in range(2000):
        compare(Random(seed), steps=30, count=10)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 9)), max_size=30))
def test_ranges_that_meet(drawn: list[tuple[int, int, int]]) -> None:
    ranges = {i: Range(arena, start, start + length) for i, (arena, start, length) in enumerate(drawn)}

    def meet(a: Range, b: Range) -> bool:
        return a.arena == b.arena and bool(set(range(a.start, a.stop)) & set(range(b.start, b.stop)))

    among = meetings(ranges, ranges)
    index = Addresses()
    for i, range_ in ranges.items():
        assert set(index.meeting(range_)) == {j for j in range(i) if meet(ranges[j], range_)}
        assert among.get(i, set()) == {j for j in ranges if j != i and meet(ranges[j], range_)}
        index.add(i, range_)
    for i, range_ in ranges.items():
        index.remove(i, range_)
        assert set(index.meeting(range_)) == {j for j in ranges if j > i and meet(ranges[j], range_)}


def test_blocks() -> None:
    """Control enters a block at its first point only, and leaves it at its last only."""
    edges = {0: (1,), 1: (2,), 2: (3, 5), 3: (4,), 4: (2,), 5: (6,), 6: (7,), 7: ()}
    points = tuple(Point("step", 0, successors=edges[tick]) for tick in edges)
    flow = FlowGraph(random_program(Random(0)), points, (Activation(0, None, -1, {}),), ())
    assert list(flow.blocks.values()) == [range(2), range(2, 3), range(3, 5), range(5, 8)]
    assert flow.blocks_before == {0: (), 2: (0, 3), 3: (2,), 5: (2,)}
