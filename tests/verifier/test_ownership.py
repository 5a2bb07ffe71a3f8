"""The verifier and the planner against the simulator, on random programs.

The verifier is to accept what is safe on all paths, and nothing else. That it accepts nothing wrong is
asserted mutant by mutant; that it rejects nothing harmless is measured, because three things do no harm
and yet are nothing that a plan may do: writing one dead copy over another at one point, counting on
bytes at a time when the plan says that they are nobody's, misaligning what is written and never read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.ir.program import Call, Program, Region, Step, Storage, Value
from lowtide.lifetimes.lowering import lower
from lowtide.lifetimes.timeline import problem_of_flow
from lowtide.pack.hierarchy import POLICIES
from lowtide.pack.planner import plan_problem
from lowtide.testing import random_program, simulate
from lowtide.verifier.ownership import check_ownership
from mutants import MUTATIONS, mutants

PACKERS = ("auto", "greedy", "first-fit", "best-fit", "naive")
SIMULATED = tuple(kind for kind in MUTATIONS if kind not in ("forget", "shrink"))
"""A storage without a place, or with too small a one, is a fault before anything runs."""

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def program_of(random: Random, steps: int, sequential: bool) -> Program:
    return random_program(
        random,
        steps=random.randint(1, steps),
        depth=random.randint(0, 3),
        plan_inputs=random.random() < 0.7,
        plan_outputs=random.random() < 0.7,
        sequential=sequential,
    )


def check_plans(random: Random, *, steps: int, limit: int, sequential: bool = False) -> None:
    """Every policy's plan is accepted, and right on every path tried."""
    program = program_of(random, steps, sequential)
    flow = lower(program)
    problem = problem_of_flow(flow)
    arenas = []
    for policy in POLICIES:
        plan = plan_problem(problem, packer=random.choice(PACKERS[:1] * 3 + PACKERS), hierarchy=policy)
        assert check_ownership(program, plan) == []
        assert simulate(program, plan, paths=limit).fault == ""
        arenas.append(plan_problem(problem, packer="first-fit", hierarchy=policy).arena_bytes)
    assert arenas == sorted(arenas), "joint <= block <= stacked <= sum"


def judge_mutants(
    random: Random,
    verdicts: Counter[tuple[str, str]],
    *,
    count: int,
    limit: int,
    sequential: bool = False,
) -> None:
    """Mutants of one program's plan: the verifier's verdict against what the paths show."""
    program = program_of(random, 18, sequential)
    flow = lower(program)
    policy = random.choice(POLICIES)
    plan = plan_problem(problem_of_flow(flow), packer=random.choice(PACKERS[:4]), hierarchy=policy)
    for mutant in mutants(plan, random, count, SIMULATED):
        faults = check_ownership(program, mutant.plan)
        wrong = simulate(program, mutant.plan, paths=limit).fault
        assert faults or not wrong, f"{mutant.kind} of {mutant.what} is accepted, and {wrong}"
        if not faults:
            verdicts[mutant.kind, "harmless"] += 1
        elif wrong:
            verdicts[mutant.kind, "wrong"] += 1
        else:
            message = faults[0].message
            excuse = faults[0].kind == "misfit" or "both are written" in message or "dead at" in message
            verdicts[mutant.kind, "strict" if excuse else "unexplained"] += 1


@QUICK
@given(st.randoms(use_true_random=False))
def test_plans_are_right_on_every_path(random: Random) -> None:
    check_plans(random, steps=20, limit=8)


@QUICK
@given(st.randoms(use_true_random=False))
def test_what_the_verifier_accepts_is_right_on_every_path(random: Random) -> None:
    judge_mutants(random, Counter(), count=5, limit=10)


@QUICK
@given(st.randoms(use_true_random=False))
def test_copies_one_after_another(random: Random) -> None:
    check_plans(random, steps=20, limit=6, sequential=True)
    judge_mutants(random, Counter(), count=2, limit=6, sequential=True)


def test_what_the_verifier_rejects_is_wrong_on_some_path() -> None:
    verdicts: Counter[tuple[str, str]] = Counter()
    for seed in range(25):
        judge_mutants(Random(seed), verdicts, count=6, limit=150)
    total = {v: sum(n for (_, found), n in verdicts.items() if found == v) for _, v in verdicts}
    assert total["wrong"] > 40
    assert total["harmless"] > 10
    assert total.get("unexplained", 0) <= 0.02 * total["wrong"]
    assert total.get("strict", 0) <= 0.06 * total["wrong"]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(6))
def test_many_plans_are_right_on_every_path(block: int) -> None:
    for seed in range(500 * block, 500 * block + 350):
        check_plans(Random(seed), steps=30, limit=20, sequential=seed % 3 == 2)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_many_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts: Counter[tuple[str, str]] = Counter()
    for seed in range(1000, 1500):
        judge_mutants(Random(seed), verdicts, count=8, limit=200)
    columns = ("wrong", "harmless", "strict", "unexplained")
    with capsys.disabled():
        print("\nmutant       " + "".join(f"{column:>12}" for column in columns))
        for kind in SIMULATED:
            print(f"{kind:13}" + "".join(f"{verdicts[kind, column]:12}" for column in columns))
    assert sum(verdicts[kind, "unexplained"] for kind in SIMULATED) <= 10


# Cases that random programs brought to light.


def _storage(name: str, **fields: object) -> Storage:
    return Storage(name, 16, alignment=16, **fields)  # type: ignore[arg-type]


def test_nothing_planned_is_merged_into_what_the_caller_provides() -> None:
    """A branch's output is copied to an unplanned output: it needs bytes of its own in the plan."""
    values = (
        Value("root/x", 0, 0, (), "C"),
        Value("root/cond", 0, 1, (), "C"),
        Value("root/a/p", 1),
        Value("root/a/y", 1, 2, (), "C"),
    )
    storages = (
        _storage("root/x", kind="input"),
        _storage("root/cond", kind="output", planned=False),
        _storage("root/a/y", region=1),
    )
    call = Call("cond", (1, 1), (0,), results=(1,), selector=0)
    root = Region("root", (0,), (Step("cond", "cond", call=call),), (1,))
    branch = Region("root/a", (2,), (Step("y", "relu", reads=(2,), writes=(3,)),), (3,), "branch", 0)
    program = Program((root, branch), values, storages)
    problem = problem_of_flow(lower(program))
    assert [buffer.id for buffer in problem.buffers] == ["root/x", "root/a/y"]
    assert check_ownership(program, plan_problem(problem)) == []


def test_overwriting_a_part_is_no_full_write() -> None:
    """What lies outside the part stays alive, whoever calls the part written from end to end."""
    values = (
        Value("root/x", 0, 0, (), "C"),
        Value("root/y", 0, 1, (), "C"),
        Value("root/part", 0, None, (1,), ""),
        Value("root/z", 0, 2, (), "C"),
    )
    storages = (_storage("root/x", kind="input"), _storage("root/y"), _storage("root/z", kind="output"))
    steps = (
        Step("y", "relu", reads=(0,), writes=(1,)),
        Step("fill", "fill", writes=(2,)),
        Step("z", "relu", reads=(1,), writes=(3,)),
    )
    program = Program((Region("root", (0,), steps, (3,)),), values, storages)
    flow = lower(program)
    assert flow.points[2].writes == ()
    assert flow.points[2].partial == (1,)
    alive = {buffer.id: buffer.lifetime for buffer in problem_of_flow(flow).buffers}
    assert alive["root/y"] == ((1, 4),)


def test_two_places_for_one_storage() -> None:
    values = (Value("root/x", 0, 0, (), "C"), Value("root/y", 0, 1, (), "C"))
    storages = (_storage("root/x", kind="input"), _storage("root/y", kind="output"))
    program = Program(
        (Region("root", (0,), (Step("y", "relu", reads=(0,), writes=(1,)),), (1,)),), values, storages
    )
    plan = plan_problem(problem_of_flow(lower(program)))
    first, second = plan.problem.buffers
    buffers = (replace(first, members=("root/x", "root/y")), second)
    (fault,) = check_ownership(program, replace(plan, problem=replace(plan.problem, buffers=buffers)))
    assert fault.kind == "twice"


def test_state_that_is_reset_dies_with_its_last_use() -> None:
    values = (Value("root/x", 0, 0, (), "C"), Value("root/s", 0, 1, (), "C"), Value("root/y", 0, 2, (), "C"))
    storages = (
        _storage("root/x", kind="input"),
        _storage("root/s", kind="state"),
        _storage("root/y", kind="output"),
    )
    steps = (
        Step("add_", "add_", reads=(0, 1), partial=(1,)),
        Step("relu", "relu", reads=(1,), writes=(2,)),
    )
    program = Program((Region("root", (0,), steps, (2,)),), values, storages)
    alive = {buffer.id: buffer.lifetime for buffer in problem_of_flow(lower(program)).buffers}
    assert alive["root/s"] == ((0, 3),)
