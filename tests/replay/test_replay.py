"""The replay itself: what is compared with what, and programs that once confused it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.passes.fake_tensor_prop import FakeTensorProp  # noqa: E402

import lowtide  # noqa: E402
from exports import FOUR, Lambda, storage  # noqa: E402
from lowtide.base.errors import InputError, ReplayError  # noqa: E402
from lowtide.frontends.torch_export import import_program  # noqa: E402
from lowtide.ir.request import Request  # noqa: E402
from lowtide.replay import ReplayReport, replay  # noqa: E402
from lowtide.replay.compare import is_close, largest_difference, same_bits  # noqa: E402
from lowtide.replay.eager import Eager  # noqa: E402
from lowtide.sources import load  # noqa: E402

PLANNED = [
    {"plan_inputs": inputs, "plan_outputs": outputs} for inputs, outputs in product((True, False), repeat=2)
]


def run(source: Any, inputs: Any = None, **request: Any) -> ReplayReport:
    """Plan, verify and replay, all with the same options."""
    plan = lowtide.plan(source, packer="first-fit", **request)
    assert lowtide.verify(plan, source, **request).followed
    return replay(source, plan, inputs, **request)


def exported(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(Lambda(function), inputs)


# Programs with bytes, views and constants that the two runs must meet alike.


def _literal(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor(3.0)


def _detached(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y.detach_() + x


def _indexed(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[torch.tensor([0, 2])] = 0
    return y + x


def _filled(x: torch.Tensor) -> torch.Tensor:
    y = x.new_empty(4, 4)
    y.fill_(2.0)
    y[0] = 1
    return y + x


def _copied(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(4, 4)
    y.copy_(x)
    return y + 1


def _shape_of_nothing(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(torch.empty(4, 4)) + x


def _in_parts(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    y[:2] = x[:2]
    y[2:] = 1
    return y + x


@pytest.mark.parametrize("request_", PLANNED, ids=str)
@pytest.mark.parametrize(
    "function",
    [_literal, _detached, _indexed, _filled, _copied, _shape_of_nothing, _in_parts],
    ids=lambda f: f.__name__,
)
def test_constants_and_undefined_bytes(function: Callable[..., Any], request_: dict[str, bool]) -> None:
    program = exported(function, torch.randn(4, 4))
    for form in (program, program.run_decompositions()):
        assert run(form, **request_).eager_differences == ()


def test_undefined_bytes_of_functions_and_methods_too() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.empty_like(x)
            return y.new_empty(4, 4) * 0 + x.new_empty(4, 4).copy_(x)

    graph = traced(Model(), FOUR)
    plan = lowtide.plan(graph)
    assert replay(graph, plan, (FOUR,), eager=False).runs == 2


# State.


class Tied(nn.Module):
    """One buffer under two names, one of which is written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(4, 4))
        self.register_buffer("b", self.a)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.a.add_(1)
        return x + self.b


class Counting(nn.Module):
    """Adds up its inputs, over invocations and within a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t * 2, (self.total,))


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("model", [Tied, Counting])
def test_state_tied_or_not_carried_over_or_not(model: type[nn.Module], reset: bool) -> None:
    program = torch.export.export(model(), (FOUR,))
    before = copy.deepcopy(program.state_dict)
    report = run(program, [(FOUR,), (-FOUR,), (FOUR,)], reset_state=reset)
    assert report.runs == 6
    assert report.eager_differences == ()
    assert before.keys() == program.state_dict.keys()
    assert all(torch.equal(before[name], program.state_dict[name]) for name in before)


def test_attributes_that_share_memory_are_one_storage() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.zeros(4, 4))
            self.register_buffer("b", self.a.detach())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.a.add_(x)
            return self.b + x

    graph = traced(Model(), FOUR)
    result = import_program(graph)
    assert storage(result, "root/a") == storage(result, "root/b")
    assert storage(result, "root/a").kind == "state"
    assert run(graph, (FOUR,)).eager_differences == ()
    assert torch.equal(graph.a, torch.zeros(4, 4))


# Nested graphs.


class Child(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor, y: torch.Tensor, scale: float = 2.0) -> dict[str, torch.Tensor]:
        return {"sum": self.act(x) + y, "scaled": x * scale}


class Parent(nn.Module):
    """Calls a graph module three times: by position, by keyword, and with all of its arguments."""

    def __init__(self, child: nn.Module) -> None:
        super().__init__()
        self.child = child
        self.act = nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        once = self.child(x, x * 2)
        twice = self.child(y=once["sum"], x=self.act(x))
        third = self.child(twice["scaled"], twice["sum"], scale=3.0)
        return third["sum"] + third["scaled"]


class NestedTracer(torch.fx.Tracer):
    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return isinstance(module, torch.fx.GraphModule) or bool(super().is_leaf_module(module, name))


def traced(module: nn.Module, *inputs: torch.Tensor) -> torch.fx.GraphModule:
    """A graph module with fake tensors, nested ones included."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    graph = torch.fx.GraphModule(module, NestedTracer().trace(module))
    for child in graph.children():
        if isinstance(child, torch.fx.GraphModule):
            FakeTensorProp(child, mode).propagate(*inputs, *inputs, 2.0)
    FakeTensorProp(graph, mode).propagate(*inputs)
    return graph


@pytest.mark.parametrize("request_", PLANNED, ids=str)
def test_graph_modules_that_call_graph_modules(request_: dict[str, bool]) -> None:
    graph = traced(Parent(torch.fx.symbolic_trace(Child())), FOUR)
    report = run(graph, (torch.randn(4, 4),), **request_)
    assert report.eager_differences == ()
    assert report.points > 2 * 3 * 3


# What a replay is asked.


def test_a_replay_takes_the_options_of_its_plan() -> None:
    program = exported(lambda x: torch.relu(x) + 1, FOUR)
    plan = lowtide.plan(program, plan_inputs=False)
    with pytest.raises(ReplayError, match=r"root/inputs_0 has no place in the plan \(kind input: was it"):
        replay(program, plan)
    assert replay(program, plan, plan_inputs=False).runs == 2
    loaded = load(program, Request(plan_inputs=False))
    assert replay(loaded, plan).runs == replay(loaded.origin, plan, times=2).runs == 2
    with pytest.raises(InputError, match="plan_inputs: the program was imported before"):
        replay(loaded, plan, plan_inputs=False)
    with pytest.raises(TypeError, match="unexpected option 'plan_input'"):
        replay(program, plan, plan_input=False)


def test_a_problem_cannot_be_run() -> None:
    plan = lowtide.plan(exported(torch.relu, FOUR))
    with pytest.raises(InputError, match="only a program"):
        replay(plan.problem, plan)


# Eager PyTorch beside it.


def _mutating(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x + 1


def test_mutated_inputs_and_state_are_compared_with_eager() -> None:
    program = torch.export.export(Counting(), (FOUR,))
    good = {"root/b_total": FOUR.clone()}
    assert not list(Eager(import_program(program)).differences(0, ((FOUR,), {}), [FOUR + 1], good, 1e-3))
    bad = {"root/b_total": FOUR + 1}
    with pytest.raises(ReplayError, match="run 0, root/b_total: eager PyTorch differs by 1"):
        list(Eager(import_program(program)).differences(0, ((FOUR,), {}), [FOUR + 1], bad, 1e-3))

    program = exported(_mutating, FOUR)
    assert run(program).eager_differences == ()
    near = {"root/inputs_0": FOUR * 2 + 1e-5}
    beside = Eager(import_program(program))
    (difference,) = beside.differences(3, ((FOUR,), {}), [FOUR * 2 + 1], near, 1e-3)
    assert str(difference).startswith("run 3, root/inputs_0: differs from eager by at most 1")
    assert 0 < difference.largest < 2e-5


def test_complex_numbers_are_compared_as_such() -> None:
    assert run(exported(lambda x: torch.fft.fft(x), torch.randn(8))).eager_differences == ()
    one, other = torch.tensor([1 + 0j, 2 + 2j]), torch.tensor([1 + 5j, 2 + 2j])
    assert largest_difference(one, other) == 5
    assert not is_close(one, other, 1e-3)
    assert is_close(one, one + 1e-5j, 1e-3)
    assert not same_bits(one, one.conj())
    assert same_bits(one.conj().conj(), one)
