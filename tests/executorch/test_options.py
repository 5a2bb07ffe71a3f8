"""Every option of the stock pass, on the real runtime."""

from __future__ import annotations

import warnings

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.capture._capture import patch_forward
from executorch.exir.schema import Tensor
from executorch.runtime import Runtime
from torch import nn

from lowtide.base.errors import LowtideError
from lowtide.executorch import MemoryPlanningPass, planning_pass
from models import CONTROL_FLOW_MODELS
from runtime import Lowered, differences, eager, edge_of, emitted, lower
from zoo import ZOO, Run, signs
from zoo_modules import Stateful


@pytest.fixture(scope="module")
def results():
    """A program whose conds' results are its outputs: model, calls, eager outputs, edge program."""
    torch.manual_seed(0)
    model, calls = ZOO["results_are_outputs"]()
    calls = [*calls, *reversed(calls), *calls]
    return model, calls, eager(model, calls), edge_of(model, calls[0])


@pytest.mark.parametrize("inputs", [True, False])
@pytest.mark.parametrize("outputs", [True, False])
def test_inputs_and_outputs_planned_or_not(results, inputs, outputs):
    _, calls, expected, edge = results
    planning = MemoryPlanningPass(alloc_graph_input=inputs, alloc_graph_output=outputs)
    lowered = lower(edge, planning)
    assert differences(expected, lowered.run(calls)) == []
    kinds = {buffer.kind for buffer in planning.plan.problem.buffers}
    assert ("input" in kinds) == inputs
    assert ("output" in kinds) == outputs
    # The runtime cannot hand a branch's tensor to the caller in the caller's own memory.
    assert len(planning.notes) == (0 if outputs else 3)


class WrittenInput(nn.Module):
    """Writes to its input, directly or with a cond's result; what was written is an output too."""

    def __init__(self, through_cond: bool) -> None:
        super().__init__()
        self.through_cond = through_cond

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        if self.through_cond:
            x.copy_(torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,)))
        else:
            x.add_(1)
        return x * 2 + y


@pytest.mark.parametrize("inputs", [True, False])
@pytest.mark.parametrize("outputs", [True, False])
@pytest.mark.parametrize("through_cond", [True, False])
def test_inputs_that_are_written_to(inputs, outputs, through_cond):
    torch.manual_seed(0)
    model = WrittenInput(through_cond)
    calls = [(torch.rand(2, 3),), (-torch.rand(2, 3),), (torch.rand(2, 3),)]
    planning = MemoryPlanningPass(alloc_graph_input=inputs, alloc_graph_output=outputs)
    lowered = lower(edge_of(model, calls[0]), planning)
    found = [outcome[-1:] for outcome in lowered.run(calls)]  # what was written comes first
    assert differences(eager(model, calls), found) == []


@pytest.mark.parametrize(
    ("inputs", "outputs", "clones"), [(True, True, 0), (False, True, 1), (True, False, 2)]
)
def test_outputs_that_are_inputs_parameters_or_twice_the_same(inputs, outputs, clones):
    torch.manual_seed(0)
    model, calls = CONTROL_FLOW_MODELS["aliased_results"]()
    planning = MemoryPlanningPass(alloc_graph_input=inputs, alloc_graph_output=outputs)
    lowered = lower(edge_of(model, calls[0]), planning)
    assert differences(eager(model, calls), lowered.run(calls)) == []
    assert len(planning.notes) == clones


def test_bounded_dynamic_shapes():
    def function(x):
        h = x.tanh()
        r = torch.cond(
            x.sum() > 0,
            lambda x, h: (h.reshape(-1) * 2).reshape(-1, 6) + x,
            lambda x, h: h - x.sin(),
            (x, h),
        )
        s = torch.cond(
            x.amax() > 10,
            lambda r: r.reshape(-1, 2, 3) * 2,
            lambda r: r.reshape(-1, 2, 3).cos(),
            (r,),
        )
        return s.reshape(-1) + r.reshape(-1), h

    torch.manual_seed(0)
    sizes = ((4, 1), (9, 30), (2, -30), (5, -1), (7, 2), (3, 40))
    calls = [(torch.randn(rows, 6) * scale,) for rows, scale in sizes]
    model, rows = Run(function), torch.export.Dim("rows", min=1, max=9)
    edge = edge_of(model, calls[0], dynamic_shapes=(({0: rows},),))
    planning = MemoryPlanningPass()
    assert differences(eager(model, calls), lower(edge, planning).run(calls)) == []
    largest = {b.size for b in planning.plan.problem.buffers if b.name == "root/inputs_0"}
    assert largest == {224}  # nine rows of six floats, rounded up


@pytest.mark.parametrize("alignment", [1, 16, 64])
def test_alignment(results, alignment):
    _, calls, expected, edge = results
    planning = MemoryPlanningPass(alignment=alignment)
    lowered = lower(edge, planning)
    assert differences(expected, lowered.run(calls)) == []
    assert all(offset % alignment == 0 for offset in planning.plan.offsets)
    assert all(buffer.size % alignment == 0 for buffer in planning.plan.problem.buffers)


def test_mutable_buffers_planned_or_named():
    torch.manual_seed(0)
    model, calls = Stateful("written"), signs(4, 6)
    edge = edge_of(model, calls[0])
    planned = MemoryPlanningPass()
    assert differences(eager(model, calls), lower(edge, planned).run(calls)) == []
    state = [buffer for buffer in planned.plan.problem.buffers if buffer.kind == "state"]
    assert sorted(buffer.size for buffer in state) == [16, 96]


def test_mutable_buffers_that_the_caller_provides():
    """Not executed: the Python runtime has no way to provide them, and writes through a null pointer."""
    edge = edge_of(Stateful("written"), signs(4, 6)[0])
    apart = MemoryPlanningPass(alloc_mutable_buffers=False)
    lowered = lower(edge, apart, initialised=(), emit_mutable_buffer_names=True)
    assert not any(buffer.kind == "state" for buffer in apart.plan.problem.buffers)
    (plan,) = lowered.manager.executorch_program.execution_plan
    tensors = [value.val for value in plan.values if isinstance(value.val, Tensor)]
    named = {t.extra_tensor_info.fully_qualified_name: t for t in tensors if t.extra_tensor_info}
    assert all(named[name].allocation_info is None for name in ("count", "mean"))
    assert plan.non_const_buffer_sizes == emitted(apart.plan)


class Account(nn.Module):
    """Three methods over one buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added = torch.cond(
            x.sum() > 0, lambda x, t: x + t.view(2, 2).view(4), lambda x, t: x - t, (x, self.total)
        )
        self.total.add_(added)
        return added.view(2, 2) * 2

    def get(self) -> torch.Tensor:
        return self.total * 1

    def put(self, x: torch.Tensor) -> torch.Tensor:
        self.total.copy_(x)
        return x + 1


@pytest.fixture(scope="module")
def account():
    """An edge program of three methods over one buffer."""
    model, x = Account(), torch.ones(4)
    exported = {"forward": torch.export.export(model, (x,))}
    for name, arguments in (("get", ()), ("put", (x,))):
        with patch_forward(model, getattr(model, name)):
            exported[name] = torch.export.export(model, arguments)
    return to_edge(exported)


@pytest.mark.parametrize("share", [False, True])
def test_several_methods(account, share):
    planning = MemoryPlanningPass(share_mutable_buffers=share)
    lowered = lower(account, planning, initialised=(), emit_mutable_buffer_names=share)
    plans = lowered.manager.executorch_program.execution_plan
    assert len(planning.plans) == 3
    for plan, found in zip(plans, planning.plans, strict=True):
        assert plan.non_const_buffer_sizes == emitted(found, shared=16 if share else None)
    program = Runtime.get().load_program(lowered.buffer)
    methods = {name: program.load_method(name) for name in ("put", "forward", "get")}
    x = torch.ones(4)
    assert methods["put"].execute([x])[0].tolist() == [2, 2, 2, 2]
    added = methods["forward"].execute([x])[0].clone()
    if share:
        assert added.tolist() == [[4, 4], [4, 4]]
        assert methods["get"].execute([])[0].tolist() == [3, 3, 3, 3]


def test_a_pass_for_each_method(account):
    """Methods that are not named get the stock pass, from ExecuTorch's own default."""
    passes = {"forward": MemoryPlanningPass(), "put": MemoryPlanningPass(packer="naive")}
    lowered = lower(account, passes, initialised=["total"])
    assert [len(planning.plans) for planning in passes.values()] == [1, 1]
    assert [planning.plan.packer for planning in passes.values()] == ["auto", "naive"]
    assert lowered.arena_bytes("forward") == passes["forward"].plan.arena_bytes
    assert lowered.arena_bytes("put") == passes["put"].plan.arena_bytes
    x = torch.ones(4)
    assert [y[0].tolist() for y in lowered.run([(x,), (x,)])] == [[[2, 2], [2, 2]], [[4, 4], [4, 4]]]
    assert lowered.run([(x,)], "put")[0][0].tolist() == [2, 2, 2, 2]
    assert lowered.run([()], "get")[0][0].tolist() == [0, 0, 0, 0]


def test_nothing_is_left_of_a_program_that_could_not_be_planned(account, monkeypatch):
    planning = MemoryPlanningPass(share_mutable_buffers=True)
    honest, calls = planning_pass.write_plan, []

    def second_fails(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise LowtideError("no more")
        honest(*arguments)

    monkeypatch.setattr(planning_pass, "write_plan", second_fails)
    with pytest.raises(LowtideError, match="no more"):
        lower(account, planning, initialised=(), emit_mutable_buffer_names=True)
    assert (planning.plans, planning.reports, planning.notes) == ([], [], [])
    assert planning.state.graph_modules == []
    lower(account, planning, initialised=(), emit_mutable_buffer_names=True)
    assert len(planning.plans) == len(planning.reports) == 3


def test_a_pass_serves_one_program_after_another():
    planning = MemoryPlanningPass(share_mutable_buffers=True)
    model = Stateful("read")
    for _ in range(2):
        edge = edge_of(model, signs(4, 6)[0])
        config = ExecutorchBackendConfig(memory_planning_pass=planning, emit_mutable_buffer_names=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            edge.to_executorch(config)
        assert len(planning.plans) == 1


class Pools(MemoryPlanningPass):
    """A custom pass: sums live in memory 3, in every graph."""

    def run(self, graph_module, graph_signature=None):
        for module in graph_module.modules():
            for node in getattr(getattr(module, "graph", None), "nodes", ()):
                if node.target == torch.ops.aten.add.out:
                    node.meta["spec"].mem_id = 3
        return super().run(graph_module, graph_signature)


def test_memory_ids_of_a_custom_pass_are_kept():
    def function(x):
        h = x + x
        r = torch.cond(x.sum() > 0, lambda x, h: (x + h) * 2, lambda x, h: (x + 1).sin(), (x, h))
        return r.view(24) + h.view(24)

    torch.manual_seed(0)
    model, calls = Run(function), signs(4, 6)
    planning = Pools()
    lowered = lower(edge_of(model, calls[0]), planning)
    assert differences(eager(model, calls), lowered.run(calls)) == []
    by_operator = {
        (b.operator, b.arena) for b in planning.plan.problem.buffers if b.operator and "add" in b.operator
    }
    assert by_operator == {("aten.add.out", 3)}
    assert len(planning.plan.uses) == 2
    (plan,) = lowered.manager.executorch_program.execution_plan
    assert plan.non_const_buffer_sizes == emitted(planning.plan)


def test_options_that_exclude_each_other():
    with pytest.raises(ValueError, match="share_mutable_buffers"):
        MemoryPlanningPass(share_mutable_buffers=True, alloc_mutable_buffers=False)


def test_shared_buffers_refuse_custom_memory_ids():
    edge = edge_of(Stateful("read"), signs(4, 6)[0])
    planning = Pools(share_mutable_buffers=True)
    with pytest.raises(ValueError, match="default mem_id"):
        edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))


def test_lowered_bytes_are_deterministic(results):
    _, _, _, edge = results
    first, second = (lower(edge, MemoryPlanningPass()) for _ in range(2))
    assert isinstance(first, Lowered)
    assert first.buffer == second.buffer
