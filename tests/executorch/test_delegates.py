"""Programs with parts for XNNPACK, in the root graph and in branches."""

from __future__ import annotations

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.passes import MemoryPlanningPass as StockPass
from torch import nn

from lowtide.executorch import MemoryPlanningPass
from runtime import differences, eager, edge_of, emitted, lower


class Partitioned(nn.Module):
    """Linear layers for XNNPACK, running sums and a cond for the portable kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.b(torch.relu(self.a(x)))
        sums = torch.cumsum(hidden, 1)
        gate = self.c(sums).sigmoid()
        picked = torch.cond(
            gate.sum() > 8,
            lambda g, s: g.sigmoid() + s,
            lambda g, s: (g * s).cumsum(0) * 2,
            (gate, sums),
        )
        return picked.view(-1) + 1, hidden


def test_partitioned_to_xnnpack():
    torch.manual_seed(0)
    model = Partitioned().eval()
    calls = [(torch.randn(4, 16) * scale,) for scale in (1, -3, 5, -9)]
    edge = to_edge_transform_and_lower(
        torch.export.export(model, calls[0]), partitioner=[XnnpackPartitioner()]
    )
    planning = MemoryPlanningPass()
    lowered = lower(edge, planning)
    (plan,) = lowered.manager.executorch_program.execution_plan
    assert plan.delegates
    assert differences(eager(model, calls), lowered.run(calls)) == []
    assert plan.non_const_buffer_sizes == emitted(planning.plan, padding=64)
    assert lowered.arena_bytes() <= lower(edge, StockPass()).arena_bytes()


class Branching(nn.Module):
    """Products in branches; their results outlive the next call, and become state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4, 16))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x.cumsum(1)
        a = torch.cond(
            x.sum() > 0,
            lambda x, h: (x * h).sigmoid().cumsum(0) + h,
            lambda x, h: (x * h).cumsum(0),
            (x, h),
        )
        b = torch.cond(x.amax() > 10, lambda x, h: (x * h).cos(), lambda x, h: (x * h) * x, (x, h))
        self.seen.add_(a)
        return a.view(-1) + 1, self.seen * 2 + b


class InBranches(Partitioner):
    """Gives the products of each branch to XNNPACK, whose own partitioner leaves branches alone."""

    def partition(self, exported_program):
        tags = {}
        for name, module in exported_program.graph_module.named_modules():
            if name and isinstance(module, torch.fx.GraphModule):
                for node in module.graph.nodes:
                    if any(operator in str(node.target) for operator in ("aten.mul", "aten.sigmoid")):
                        node.meta["delegation_tag"] = name
                        tags[name] = DelegationSpec("XnnpackBackend", [])
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


@pytest.mark.parametrize("share", [False, True])
def test_delegates_in_branches_and_shared_state(share):
    torch.manual_seed(0)
    model = Branching()
    calls = [(torch.randn(4, 16).abs() * scale,) for scale in (1, -3, 15, -9)]
    edge = edge_of(model, calls[0]).to_backend(InBranches())
    planning = MemoryPlanningPass(share_mutable_buffers=share)
    own = {"initialised": (), "emit_mutable_buffer_names": True} if share else {}
    lowered = lower(edge, planning, **own)
    (plan,) = lowered.manager.executorch_program.execution_plan
    assert len(plan.delegates) == 4
    assert differences(eager(model, calls), lowered.run(calls)) == []
    assert plan.non_const_buffer_sizes == emitted(planning.plan, padding=64, shared=256 if share else None)
    assert planning.notes == []
