"""Real models lowered with the stock pass and with Lowtide's: the same bits, in no more memory."""

from __future__ import annotations

import pytest
import torch
from executorch.exir.passes import MemoryPlanningPass as StockPass

from lowtide.executorch import MemoryPlanningPass, algorithm
from models import REAL_MODELS
from runtime import differences, eager, edge_of, lower

QUICK = ("convnext", "bert")
MODELS = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in REAL_MODELS]


@pytest.mark.parametrize("name", MODELS)
def test_same_bits_at_the_bound(name):
    torch.manual_seed(0)
    model, inputs = REAL_MODELS[name]()
    edge = edge_of(model, inputs)
    planning = MemoryPlanningPass()
    stock, lowtide = lower(edge, StockPass()), lower(edge, planning)
    calls = [inputs, inputs]
    found = lowtide.run(calls)
    assert differences(stock.run(calls), found, close=False) == []
    assert differences(eager(model, calls), found) == []
    assert planning.plan.is_optimal
    assert planning.notes == []
    assert lowtide.arena_bytes() == planning.plan.lower_bound_bytes <= stock.arena_bytes()


def test_algorithm_inside_the_stock_pass():
    torch.manual_seed(0)
    model, inputs = REAL_MODELS["bert"]()
    edge = edge_of(model, inputs)
    stock = lower(edge, StockPass())
    alone = lower(edge, StockPass(memory_planning_algo=algorithm()))
    assert differences(stock.run([inputs]), alone.run([inputs]), close=False) == []
    assert alone.arena_bytes() < stock.arena_bytes()


def test_twelve_models_at_least():
    assert len(REAL_MODELS) >= 12
