"""In-place reuse and copies that vanish, on random programs: planner and verifier against the simulator."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.ir.plan import Plan
from lowtide.ir.program import Program, Step
from lowtide.lifetimes.lowering import lower
from lowtide.lifetimes.timeline import problem_of_flow
from lowtide.pack.hierarchy import POLICIES
from lowtide.pack.planner import plan_problem
from lowtide.pack.registry import Options
from lowtide.testing import random_program, simulate
from lowtide.verifier.checks import verify
from lowtide.verifier.ownership import check_ownership
from mutants import MUTATIONS, mutants

PACKERS = ("auto", "first-fit", "best-fit", "first-fit-area")
SIMULATED = tuple(kind for kind in MUTATIONS if kind not in ("forget", "shrink"))
TECHNIQUES = tuple(product((False, True), repeat=2))
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def program_of(random: Random, steps: int, sequential: bool = False) -> Program:
    return random_program(
        random,
        steps=random.randint(1, steps),
        depth=random.randint(0, 3),
        plan_inputs=random.random() < 0.8,
        plan_outputs=random.random() < 0.8,
        sharing=True,
        sequential=sequential,
    )


def plan_of(program: Program, in_place: bool, elide: bool, random: Random) -> Plan:
    problem = problem_of_flow(lower(program), in_place=in_place, elide_copies=elide)
    policy = "joint" if problem.placements else random.choice(POLICIES)
    options = Options(timeout=0.2, threads=1)
    return plan_problem(problem, packer=random.choice(PACKERS), hierarchy=policy, options=options)


def check_plans(
    random: Random, seen: Counter[str], *, steps: int, limit: int, sequential: bool = False
) -> None:
    """All four combinations are verified, and right on every path tried."""
    program = program_of(random, steps, sequential)
    for in_place, elide in TECHNIQUES:
        plan = plan_of(program, in_place, elide, random)
        verify(plan, program)
        assert simulate(program, plan, paths=limit).fault == ""
        offsets = dict(zip((b.id for b in plan.problem.buffers), plan.offsets, strict=True))
        seen["reused"] += sum(offsets[a] == offsets[b] for a, b in plan.problem.may_coincide)
        seen["placed"] += len(plan.problem.placements)
        seen["merged"] += elide and sum(len(b.members) > 1 for b in plan.problem.buffers)


def without_leave(program: Program, random: Random) -> Program:
    """The same program, but that one step allows nothing, and copies nothing that anybody knows of."""
    able = [
        (r, s)
        for r, region in enumerate(program.regions)
        for s, step in enumerate(region.steps)
        if step.overwrites or step.matches
    ]
    if not able:
        return program
    at, which = random.choice(able)

    def changed(step: Step) -> Step:
        keep = random.randrange(3)
        return replace(
            step, overwrites=step.overwrites if keep == 1 else (), matches=step.matches if keep == 2 else ()
        )

    regions = list(program.regions)
    steps = list(regions[at].steps)
    steps[which] = changed(steps[which])
    regions[at] = replace(regions[at], steps=tuple(steps))
    return replace(program, regions=tuple(regions))


def judge(
    random: Random, verdicts: Counter[str], *, count: int, limit: int, sequential: bool = False
) -> None:
    """Mutants of a plan, and the plan for a program whose steps allow less: nothing wrong is accepted."""
    program = program_of(random, 18, sequential)
    plan = plan_of(program, True, True, random)
    trials = [(program, mutant.plan, mutant.kind) for mutant in mutants(plan, random, count, SIMULATED)]
    trials += [(without_leave(program, random), plan, "leave") for _ in range(2)]
    for judged, wrong, kind in trials:
        faults = check_ownership(judged, wrong)
        seen = simulate(judged, wrong, paths=limit).fault
        assert faults or not seen, f"{kind} is accepted, and {seen}"
        if not faults:
            verdicts["harmless"] += 1
        elif seen:
            verdicts["wrong"] += 1
        else:
            message = faults[0].message
            excuse = faults[0].kind == "misfit" or "both are written" in message or "dead at" in message
            verdicts["strict" if excuse else "unexplained"] += 1
        verdicts[f"{kind} wrong"] += bool(seen)


@QUICK
@given(st.randoms(use_true_random=False))
def test_plans_are_right_on_every_path(random: Random) -> None:
    check_plans(random, Counter(), steps=20, limit=8)


@QUICK
@given(st.randoms(use_true_random=False))
def test_what_the_verifier_accepts_is_right_on_every_path(random: Random) -> None:
    judge(random, Counter(), count=5, limit=10)


@QUICK
@given(st.randoms(use_true_random=False))
def test_copies_one_after_another(random: Random) -> None:
    check_plans(random, Counter(), steps=20, limit=6, sequential=True)
    judge(random, Counter(), count=2, limit=6, sequential=True)


def test_everything_occurs() -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        check_plans(Random(seed), seen, steps=30, limit=4)
    assert seen["reused"] > 20
    assert seen["placed"] > 20
    assert seen["merged"] > 20


def test_what_the_verifier_rejects_is_wrong_on_some_path() -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(30):
        judge(Random(seed), verdicts, count=5, limit=100)
    assert verdicts["wrong"] > 40
    assert verdicts["leave wrong"] > 3
    assert verdicts["unexplained"] <= 0.1 * verdicts["wrong"]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(8))
def test_many_plans_are_right_on_every_path(block: int) -> None:
    for seed in range(500 * block, 500 * block + 250):
        check_plans(Random(seed), Counter(), steps=30, limit=15, sequential=seed % 3 == 2)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(4))
def test_many_mutants(block: int) -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(10_000 + 150 * block, 10_150 + 150 * block):
        judge(Random(seed), verdicts, count=8, limit=120)
    print(dict(verdicts))
    assert verdicts["unexplained"] <= 0.1 * verdicts["wrong"]
