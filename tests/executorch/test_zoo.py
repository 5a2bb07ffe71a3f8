"""The zoo on the real runtime, Lowtide and the stock planner side by side."""

from __future__ import annotations

import pytest
import torch
from executorch.exir.passes import MemoryPlanningPass as StockPass

from lowtide.executorch import MemoryPlanningPass
from runtime import differences, eager, edge_of, emitted, lower, runs
from zoo import ZOO

QUICK = (
    "two_conds_added",
    "result_past_nested_conds",
    "three_chained_conds",
    "reshaped_result",
    "two_maps_subtracted",
    "scan_then_cond",
    "scan_in_a_branch",
    "cond_in_map",
    "state_written_in_branches",
    "mixture_of_experts",
    "early_exit",
)
"""Those that run every time; the others are slow for what they add."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ZOO]
)
def test_right_and_never_larger_than_a_right_stock_plan(name):
    torch.manual_seed(0)
    model, calls = ZOO[name]()
    calls = [*calls, *reversed(calls)]
    expected = eager(model, calls)
    edge = edge_of(model, calls[0])

    planning = MemoryPlanningPass()
    lowered = lower(edge, planning)
    assert differences(expected, lowered.run(calls)) == []
    (plan,) = lowered.manager.executorch_program.execution_plan
    assert plan.non_const_buffer_sizes == emitted(planning.plan)
    assert planning.reports[0].followed
    assert planning.notes == []

    stock = runs(lambda: lower(edge, StockPass()), calls)
    if not isinstance(stock, str) and not differences(expected, stock):
        assert lowered.arena_bytes() <= lower(edge, StockPass()).arena_bytes()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK[:4] else pytest.mark.slow) for name in ZOO]
)
def test_right_with_every_technique(name):
    torch.manual_seed(0)
    model, calls = ZOO[name]()
    calls = [*calls, *reversed(calls)]
    edge = edge_of(model, calls[0])
    plain, planning = MemoryPlanningPass(), MemoryPlanningPass(in_place=True, elide_copies=True, reorder=True)
    expected = lower(edge, plain).run(calls)
    assert differences(expected, lower(edge, planning).run(calls), close=False) == []
    assert planning.plan.arena_bytes <= plain.plan.arena_bytes
    assert planning.reports[0].followed


def test_stock_planner_is_wrong_where_a_result_outlives_the_next_call():
    """The reason for this package; should it ever pass, the documentation has to change."""
    torch.manual_seed(0)
    model, calls = ZOO["two_conds_added"]()
    edge = edge_of(model, calls[0])
    assert differences(eager(model, calls), lower(edge, StockPass()).run(calls))


def test_the_zoo_has_thirty_programs():
    assert len(ZOO) >= 30
    assert set(QUICK) <= set(ZOO)


@pytest.mark.parametrize("hierarchy", ["sum", "stacked", "block"])
def test_every_policy_is_right(hierarchy):
    torch.manual_seed(0)
    model, calls = ZOO["wide_branches"]()
    edge = edge_of(model, calls[0])
    planning = MemoryPlanningPass(hierarchy=hierarchy)
    lowered = lower(edge, planning)
    assert differences(eager(model, calls), lowered.run(calls)) == []
    assert planning.plan.hierarchy == hierarchy
    joint = MemoryPlanningPass()
    lower(edge, joint)
    assert joint.plan.arena_bytes <= planning.plan.arena_bytes
