"""Plans in which results lie over arguments and parts in wholes, carried out for real."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from control_flow import CONTROL_FLOW_MODELS  # noqa: E402
from lowtide.base.errors import ReplayError  # noqa: E402
from lowtide.frontends.torch_export import Imported, import_program  # noqa: E402
from lowtide.ir.plan import Plan  # noqa: E402
from lowtide.ir.request import Request  # noqa: E402
from lowtide.lifetimes.timeline import build_problem  # noqa: E402
from lowtide.pack.hierarchy import POLICIES, Hierarchy  # noqa: E402
from lowtide.pack.planner import plan_problem  # noqa: E402
from lowtide.replay import replay  # noqa: E402
from lowtide.replay.interpreter import Interpreter  # noqa: E402
from lowtide.verifier.checks import find_violations, verify  # noqa: E402
from models import REAL_MODELS  # noqa: E402
from random_graphs import random_graph  # noqa: E402

TECHNIQUES = ((True, False), (False, True), (True, True))
"""In-place reuse, copies that vanish, both."""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


class Written(nn.Module):
    """Runs a function, as a module that torch can export."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def imported_of(function: Callable[..., Any], *inputs: torch.Tensor) -> Imported:
    exported = torch.export.export(Written(function), inputs).run_decompositions()
    return import_program(exported)


def shared(imported: Imported, in_place: bool = True, elide: bool = True, **options: Any) -> Plan:
    problem = build_problem(imported.program, in_place=in_place, elide_copies=elide)
    plan = plan_problem(problem, **options)
    verify(plan, imported.program)
    return plan


X = torch.randn(8, 16)


def _chain(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x * 2) + 1
    return torch.softmax(y, -1).sum(0)


def _joined(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x * 2, x.sin(), x.cos()]).sum(1)


def _cut(x: torch.Tensor) -> torch.Tensor:
    a, b = torch.ops.aten.split_copy.Tensor(x * 2, 4)
    return a.sin().sum() + b.cos().sum()


def _statistics(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.ops.aten.native_layer_norm.default(x * 2, [16], None, None, 1e-5)


@pytest.mark.parametrize(
    ("function", "bytes_"),
    [
        # One buffer of 512 bytes in which all is computed, and a vector of 16 numbers.
        (_chain, 512 + 64),
        # Three parts in their whole, beside the input until the last is made, and 24 sums.
        (_joined, 4 * 512),
        (_cut, 2 * 512),
        (_statistics, 512 + 2 * 32),
    ],
    ids=lambda p: getattr(p, "__name__", None),
)
def test_bytes_that_are_shared(function: Callable[..., Any], bytes_: int) -> None:
    imported = imported_of(function, X)
    plan = shared(imported)
    assert plan.arena_bytes <= bytes_
    assert plan.arena_bytes < plan_problem(build_problem(imported.program)).arena_bytes
    assert replay(imported, plan).runs == 2


def test_results_are_written_over_arguments_by_out_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    call_over = Interpreter.call_over

    def spy(self: Interpreter, storage: int, node: torch.fx.Node, *rest: Any) -> Any:
        called.append(str(node.target))
        return call_over(self, storage, node, *rest)

    monkeypatch.setattr(Interpreter, "call_over", spy)
    imported = imported_of(_chain, X)
    replay(imported, shared(imported), times=1, eager=False)
    assert called == ["aten.mul.Tensor", "aten.relu.default", "aten.add.Tensor", "aten._softmax.default"]


def shifted(plan: Plan, name: str, by: int) -> Plan:
    """The same plan with one buffer elsewhere."""
    offsets = list(plan.offsets)
    offsets[plan.position_of(name)] += by
    uses = tuple(replace(use, bytes=use.bytes + abs(by)) for use in plan.uses)
    return replace(plan, offsets=tuple(offsets), uses=uses)


def test_a_result_half_over_its_argument_is_caught() -> None:
    imported = imported_of(_chain, X)
    plan = shifted(shared(imported), "root/relu", 16)
    assert find_violations(plan, imported.program)[0]
    with pytest.raises(ReplayError):
        replay(imported, plan, eager=False)


def test_a_part_that_is_not_at_its_place_is_caught() -> None:
    imported = imported_of(_joined, X)
    plan = shared(imported)
    for name in ("root/mul", "root/sin"):
        wrong = shifted(plan, name, 16)
        assert find_violations(wrong, imported.program)[0]
        with pytest.raises(ReplayError):
            replay(imported, wrong, eager=False)


def test_an_argument_that_lives_on_is_not_written_over() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        z = torch.relu(y)
        return z.sum(0) + y.view(-1)[:16]

    imported = imported_of(function, X)
    plan = shared(imported)
    assert replay(imported, plan).runs == 2
    names = {"root/relu", "root/mul"}
    assert not any(names == set(pair) for pair in plan.problem.may_coincide)


@pytest.mark.parametrize("name", CONTROL_FLOW_MODELS)
def test_control_flow(name: str) -> None:
    torch.manual_seed(0)
    module, inputs = CONTROL_FLOW_MODELS[name]()
    calls = inputs if isinstance(inputs, list) else [inputs]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        imported = import_program(torch.export.export(module, calls[0]))
    before = plan_problem(build_problem(imported.program))
    plan = shared(imported)
    assert plan.arena_bytes <= before.arena_bytes
    assert replay(imported, plan, list(calls), eager=False).outputs


def check_model(name: str) -> tuple[int, int]:
    """Bytes without and with everything on."""
    torch.manual_seed(0)
    module, inputs = REAL_MODELS[name]()
    calls = inputs if isinstance(inputs, list) else [inputs]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        imported = import_program(torch.export.export(module, calls[0]).run_decompositions())
    before = plan_problem(build_problem(imported.program)).arena_bytes
    for in_place, elide in TECHNIQUES:
        plan = shared(imported, in_place, elide)
        assert plan.arena_bytes <= before
        assert replay(imported, plan, list(calls), times=1, eager=False).runs == len(calls)
    return before, plan.arena_bytes


FAST_MODELS = ("bert",)


@pytest.mark.parametrize("name", FAST_MODELS)
def test_real_models(name: str) -> None:
    pytest.importorskip("transformers")
    before, after = check_model(name)
    assert after < before


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REAL_MODELS if name not in FAST_MODELS])
def test_other_real_models(name: str) -> None:
    pytest.importorskip("transformers")
    before, after = check_model(name)
    print(f"{name}: {before} -> {after} bytes, {after / before:.2f}")


def check_random(seed: int) -> int:
    """Plan a random graph with everything on, under any policy and packer; bytes saved."""
    random = Random(seed)
    case = random_graph(random, steps=random.randint(3, 30), depth=random.randint(0, 3))
    planned = [random.random() < 0.7 for _ in range(2)]
    options = Request(
        alignment=random.choice((8, 16, 64)), plan_inputs=planned[0], plan_outputs=planned[1], plan_state=True
    )
    imported = import_program(case.module, options)
    in_place, elide = random.choice((*TECHNIQUES, (True, True)))
    packer = random.choice(("auto", "first-fit", "best-fit"))
    policy: Hierarchy = "joint" if elide else random.choice(POLICIES)  # others keep regions apart
    plan = shared(imported, in_place, elide, packer=packer, hierarchy=policy)
    inputs = case.inputs if seed % 10 == 0 else random.sample(case.inputs, 2)
    assert replay(imported, plan, inputs, times=2, eager=False).runs == 2 * len(inputs)
    return plan_problem(build_problem(imported.program), packer=packer, hierarchy=policy).arena_bytes - (
        plan.arena_bytes
    )


def test_random_graphs() -> None:
    assert sum(check_random(seed) > 0 for seed in range(60)) > 10


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(10))
def test_many_random_graphs(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check_random(seed)
