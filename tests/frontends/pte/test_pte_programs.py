"""What instructions mean: dynamic shapes, state without first bytes, unknown operators, several readings."""

from __future__ import annotations

import copy

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, naive
from executorch.exir.passes import MemoryPlanningPass as StockPass
from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass
from torch import nn
from torch.export import Dim

import lowtide
from lowtide.base.errors import InputError, VerificationError
from lowtide.executorch import audit, repack
from lowtide.frontends.pte import analyse, open_pte
from lowtide.frontends.pte import instruction_effects as effects
from lowtide.frontends.pte.methods import offset_of
from runtime import differences, eager, edge_of, lower, run_file
from stock_files import methods_file, stock_file
from zoo import ZOO


class Reshaping(nn.Module):
    """Views whose sizes are known at run time only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).view(-1, 3, 4).transpose(1, 2).reshape(-1, 12)
        z = y.view(-1).sin().view(-1, 6)
        return torch.cat([z, z.relu() * 3], dim=1).sum(dim=1) + z.exp().mean()


def test_bounded_shapes_and_views_at_run_time():
    model, x = Reshaping(), torch.rand(4, 12)
    edge = edge_of(model, (x,), dynamic_shapes={"x": {0: Dim("rows", min=1, max=8)}})
    planning = StockPass(memory_planning_algo=MemoryPlanningAlgorithmSuite(algo_list=[naive]))
    stock = lower(edge, planning, sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass()).buffer
    found = repack(stock)
    assert found.before.safe
    (arena,) = found.arenas
    assert arena.after == arena.lower_bound < arena.before
    calls = [(torch.rand(rows, 12),) for rows in (4, 8, 1, 5)]
    assert differences(eager(model, calls), run_file(found.data, calls)) == []
    (analysis,) = analyse(open_pte(found.data))
    tensors = analysis.method.tensors
    views = [pair for effect in analysis.effects for pair in effect.views]
    assert views
    assert all(tensors[view].place == tensors[base].place for view, base in views)


def test_state_without_first_bytes_lives_on():
    torch.manual_seed(0)
    model, calls = ZOO["state_read_in_branches"]()
    edge = copy.deepcopy(edge_of(model, calls[0]))
    stock = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=StockPass())).buffer
    (analysis,) = analyse(open_pte(stock))
    assert not any(tensor.initialised for tensor in analysis.method.planned)
    assert len(analysis.views.state) == 2
    found = repack(stock)
    (again,) = analyse(open_pte(found.data))
    state = [again.method.tensors[value].place for value in again.views.state]
    others = [t.place for t in again.method.planned if t.place not in state]
    assert not any(place.overlaps(other) for place in state for other in others if other.stop > other.start)


def test_of_an_unknown_operator_the_worst_is_assumed(monkeypatch):
    known = effects.operator_named
    monkeypatch.setattr(effects, "operator_named", lambda name: None if "mul" in name else known(name))
    found = audit(stock_file("two_maps_subtracted"))
    assert any("is not known: it is taken to read and write all that it is given" in n for n in found.notes)
    (analysis,) = analyse(open_pte(stock_file("two_maps_subtracted")))
    (at,) = [i for i, ins in enumerate(analysis.method.instructions) if "mul" in ins.operator][:1]
    effect = analysis.effects[at]
    assert effect.unknown
    given = analysis.method.tensors_in(analysis.method.instructions[at].args)
    assert set(effect.writes) == {v for v in given if not analysis.method.tensors[v].constant}
    assert set(effect.reads) | set(effect.defines) == set(given)


def test_plans_of_a_file_are_followed_through_its_instructions(tmp_path):
    path = tmp_path / "program.pte"
    path.write_bytes(stock_file("two_conds_added"))
    plan = lowtide.plan(path)
    assert plan.is_optimal
    assert lowtide.verify(plan, path).followed
    offsets = [0] * len(plan.offsets)
    spoilt = lowtide.Plan(plan.problem, tuple(offsets), plan.uses, plan.packer)
    with pytest.raises(VerificationError):
        lowtide.verify(spoilt, path)


def test_a_method_must_be_chosen_where_there_are_several(tmp_path):
    path = tmp_path / "methods.pte"
    path.write_bytes(methods_file(StockPass()))
    with pytest.raises(
        InputError, match="has several methods, each with memory of its own: choose one of add, read"
    ):
        lowtide.plan(path)
    add, read = (lowtide.plan(path, method=name) for name in ("add", "read"))
    assert add.arena_bytes != read.arena_bytes
    with pytest.raises(InputError, match="there is no method 'none'"):
        lowtide.plan(path, method="none")


def test_state_is_live_beyond_the_end_and_inputs_before_the_start():
    (analysis, *_) = analyse(open_pte(methods_file(StockPass())))
    (state,) = analysis.views.state
    plan = lowtide.plan(open_pte(methods_file(StockPass())), method="add")
    buffer = plan.problem.buffers[plan.position_of(f"add/%{state}")]
    end = max(stop for b in plan.problem.buffers for _, stop in b.lifetime)
    assert buffer.kind == "state"
    assert buffer.lifetime == ((0, end),)
    (given,) = analysis.method.inputs
    assert plan.problem.buffers[plan.position_of(f"add/%{given}")].lifetime[0][0] == 0


def test_a_method_over_the_state_of_another_is_noted():
    file = open_pte(methods_file(StockPass()))
    add, read = file.program.execution_plan[:2]
    assert not audit(file).notes
    start = max(
        offset_of(v.val.allocation_info) for v in read.values if getattr(v.val, "allocation_info", None)
    )
    for value in analyse(file)[0].views.state:
        add.values[value].val.allocation_info.memory_offset_low = start
    assert any("read: has tensors where add keeps state" in note for note in audit(file).notes)
