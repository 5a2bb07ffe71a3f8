"""Programs whose steps run in parts give the bits of the whole on the real runtime, in smaller arenas."""

from __future__ import annotations

import copy

import pytest
import torch
from executorch.exir.pass_manager import ExportedProgramPassManager
from torch import nn

from fit_models import keyword_net, mobilenet_v2, transformer
from lowtide.base.errors import InputError
from lowtide.executorch import FoldConstants, MemoryPlanningPass
from lowtide.executorch.fit_pass import Fit
from runtime import edge_of, lower
from split_at_random import RandomSplits, attention_net, convolution_net

_LIMIT = 64 * 1024


def planning() -> MemoryPlanningPass:
    return MemoryPlanningPass(in_place=True, elide_copies=True, reorder=True, timeout=0.5)


def run_passes(edge, *passes):
    return edge.transform(ExportedProgramPassManager(list(passes)))


def same_bits(first, second) -> bool:
    return all(
        torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in zip(first, second, strict=True)
    )


def fitted(model, inputs, fit):
    """The arena without and with the pass; the bits are compared on the way."""
    edge = edge_of(model, inputs)
    before = lower(run_passes(edge, FoldConstants(_LIMIT)), planning())
    after = lower(run_passes(edge, fit), planning())
    assert same_bits(before.run([inputs])[0], after.run([inputs])[0])
    return before.arena_bytes(), after.arena_bytes()


def test_a_mobile_net_needs_a_fraction_of_its_arena():
    torch.manual_seed(0)
    fit = Fit(max_macs=1.10)
    before, after = fitted(*mobilenet_v2(48, 10, blocks=2), fit)
    (found,) = fit.fitted
    assert after <= 0.4 * before
    assert found.steps
    assert found.arena_after < found.arena_before
    assert found.work <= 1.10


@pytest.mark.slow
def test_no_work_is_repeated_where_none_is_allowed():
    fit = Fit(max_macs=1.0)
    before, after = fitted(*mobilenet_v2(48, 10, blocks=2), fit)
    assert after < before
    assert fit.fitted[0].macs_after <= fit.fitted[0].macs_before


@pytest.mark.slow
def test_attention_is_split_by_its_queries():
    fit = Fit()
    before, after = fitted(*transformer(64, 48, 2), fit)
    assert after < before
    assert fit.fitted[0].macs_after == fit.fitted[0].macs_before


@pytest.mark.slow
def test_a_budget_that_is_met_needs_no_more():
    model, inputs = mobilenet_v2(48, 10, blocks=3)
    least = Fit()
    before, smallest = fitted(model, inputs, least)
    budget = (before + smallest) // 2
    fit = Fit(max_arena=budget)
    _, after = fitted(model, inputs, fit)
    assert after <= budget
    assert fit.fitted[0].macs_after <= least.fitted[0].macs_after
    generous = Fit(max_arena=before)
    fitted(model, inputs, generous)
    assert not generous.fitted[0].changed


def test_the_program_keeps_its_face_and_two_runs_agree():
    model, inputs = mobilenet_v2(48, 10, blocks=2)
    edge = run_passes(edge_of(model, inputs), FoldConstants(_LIMIT))
    whole = edge.exported_program()
    names = [node.name for node in whole.graph.nodes]
    first, second = (run_passes(edge, Fit()).exported_program() for _ in range(2))
    assert [node.name for node in whole.graph.nodes] == names
    assert str(first.graph) == str(second.graph)
    assert first.graph_signature == whole.graph_signature
    assert first.state_dict.keys() == whole.state_dict.keys()
    handles = {node.meta.get("debug_handle") for node in whole.graph.nodes if node.op == "call_function"}
    for node in first.graph.nodes:
        if node.op == "call_function":
            assert node.meta["debug_handle"] in handles
            assert "stack_trace" in node.meta
            assert "val" in node.meta


class _Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x):
        return self.second(self.first(x) + torch.rand(1, 1, 24, 24))


def test_random_numbers_are_drawn_once_and_crossed_by_no_segment():
    model, inputs = _Noisy().eval(), (torch.randn(1, 3, 24, 24),)
    edge = edge_of(model, inputs)
    fit = Fit(max_macs=2)
    program = run_passes(edge, fit).exported_program()
    drawn = [node for node in program.graph.nodes if "rand" in str(node.target)]
    assert len(drawn) == 1
    assert any("rand" in name for name in fit.fitted[0].barriers)


@pytest.mark.parametrize("limits", [{"max_arena": 0}, {"max_macs": 0.9}, {"timeout": -1}])
def test_limits_that_mean_nothing_are_refused(limits):
    with pytest.raises(InputError):
        Fit(**limits)


@pytest.mark.slow
def test_a_keyword_net_computes_no_row_twice():
    fit = Fit(max_macs=1.0)
    before, after = fitted(*keyword_net(), fit)
    assert after < before
    assert fit.fitted[0].work <= 1.0


NETS = {"convolution": convolution_net, "attention": attention_net}


@pytest.mark.parametrize("kind", NETS)
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 150))]
)
def test_random_nets_split_at_random(kind, seed):
    torch.manual_seed(seed)
    model, inputs = NETS[kind](seed)
    edge = edge_of(model, inputs)
    whole = lower(edge, planning()).run([inputs])[0]
    splits = RandomSplits(seed)
    parts = run_passes(copy.deepcopy(edge), splits)
    assert splits.segments, "nothing was split"
    assert same_bits(whole, lower(parts, planning()).run([inputs])[0])
