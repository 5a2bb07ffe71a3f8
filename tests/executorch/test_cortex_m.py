"""Kernels that are given scratch, and the networks of MLPerf Tiny as the Cortex-M backend lowers them.

ExecuTorch's wheel has no kernels of that backend for this machine; its bindings to CMSIS-NN tell sizes of
scratch only, which the lowering takes from them. So emitted files are run instruction by instruction in one
real arena, with the backend's reference implementations (``arena_machine``), and the bits are compared with
those of the graph, in which every tensor has memory of its own.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
import torch
from executorch import exir
from executorch.exir.passes import MemoryPlanningPass as StockPass
from torch import nn
from torch.library import Library, impl
from torch.utils import _pytree as pytree

from arena_machine import ArenaMachine
from cortex_m import MLPERF_TINY, lower_to_cortex_m, small_net
from lowtide.base.errors import VerificationError
from lowtide.executorch import MemoryPlanningPass, audit, repack
from lowtide.frontends.pte import open_pte
from lowtide.frontends.pte.methods import offset_of
from lowtide.frontends.pte.sources import load_methods
from lowtide.frontends.pte.writing import rewrite
from runtime import Lowered, edge_of, lower

LIBRARY = Library("lowtide_scratch", "DEF")
for operator, given in {"scaled": "scratch", "worked": "other", "relu": "scratch", "cat": "scratch"}.items():
    LIBRARY.define(f"{operator}(Tensor x, Tensor {given}) -> Tensor")
    LIBRARY.define(f"{operator}.out(Tensor x, Tensor {given}, *, Tensor(a!) out) -> Tensor(a!)")
    impl(LIBRARY, operator, "CompositeExplicitAutograd")(lambda x, scratch: x * 2)
    impl(LIBRARY, f"{operator}.out", "CompositeExplicitAutograd")(lambda x, scratch, *, out: out.copy_(x * 2))


class Calls(nn.Module):
    """``relu`` of an operator of ours, called some times in a row."""

    def __init__(self, name: str, times: int = 1) -> None:
        super().__init__()
        self.operator, self.times = getattr(torch.ops.lowtide_scratch, name), times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        for _ in range(self.times):
            x = self.operator(x, x)
        return x.relu()


def edge_with_scratch(
    name: str, bytes: int = 256, *, times: int = 1, shared: bool = False, of: str = "lowtide_scratch"
) -> Any:
    """The edge program of some calls, whose second argument becomes bytes without content."""
    edge = edge_of(Calls(name, times), (torch.randn(4, 4),))
    graph = edge.exported_program().graph
    scratch = None
    for node in [n for n in graph.nodes if of in str(n.target)]:
        if scratch is None or not shared:
            with graph.inserting_before(node):
                scratch = graph.call_function(exir.memory.alloc, (((bytes,), torch.uint8),))
            scratch.meta["val"] = torch.empty((bytes,), dtype=torch.uint8, device="meta")
        node.update_arg(1, scratch)
    return edge


@pytest.mark.parametrize("techniques", [{}, {"in_place": True, "elide_copies": True, "reorder": True}])
def test_scratch_is_alive_within_its_step(techniques):
    edge = edge_with_scratch("scaled", times=2)
    planning = MemoryPlanningPass(**techniques)
    found = lower(edge, planning)
    (stock,) = [lower(edge, StockPass())]
    kinds = [buffer.kind for buffer in planning.plan.problem.buffers]
    assert kinds.count("scratch") == 2
    # What a call takes and makes, and its scratch: the scalar of the addition is not alive any more.
    assert planning.plan.arena_bytes == 64 + 64 + 256 <= stock.arena_bytes()
    for data in (found.buffer, stock.buffer):
        assert audit(data).safe
        assert repack(data, **{k: v for k, v in techniques.items() if k != "reorder"}).after.safe
        (method,) = load_methods(open_pte(data), 16)
        assert [buffer.kind for buffer in method.problem.buffers].count("scratch") == 2


def test_scratch_that_two_steps_are_given_is_alive_in_between():
    edge = edge_with_scratch("scaled", times=3, shared=True)
    planning = MemoryPlanningPass()
    found = lower(edge, planning)
    (buffer,) = [b for b in planning.plan.problem.buffers if b.size == 256]
    ((start, stop),) = buffer.lifetime
    assert stop - start == 3
    assert audit(found.buffer).safe
    assert audit(lower(edge, StockPass()).buffer).safe


def test_what_is_no_scratch_and_was_never_written_is_a_fault():
    edge = edge_with_scratch("worked", 64)
    findings = audit(lower(edge, StockPass()).buffer).findings
    assert [finding.kind for finding in findings] == ["unwritten"]
    # PyTorch's own operators have no scratch: what they are given, they read.
    with pytest.raises(VerificationError):
        lower(edge_with_aten_reading_nothing(), MemoryPlanningPass())


def edge_with_aten_reading_nothing() -> Any:
    edge = edge_of(Calls("scaled"), (torch.randn(4, 4),))
    graph = edge.exported_program().graph
    node = next(n for n in graph.nodes if "aten.relu" in str(n.target))
    with graph.inserting_before(node):
        nothing = graph.call_function(exir.memory.alloc, (((4, 4), torch.float32),))
    nothing.meta["val"] = torch.empty((4, 4), device="meta")
    node.update_arg(0, nothing)
    return edge


@pytest.mark.parametrize("name", ["relu", "cat"])
def test_a_name_of_another_library_says_nothing_of_the_kernel(name):
    edge = edge_with_scratch(name)
    planning = MemoryPlanningPass(in_place=True, elide_copies=True)
    found = lower(edge, planning)
    (method,) = found.manager.executorch_program.execution_plan
    (call,) = [
        i.instr_args
        for i in method.chains[0].instructions
        if method.operators[i.instr_args.op_index].name == f"lowtide_scratch::{name}"
    ]
    given, out = (method.values[v].val.allocation_info.memory_offset for v in (call.args[0], call.args[2]))
    assert given != out
    assert audit(found.buffer).safe
    # Repacking takes it from the file.
    moved = repack(found.buffer, in_place=True, elide_copies=True)
    assert moved.after.safe
    assert sum(arena.after for arena in moved.arenas) >= 64 + 64 + 256


@cache
def small_edge() -> Any:
    """Lowering takes seconds, so all tests of the small network share it."""
    torch.manual_seed(0)
    return lower_to_cortex_m(*small_net())


def test_small_network_in_its_arena():
    check_network(small_edge(), small_net()[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", MLPERF_TINY)
def test_network_in_its_arena(name):
    torch.manual_seed(0)
    model, inputs = MLPERF_TINY[name]()
    check_network(lower_to_cortex_m(model, inputs), inputs)


def check_network(edge: Any, inputs: tuple[torch.Tensor, ...]) -> None:
    inputs = tuple(x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs)
    expected = pytree.tree_leaves(copy.deepcopy(edge).exported_program().module()(*inputs))
    stock = lower(edge, StockPass())
    files = {"stock": stock.buffer}
    for techniques in ({}, {"in_place": True}, {"elide_copies": True}, dict.fromkeys(TECHNIQUES, True)):
        planning = MemoryPlanningPass(**techniques)
        files[str(techniques)] = lower(edge, planning).buffer
        assert planning.plan.is_optimal
        assert planning.plan.arena_bytes <= stock.arena_bytes()
    for techniques in ({}, {"in_place": True, "elide_copies": True}):
        files[f"repacked {techniques}"] = repack(stock.buffer, **techniques).data
    for name, data in files.items():
        found = audit(data)
        assert found.safe, name
        assert not found.notes, name
        machine = ArenaMachine(open_pte(data))
        assert machine.spoiled == 0
        assert all(map(torch.equal, machine.run(list(inputs)), expected)), name
        assert machine.spoiled > machine.arena.numel()


TECHNIQUES = ("in_place", "elide_copies", "reorder")


@pytest.mark.parametrize("over", ["given", "out"])
def test_scratch_over_what_its_step_reads_or_writes_is_found(over):
    edge, (_, inputs) = small_edge(), small_net()
    inputs = tuple(x.to(memory_format=torch.channels_last) for x in inputs)
    file = open_pte(lower(edge, StockPass()).buffer)
    (method,) = file.program.execution_plan
    call = next(
        i.instr_args
        for i in method.chains[0].instructions
        if method.operators[i.instr_args.op_index].name == "cortex_m::quantized_conv2d"
    )
    *_, scratch, out = call.args[:14]
    at = offset_of(method.values[out if over == "out" else call.args[0]].val.allocation_info)
    wrong = rewrite(file, {"forward": {scratch: (1, at)}}, {})
    (finding, *_) = audit(wrong).findings
    assert scratch in finding.values
    expected = pytree.tree_leaves(copy.deepcopy(edge).exported_program().module()(*inputs))
    assert not all(map(torch.equal, ArenaMachine(wrong).run(list(inputs)), expected))
    assert repack(wrong).after.safe


def test_lowered_files_run_nowhere_here():
    """The reason for ``arena_machine``; should it ever fail, run the files themselves."""
    lowered: Lowered = lower(small_edge(), StockPass())
    with pytest.raises(RuntimeError):
        lowered.run([small_net()[1]])
