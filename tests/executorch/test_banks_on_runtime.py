"""Banks through memory ids, on the real runtime: outputs stay, and no arena grows past its bank."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.schema import DeviceType
from torch import nn

from graphs import planned_specs, toy_graph
from lowtide.base.errors import InfeasibleError, InputError, UnsupportedError
from lowtide.executorch import MemoryPlanningPass
from lowtide.ir.memory_map import Bank, MemoryMap, Pin
from runtime import differences, eager, edge_of, emitted, lower
from zoo import ZOO


class Layers(nn.Module):
    """Enough layers for a choice: wide and narrow activations in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(16, 256), nn.Linear(256, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x + self.narrow(torch.relu(self.wide(x)))
        return x


@pytest.fixture(scope="module")
def layers():
    torch.manual_seed(0)
    model, calls = Layers(), [(torch.randn(4, 16),), (torch.randn(4, 16),)]
    return calls, eager(model, calls), edge_of(model, calls[0])


def test_tensors_go_to_banks_and_outputs_stay(layers):
    calls, expected, edge = layers
    fast = Bank("fast", 4608, 1)
    memory = MemoryMap(
        (fast, Bank("slow", 1 << 20, 2, read_cost=8.0, write_cost=8.0)), (Pin("input", "slow"),)
    )
    planning = MemoryPlanningPass(memory_map=memory)
    lowered = lower(edge, planning)
    assert differences(expected, lowered.run(calls)) == []
    plan = planning.plan
    assert plan.cost == plan.cost_bound
    assert 0 < plan.arenas[1] <= fast.size
    assert plan.arenas[2] > 0
    sizes = lowered.manager.executorch_program.execution_plan[0].non_const_buffer_sizes
    assert sizes == emitted(plan)
    banks = {b.kind: plan.bank_of(i) for i, b in enumerate(plan.problem.buffers)}
    assert banks["input"] == "slow"


@pytest.mark.parametrize("name", ["results_are_outputs", "scan_and_map_and_cond"])
def test_control_flow_in_banks(name):
    torch.manual_seed(0)
    model, calls = ZOO[name]()
    expected, edge = eager(model, calls), edge_of(model, calls[0])
    whole = MemoryPlanningPass()
    lower(edge, whole)
    fast = max(whole.plan.arena_bytes // 2 // 16 * 16, 16)
    memory = MemoryMap((Bank("fast", fast, 2), Bank("slow", 1 << 20, 1, read_cost=9.0, write_cost=9.0)))
    planning = MemoryPlanningPass(memory_map=memory)
    assert differences(expected, lower(edge, planning).run(calls)) == []
    assert 0 < planning.plan.arenas[2] <= fast


def test_state_stays_in_its_bank_from_run_to_run():
    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4, 16))
            self.wide, self.narrow = nn.Linear(16, 256), nn.Linear(256, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(self.narrow(torch.relu(self.wide(x))).detach())
            return self.total * 2

    torch.manual_seed(0)
    model, calls = Sums(), [(torch.randn(4, 16),) for _ in range(3)]
    expected, edge = eager(model, calls), edge_of(model, calls[0])
    for where in ("fast", "slow"):
        banks = (Bank("fast", 4608, 1), Bank("slow", 1 << 20, 2, read_cost=8.0))
        planning = MemoryPlanningPass(memory_map=MemoryMap(banks, (Pin("state", where),)))
        assert differences(expected, lower(edge, planning).run(calls)) == []
        kinds = {b.kind: planning.plan.bank_of(i) for i, b in enumerate(planning.plan.problem.buffers)}
        assert kinds["state"] == where


def test_the_shape_of_a_target_memory_map_will_do(layers):
    calls, expected, edge = layers
    target = SimpleNamespace(
        banks=[
            SimpleNamespace(name="fast", size=4608, mem_id=1, alignment=64),
            SimpleNamespace(name="slow", size=1 << 20, mem_id=3, alignment=16),
        ]
    )
    planning = MemoryPlanningPass(memory_map=target)
    assert differences(expected, lower(edge, planning).run(calls)) == []
    assert set(planning.plan.arenas) == {1, 3}
    offsets = zip(planning.plan.problem.buffers, planning.plan.offsets, strict=True)
    assert all(offset % 64 == 0 for buffer, offset in offsets if buffer.arena == 1)


def test_a_target_memory_map_of_executorch(layers):
    """Its own planner fills the fastest bank first; none of its choices costs less than the proved one."""
    banked = pytest.importorskip("executorch.exir.banked_memory_planning", reason="came with ExecuTorch 1.5")
    calls, expected, edge = layers
    target = banked.TargetMemoryMap([banked.Bank("fast", 4608, 1), banked.Bank("slow", 1 << 20, 2)])
    planning = MemoryPlanningPass(memory_map=target)
    lowered = lower(edge, planning)
    assert differences(expected, lowered.run(calls)) == []
    plan = planning.plan
    assert plan.cost == plan.cost_bound
    sizes = lowered.manager.executorch_program.execution_plan[0].non_const_buffer_sizes
    assert sizes == emitted(plan)
    assert sizes[1] <= 4608


def test_what_cannot_be_is_refused(layers):
    _, _, edge = layers
    with pytest.raises(InputError, match="no memory map"):
        MemoryPlanningPass(memory_map=7)
    with pytest.raises(InputError, match="leave out one of the two"):
        MemoryPlanningPass(memory_map=MemoryMap((Bank("a", 64, 1),)), share_mutable_buffers=True)
    with pytest.raises(InfeasibleError, match="fits in no bank"):
        lower(edge, MemoryPlanningPass(memory_map=MemoryMap((Bank("a", 64, 1), Bank("b", 64, 2)))))


class Preset(MemoryPlanningPass):
    """Gives one tensor a memory id before it plans, as a pass of somebody's own may."""

    def __init__(self, id: int, **options: object) -> None:
        super().__init__(**options)
        self.id = id

    def run(self, graph_module, graph_signature=None):
        node = next(n for n in graph_module.graph.nodes if "relu" in n.name and n.op == "call_function")
        node.meta["spec"].mem_id = self.id
        self.chosen = node.name
        return super().run(graph_module, graph_signature)


@pytest.mark.parametrize(("id", "bank"), [(2, "slow"), (5, None)])
def test_memory_ids_that_tensors_have_are_kept(layers, id, bank):
    calls, expected, edge = layers
    memory = MemoryMap((Bank("fast", 1 << 16, 1), Bank("slow", 1 << 20, 2, read_cost=8.0)))
    planning = Preset(id, memory_map=memory)
    lowered = lower(edge, planning)
    assert differences(expected, lowered.run(calls)) == []
    plan = planning.plan
    buffers = plan.problem.buffers
    (position,) = (i for i, b in enumerate(buffers) if b.id.rpartition("/")[2] == planning.chosen)
    assert plan.bank_of(position) == bank
    assert plan.problem.buffers[position].arena == id
    others = {plan.bank_of(i) for i in range(len(plan.problem.buffers)) if i != position}
    assert others == {"fast"}


def test_delegates_read_where_asked_and_every_bank_has_the_padding():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Softmax(-1), nn.Linear(64, 16)).eval()
    calls = [(torch.randn(4, 16).cumsum(0),) for _ in range(2)]

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x.cumsum(dim=1)).cumsum(dim=1)

    around = Around().eval()
    edge = to_edge_transform_and_lower(
        torch.export.export(around, calls[0]), partitioner=[XnnpackPartitioner()]
    )
    fast, slow = Bank("fast", 1024 + 64, 1), Bank("slow", 1 << 20, 2, read_cost=8.0, write_cost=8.0)
    planning = MemoryPlanningPass(memory_map=MemoryMap((fast, slow), (Pin("read-by:*delegate*", "slow"),)))
    lowered = lower(edge, planning)
    assert differences(eager(around, calls), lowered.run(calls)) == []
    plan = planning.plan
    sizes = lowered.manager.executorch_program.execution_plan[0].non_const_buffer_sizes
    assert sizes == emitted(plan, padding=64)
    assert 0 < sizes[1] <= fast.size
    assert sizes[2] > 64
    with pytest.raises(InputError, match="no step of such a name or operator"):
        lower(edge, MemoryPlanningPass(memory_map=MemoryMap((slow,), (Pin("read-by:nothing*", "slow"),))))


def test_devices_and_a_map_are_refused():
    module, signature = toy_graph()
    for spec in planned_specs(module)[1:]:
        spec.device = DeviceType.CUDA
    planning = MemoryPlanningPass(memory_map=MemoryMap((Bank("fast", 1 << 16, 1),)))
    planning.enable_non_cpu_memory_planning = True
    with pytest.raises(UnsupportedError, match="a memory map is of the CPU's memory"):
        planning.run(module, signature)
