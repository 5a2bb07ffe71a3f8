"""Bytes shared between tensors of a bounded dynamic dimension, on the real runtime, in several sizes."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge

from lowtide.executorch import MemoryPlanningPass
from runtime import differences, eager, lower
from zoo import Run

MOST = 8


def chain(x, y):
    return torch.sigmoid(torch.tanh(x * 2) + 1).exp()


def residual(x, y):
    h = torch.relu(x @ torch.ones(64, 64) * 0.01 + y)
    return torch.softmax(h + x, -1) * h


def viewed(x, y):
    h = (x * 2 + y).view(-1).sin()
    return h.view(-1, 64).cos() + 1, (h * 2).exp()


def cloned(x, y):
    h = (x + y).clone()
    return h.clone().tanh() * 2, h.sum(0)


def transposed(x, y):
    """Equal bounds, other symbols: nothing may lie over what lies otherwise."""
    return (x @ y.t()).sigmoid() + (y @ x.t()).t(), y.t().exp() + 1


def branched(x, y):
    r = torch.cond(x.sum() > 0, lambda x, y: (x * 2 + y).sin(), lambda x, y: (x - y).exp().cos(), (x, y))
    return (r + 1).tanh() * 3


FUNCTIONS = [chain, residual, viewed, cloned, transposed, branched]


def edge_of(function, dynamic: bool):
    rows = torch.export.Dim("rows", min=1, max=MOST)
    shapes = (({0: rows}, {0: rows}),) if dynamic else None
    example = (torch.randn(MOST, 64), torch.randn(MOST, 64))
    program = torch.export.export(Run(function), example, strict=False, dynamic_shapes=shapes)
    return to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False))


def arenas(function, dynamic: bool) -> tuple[int, int]:
    """Bytes without and with every technique; what these compute is compared in several sizes."""
    torch.manual_seed(0)
    edge = edge_of(function, dynamic)
    plain = MemoryPlanningPass()
    sharing = MemoryPlanningPass(in_place=True, elide_copies=True, reorder=True)
    sizes = (MOST, 1, 3, MOST, 5, 2) if dynamic else (MOST,)
    calls = [(s * torch.randn(n, 64), torch.randn(n, 64)) for n in sizes for s in (1, -1)]
    before = lower(edge, plain).run(calls)
    assert differences(eager(Run(function), calls), before) == []
    assert differences(before, lower(edge, sharing).run(calls), close=False) == []
    return plain.plan.arena_bytes, sharing.plan.arena_bytes


@pytest.mark.parametrize(
    "function", [pytest.param(f, marks=() if f in (chain, residual) else pytest.mark.slow) for f in FUNCTIONS]
)
def test_right_in_every_size_and_no_larger_than_a_static_shape(function):
    plain, sharing = arenas(function, dynamic=True)
    assert sharing <= plain
    assert (plain, sharing) == arenas(function, dynamic=False)
