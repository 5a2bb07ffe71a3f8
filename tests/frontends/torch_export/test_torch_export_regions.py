"""The torch.export front end: what is planned, state, control flow, dynamic shapes."""

from __future__ import annotations

import itertools
import operator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._higher_order_ops.associative_scan import associative_scan_op  # noqa: E402
from torch._higher_order_ops.map import map as map_rows  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.fx.experimental.symbolic_shapes import ShapeEnv  # noqa: E402
from torch.utils._sympy.value_ranges import ValueRanges  # noqa: E402

from exports import FOUR, Lambda, imported, names, region, step, storage, storages, value  # noqa: E402
from lowtide.frontends.torch_export import import_program  # noqa: E402
from lowtide.ir.request import Request  # noqa: E402
from lowtide.operators.sizes import Bounds  # noqa: E402
from models import CONTROL_FLOW_MODELS, AliasedResults  # noqa: E402

# Inputs, outputs, state: what is planned.


def _reaches_out(x: torch.Tensor, y: torch.Tensor, p: torch.Tensor) -> Any:
    inner, other = torch.cond(p, lambda x: (x.sin(), x.cos()), lambda x: (x * 2, x * 3), (x,))
    made = y.exp()
    return x, x.view(16), inner, made, made, (other + 1).sum()


@pytest.mark.parametrize(("inputs", "outputs"), list(itertools.product([True, False], repeat=2)))
def test_inputs_and_outputs_are_planned_as_asked(inputs: bool, outputs: bool) -> None:
    result = imported(
        _reaches_out, FOUR, FOUR.clone(), torch.tensor(True), plan_inputs=inputs, plan_outputs=outputs
    )
    planned = {s.name: s.planned for s in result.program.storages}
    assert planned["root/inputs_0"] is (inputs and outputs)  # returned as it is, and as a view
    assert planned["root/inputs_1"] is inputs
    assert planned["root/inputs_2"] is inputs
    assert planned["root/cond.0"] is outputs  # comes out of a branch
    assert planned["root/exp"] is outputs  # returned twice
    assert planned["root/sum_1"] is outputs
    assert planned["root/cond.1"]
    assert planned["root/add"]
    assert planned["root/true_graph_0/sin"]
    assert storages(result, "output") == ["root/cond.0", "root/exp", "root/sum_1"]
    assert names(result, result.program.regions[0].outputs)[3:5] == ["root/exp", "root/exp"]
    assert result.options == Request(plan_inputs=inputs, plan_outputs=outputs)


def test_constants_are_never_planned_even_when_returned() -> None:
    result = import_program(torch.export.export(AliasedResults(), (FOUR,)))
    assert storages(result, "constant") == ["root/p_weight"]
    assert not storage(result, "root/p_weight").planned
    assert [i.kind for i in result.inputs] == ["parameter", "user"]
    assert result.inputs[0].target == "weight"
    assert result.tensors[result.program.value("root/p_weight")].shape == (4, 4)
    assert result.program.regions[0].params == (result.program.value("root/x"),)


def test_lifted_constants_in_branches() -> None:
    table = torch.arange(16.0).view(4, 4)

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x + table, lambda x: x - table, (x,))

    exported = torch.export.export(Model(), (FOUR,))
    for bare in (False, True):
        for name in ("true_graph_0", "false_graph_0"):
            placeholders = getattr(exported.graph_module, name).graph.find_nodes(op="placeholder")
            assert len(placeholders) == 2
            for placeholder in placeholders:  # some tracers leave what they lift without a fake tensor
                if bare:
                    placeholder.meta.pop("val", None)
        result = import_program(exported)
        assert len(storages(result, "constant")) == 1
        assert any(torch.equal(t, table) for t in result.tensors.values())


@pytest.mark.parametrize(("plan", "reset"), list(itertools.product([True, False], repeat=2)))
def test_state_is_planned_and_persistent_as_asked(plan: bool, reset: bool) -> None:
    module, inputs = CONTROL_FLOW_MODELS["stateful"]()
    result = import_program(
        torch.export.export(module, inputs[0]), Request(plan_state=plan, reset_state=reset)
    )
    state = [s for s in result.program.storages if s.kind == "state"]
    assert [s.name for s in state] == ["root/b_count", "root/b_mean"]
    assert all(s.planned is plan and s.persistent is not reset for s in state)


@pytest.mark.parametrize("plan", [True, False])
def test_state_that_is_returned_stays_where_state_is(plan: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("s", torch.zeros(4, 4))

        def forward(self, x: torch.Tensor) -> Any:
            self.s.add_(x)
            return self.s, x + 1

    program = torch.export.export(Model(), (FOUR,))
    result = import_program(program, Request(plan_state=plan, plan_outputs=not plan))
    kept = storage(result, "root/b_s")
    assert (kept.kind, kept.planned, kept.persistent) == ("state", plan, True)
    assert storage(result, "root/add").planned is not plan


def test_state_changed_inside_a_branch_or_a_tied_buffer_is_state() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.zeros(4))
            self.register_buffer("b", self.a)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.a.add_(1)
            return x + self.b

    result = import_program(torch.export.export(Tied(), (torch.ones(4),)))
    assert len(storages(result, "state")) == 1
    assert storages(result, "constant") == []

    inner = torch.fx.Graph()
    target = inner.placeholder("target")
    changed = inner.call_function(torch.ops.aten.add_.Tensor, (target, 1))
    inner.output((changed.args[0],))
    outer = torch.fx.Graph()
    held = outer.get_attr("held")
    body = outer.get_attr("body")
    call = outer.call_function(torch.ops.higher_order.invoke_subgraph, (body, "body", held))
    outer.output(outer.call_function(operator.getitem, (call, 0)))
    for node in (target, changed, held):
        node.meta["val"] = torch.empty(4, device="meta")
    call.meta["val"] = (torch.empty(4, device="meta"),)
    holder = nn.Module()
    holder.held, holder.body = nn.Buffer(torch.zeros(4)), torch.fx.GraphModule({}, inner)
    nested = import_program(torch.fx.GraphModule(holder, outer))
    assert storages(nested, "state") == ["root/held"]
    assert names(nested, nested.program.regions[1].steps[0].partial) == ["root/body/target"]


# Control flow.


def test_cond_binds_operands_and_copies_results() -> None:
    result = imported(_reaches_out, FOUR, FOUR.clone(), torch.tensor(True))
    call = step(result, "cond").call
    assert call is not None
    assert (call.kind, names(result, [call.selector])) == ("cond", ["root/inputs_2"])
    assert [result.program.regions[r].name for r in call.regions] == [
        "root/true_graph_0",
        "root/false_graph_0",
    ]
    assert [result.program.regions[r].kind for r in call.regions] == ["branch", "branch"]
    assert names(result, call.operands) == ["root/inputs_0"]
    assert names(result, call.results) == ["root/cond.0", "root/cond.1"]
    branch = region(result, "root/true_graph_0")
    assert names(result, branch.outputs) == ["root/true_graph_0/sin", "root/true_graph_0/cos"]
    assert branch.parent == 0
    param = result.program.values[branch.params[0]]
    assert (param.storage, param.aliases) == (None, ())
    assert (step(result, "cond").reads, step(result, "cond").writes) == ((), ())


def test_while_has_carries_and_operands() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> Any:
        seen = x.sin()
        return while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a + seen), (torch.zeros_like(n), x))

    result = imported(function, FOUR, torch.tensor(3))
    call = step(result, "while_loop").call
    assert call is not None
    assert call.kind == "while"
    assert names(result, call.inits) == ["root/zeros_like", "root/inputs_0"]
    assert names(result, call.carries) == ["root/while_loop.0", "root/while_loop.1"]
    assert call.results == ()
    assert set(names(result, call.operands)) == {"root/inputs_1", "root/sin"}
    condition, body = (result.program.regions[r] for r in call.regions)
    assert (condition.kind, body.kind) == ("condition", "body")
    assert len(condition.params) == len(body.params) == 4
    assert (len(condition.outputs), len(body.outputs)) == (1, 2)
    assert storages(result, "output") == ["root/while_loop.0", "root/while_loop.1"]


def test_map_and_scan_are_scans() -> None:
    rows = imported(lambda x, w: map_rows(lambda r, w: r * w, x, w), FOUR, torch.ones(4))
    call = next(s.call for s in region(rows, "root").steps if s.call)
    assert call.kind == "scan"
    assert (call.carries, call.inits) == ((), ())
    assert names(rows, call.slices) == ["root/inputs_0"]
    assert names(rows, call.operands) == ["root/inputs_1"]
    assert storage(rows, "root/map_impl.0").size == 64
    assert storage(rows, "root/body_graph_0/mul").size == 16

    scanned = imported(lambda x, s: scan(lambda c, r: (c + r, c * r), s, x), FOUR, torch.ones(4))
    call = next(s.call for s in region(scanned, "root").steps if s.call)
    assert names(scanned, call.carries) == ["root/scan.0"]
    assert names(scanned, call.results) == ["root/scan.1"]
    assert names(scanned, call.inits) == ["root/inputs_1"]
    body = scanned.program.regions[call.regions[0]]
    assert len(body.params) == 2
    assert len(body.outputs) == 2


def test_associative_scan() -> None:
    graph = make_fx(lambda x: associative_scan_op(lambda a, b: (a * b,), (x,), ()), tracing_mode="fake")(
        torch.ones(5, 3)
    )
    result = import_program(graph)
    call = next(s.call for s in region(result, "root").steps if s.call)
    assert call.kind == "associative_scan"
    assert len(result.program.regions[call.regions[0]].params) == 2  # the part before, and the slice
    assert (len(call.slices), len(call.results), call.carries) == (1, 1, ())


def test_one_region_called_twice() -> None:
    @torch.compiler.nested_compile_region
    def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).relu()

    class Model(nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            first = block(x, w)
            return first + block(first, w)

    result = import_program(torch.export.export(Model(), (FOUR, FOUR.clone()), strict=True))
    assert [r.kind for r in result.program.regions] == ["root", "call"]
    calls = [s.call for s in region(result, "root").steps if s.call]
    assert [c.regions for c in calls] == [(1,), (1,)]
    assert calls[0].operands != calls[1].operands
    assert storages(result, "result") == ["root/invoke_subgraph.0", "root/invoke_subgraph_1.0"]


def test_wrapped_regions_say_what_they_run_under() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            with torch.no_grad():
                quiet = x * 2
            with torch.autocast("cpu", dtype=torch.bfloat16):
                low = quiet @ quiet
            return quiet + 1, low

    result = import_program(torch.export.export(Model(), (FOUR,)))
    assert [c.mode for c in result.regions[0].calls.values()] == [
        ("grad", False),
        ("autocast", ("cpu", torch.bfloat16, True, False)),
    ]
    assert [r.kind for r in result.program.regions] == ["root", "call", "call"]
    assert storage(result, "root/matmul.0").dtype == "bfloat16"


def test_effect_tokens_are_neither_inputs_nor_outputs() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.ops.aten._print("seen")
            return x + 1

    result = import_program(torch.export.export(Model(), (FOUR,)).run_decompositions())
    assert step(result, "with_effects").effects
    assert len(result.program.regions[0].params) == 1
    assert names(result, result.program.regions[0].outputs) == ["root/add"]
    assert [i.kind for i in result.inputs] == ["token", "user"]


@pytest.mark.parametrize("name", list(CONTROL_FLOW_MODELS))
def test_control_flow_models_take_every_branch(name: str) -> None:
    module, cases = CONTROL_FLOW_MODELS[name]()
    exported = torch.export.export(module, cases[0])
    result = import_program(exported)
    left = {r.name for r in result.program.regions[1:]}
    for part, binding in zip(result.program.regions[1:], result.regions[1:], strict=True):
        assert binding.module is not None
        binding.module.register_forward_hook(lambda *_, name=part.name: left.discard(name))
    runnable = exported.module()
    with torch.no_grad():
        for inputs in cases:
            runnable(*inputs)
    assert left == set()


# Dynamic shapes.


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.avg_pool1d(torch.cat([x, x]), 2).cos()


def test_bounded_shapes_are_planned_at_their_upper_bound(tmp_path: Path) -> None:
    shapes = {"x": {0: Dim("n", min=2, max=10)}}
    exported = torch.export.export(Doubled(), (torch.ones(4, 6),), dynamic_shapes=shapes)
    torch.export.save(exported, tmp_path / "dynamic.pt2")
    for result in (import_program(exported), import_program(tmp_path / "dynamic.pt2")):
        assert storage(result, "root/x").size == 240  # 10 * 6 * 4
        assert storage(result, "root/cat").size == 480
        assert storage(result, "root/cos").size == 240
        assert storage(result, "root/cat").shape == (f"2*{result.inputs[0].node.meta['val'].shape[0]}", 6)
        assert all(s.planned for s in result.program.storages)
        assert value(result, "root/cat").layout == "C"


def test_bounds_of_derived_sizes_are_exact_where_a_symbol_occurs_twice() -> None:
    env = ShapeEnv()
    n = env.create_unbacked_symint()
    env.constrain_symbol_range(n.node.expr, 3, 9)
    bounds = Bounds({})
    with FakeTensorMode(shape_env=env):
        assert bounds.bytes_of(torch.empty(n - n // 2, dtype=torch.uint8), 1) == 5
        assert bounds.bytes_of(torch.empty(n * 4 + 2, dtype=torch.uint8), 1) == 38
    assert Bounds({str(n.node.expr): ValueRanges(4, 6)}).bytes_of(torch.ones(2), 16) == 16


def test_unbounded_shapes_are_not_planned() -> None:
    exported = torch.export.export(
        Lambda(lambda x: (x.nonzero() * 2, x + 1)), (FOUR,), dynamic_shapes=(({0: Dim.DYNAMIC},),)
    )
    result = import_program(exported)
    assert storage(result, "root/nonzero").size is None
    assert not storage(result, "root/nonzero").planned
    assert storage(result, "root/add").size is None
    assert storage(result, "root/add").kind == "output"


def test_symbolic_operands_are_no_values() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n = x.shape[0]
            return torch.cond(x.sum() > 0, lambda x: x * n, lambda x: x - n, (x,))

    exported = torch.export.export(Model(), (FOUR,), dynamic_shapes={"x": {0: Dim("n", min=2, max=8)}})
    result = import_program(exported)
    call = next(s.call for s in region(result, "root").steps if s.call)
    assert None in call.operands
    assert all(len(result.program.regions[r].params) == len(call.operands) for r in call.regions)
