"""Random programs all the way: import, plan, verify, run in the arena, compared with eager too."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

torch = pytest.importorskip("torch")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from lowtide.frontends.torch_export import Imported, import_program  # noqa: E402
from lowtide.ir.plan import Plan  # noqa: E402
from lowtide.ir.request import Request  # noqa: E402
from lowtide.lifetimes.timeline import build_problem  # noqa: E402
from lowtide.pack.hierarchy import POLICIES  # noqa: E402
from lowtide.pack.planner import plan_problem  # noqa: E402
from lowtide.replay import replay  # noqa: E402
from lowtide.verifier.checks import verify  # noqa: E402
from random_graphs import Case, random_graph  # noqa: E402
from random_programs import random_module  # noqa: E402

PACKERS = ("naive", "greedy", "first-fit", "best-fit", "auto")
PLANNED = tuple(product((True, False), repeat=2))
"""Whether inputs and outputs are planned: all four combinations."""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Tensors are tiny: threads only get in each other's way."""
    torch.set_num_threads(1)


def plans_of(imported: Imported, packer: str) -> list[Plan]:
    """A verified plan under each policy, which are in order: joint, block, stacked, sum."""
    problem = build_problem(imported.program)
    plans = [plan_problem(problem, packer=packer, hierarchy=policy) for policy in POLICIES]
    for plan in plans:
        verify(plan, imported.program)
    arenas = [plan.arena_bytes for plan in plans]
    assert arenas == sorted(arenas), "joint <= block <= stacked <= sum"
    assert plans[0].lower_bound_bytes <= arenas[0]
    return plans


def check(source: object, inputs: list[tuple[torch.Tensor, ...]], random: Random, replays: int) -> None:
    """Every policy times every choice of what is planned is verified, and so many of them are replayed."""
    plans = []
    for plan_inputs, plan_outputs in PLANNED:
        options = Request(
            alignment=random.choice((16, 16, 64)),
            plan_inputs=plan_inputs,
            plan_outputs=plan_outputs,
            plan_state=random.random() < 0.8,
        )
        imported = import_program(source, options)
        plans += [(imported, plan) for plan in plans_of(imported, random.choice(PACKERS))]
    for number, (imported, plan) in enumerate(random.sample(plans, replays)):
        report = replay(imported, plan, list(inputs), times=2, eager=number == 0)
        assert report.runs == 2 * len(inputs)


def check_graph(seed: int, replays: int = 1) -> Case:
    random = Random(seed)
    case = random_graph(random, steps=random.randint(3, 30), depth=random.randint(0, 3))
    inputs = case.inputs if replays > 1 else random.sample(case.inputs, 3)
    check(case.module, inputs, random, replays)
    return case


def check_module(seed: int, replays: int = 1) -> bool:
    """Whether torch could export it; if so it is checked."""
    torch._dynamo.reset()
    random = Random(seed)
    module = random_module(random, steps=random.randint(5, 25), depth=random.randint(0, 2))
    try:
        exported = module.export(decompose=random.random() < 0.3)
    except Exception:  # torch refuses aliases that it sees, and fails on some captures: not our business
        return False
    check(exported, module.inputs, random, replays)
    return True


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_random_graphs(seed: int) -> None:
    check_graph(seed)


def test_a_graph_with_tensors_without_elements() -> None:
    check_graph(505, replays=2)


@pytest.mark.parametrize("seed", range(6))
def test_random_modules(seed: int) -> None:
    assert check_module(seed, replays=2)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(10))
def test_many_random_graphs(block: int) -> None:
    for seed in range(100 * block, 100 * block + 50):
        check_graph(seed, replays=2)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_many_random_modules(block: int) -> None:
    first = 100 + 25 * block
    assert sum(check_module(seed, replays=2) for seed in range(first, first + 25)) > 18


def test_the_generator_makes_what_it_promises() -> None:
    """Every construct occurs in a few hundred graphs, and in-place programs and others alternate."""
    operators: set[str] = set()
    for seed in range(60):
        case = random_graph(Random(seed), steps=30)
        modules = [m for m in case.module.modules() if isinstance(m, torch.fx.GraphModule)]
        operators |= {str(node.target) for module in modules for node in module.graph.nodes}
    for expected in (
        "cond",
        "while_loop",
        "scan",
        "map_impl",
        "associative_scan",
        "invoke_subgraph",
        "wrap_with_set_grad_enabled",
        "aten.add_.Tensor",
        "aten.copy_.default",
        "aten.add.out",
        "aten.view.default",
        "aten.reshape.default",
        "aten.expand.default",
        "aten.unbind.int",
        "aten.chunk.default",
        "aten.sort.default",
        "aten.empty.memory_format",
        "aten.new_empty.default",
        "aten.fill_.Scalar",
        "aten.zeros_like.default",
        "aten.lift_fresh_copy.default",
    ):
        assert expected in operators
