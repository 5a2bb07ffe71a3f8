"""Reordering inside ExecuTorch's planning: the emitter follows, outputs keep their bits."""

from __future__ import annotations

from random import Random

import pytest
import torch

from emittable import EmittableWriter
from irregular import IRREGULAR
from lowtide.executorch import MemoryPlanningPass
from models import REAL_MODELS
from runtime import differences, eager, edge_of, lower
from zoo import ZOO

RANDOM = 80
"""The slow tests of random programs that run on the real runtime reorder as well, among all techniques."""


def check(model, calls, edge=None, **options):
    """Lower in both orders and compare every bit; both passes, the one that reordered last."""
    edge = edge or edge_of(model, calls[0])
    given, planning = MemoryPlanningPass(**options), MemoryPlanningPass(reorder=True, **options)
    before, after = lower(edge, given), lower(edge, planning)
    assert differences(before.run(calls), after.run(calls), close=False) == []
    assert planning.plan.arena_bytes == after.arena_bytes() <= given.plan.arena_bytes == before.arena_bytes()
    assert planning.notes == given.notes
    return given, planning


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("random wired 1", "branches") else pytest.mark.slow)
        for name in IRREGULAR
    ],
)
def test_irregular_networks(name):
    torch.manual_seed(0)
    model, inputs = IRREGULAR[name]()
    for sharing in (False, True):
        given, planning = check(model, [inputs, inputs], in_place=sharing, elide_copies=sharing)
        if name in ("random wired 1", "branches") and not sharing:
            assert planning.plan.arena_bytes < given.plan.arena_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_MODELS)
def test_real_models(name):
    torch.manual_seed(0)
    model, inputs = REAL_MODELS[name]()
    check(model, [inputs])


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_control_flow(name):
    torch.manual_seed(0)
    model, calls = ZOO[name]()
    check(model, calls)


def check_random(seed):
    """Whether a random program could be run at all; what can be is compared."""
    made = EmittableWriter(Random(seed), steps=12, depth=2).write()
    try:
        edge = edge_of(made.module, made.inputs[0])
        lower(edge, MemoryPlanningPass()).run(made.inputs)
    except Exception:
        return False
    check(made.module, made.inputs, edge, in_place=bool(seed % 2), elide_copies=bool(seed % 3))
    return True


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, RANDOM, 10))
def test_random_programs(first):
    assert sum(check_random(seed) for seed in range(first, first + 10)) >= 5


def test_a_few_random_programs():
    assert sum(check_random(seed) for seed in range(20_000, 20_003)) >= 1


def test_state_is_written_when_it_was():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            wide = x.repeat(16, 1)
            old = self.total * 1
            self.total.add_(x)
            return old, self.total + 1, wide.sum(0)

    calls = [(torch.randn(4),) for _ in range(3)]
    _, planning = check(Counter(), calls)
    found = lower(edge_of(Counter(), calls[0]), planning).run(calls)
    assert differences(eager(Counter(), calls), found) == []
