"""What is folded has the bits that the runtime's own kernels would have computed."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from executorch.exir.pass_manager import ExportedProgramPassManager
from torch import nn

from lowtide.executorch import FoldConstants, MemoryPlanningPass
from runtime import edge_of, lower

ODD = (0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, -2.5, 3.0, 1e-40, 7.7)

EXPRESSIONS = {
    "transposed": (lambda w, v: w.t().contiguous().t().contiguous(), 1),
    "added": (lambda w, v: w + v, 1),
    "scaled": (lambda w, v: torch.add(w, v, alpha=0.3), 0),
    "taken": (lambda w, v: torch.sub(w, v, alpha=0.7), 0),
    "times": (lambda w, v: w * v, 1),
    "half": (lambda w, v: w * 0.5, 1),
    "tenth": (lambda w, v: w * 0.1, 1),
    "over": (lambda w, v: w / v, 1),
    "floored": (lambda w, v: torch.div(w, v, rounding_mode="floor"), 0),
    "root": (lambda w, v: (w * w).sqrt(), 2),
    "absolute": (lambda w, v: w.abs(), 0),
    "sign": (lambda w, v: w.sign(), 0),
    "clamped": (lambda w, v: w.clamp(0.0), 0),
    "compared": (lambda w, v: torch.where(w >= v, w, v), 2),
    "against": (lambda w, v: (w >= 0.1).to(w.dtype), 0),
    "down": (lambda w, v: w.floor() + v.ceil() + w.trunc(), 1),
    "joined": (lambda w, v: torch.cat([w, v])[:10].flip(0), 1),
    "exponent": (lambda w, v: w.exp(), 0),
    "integers": (lambda w, v: (torch.arange(10) * 3 - 4).to(w.dtype) + w, 1),
}


class Of(nn.Module):
    """An input beside something that is computed of constants alone."""

    def __init__(self, function, dtype):
        super().__init__()
        self.function = function
        self.w = nn.Parameter(torch.tensor(ODD, dtype=dtype).view(1, -1).repeat(10, 1), requires_grad=False)
        self.v = nn.Parameter(self.w.t().contiguous().flip(1), requires_grad=False)

    def forward(self, x):
        return x * self.function(self.w, self.v)


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float16, marks=pytest.mark.slow)])
def test_the_same_bits(name, dtype):
    function, least = EXPRESSIONS[name]
    model = Of(function, dtype)
    x = torch.ones(10, 10, dtype=dtype)
    edge = edge_of(model, (x,))
    fold = FoldConstants()
    folded = copy.deepcopy(edge).transform(ExportedProgramPassManager([fold]))
    if dtype is torch.float32:
        assert len(fold.folded[0].steps) >= least
        assert (len(fold.folded[0].constants) > 0) == (least > 0)
    before = lower(edge, MemoryPlanningPass()).run([(x,)])[0]
    after = lower(folded, MemoryPlanningPass()).run([(x,)])[0]
    kind = torch.int32 if dtype is torch.float32 else torch.int16
    for one, other in zip(before, after, strict=True):
        same = one.view(kind) == other.view(kind)
        assert bool((same | (one.isnan() & other.isnan())).all())


def test_equal_constants_count_once_as_the_file_stores_them():
    """Every step of an LSTM transposes the same two weights; transposed once, the file does not grow."""
    torch.manual_seed(0)
    model = nn.LSTM(24, 48, batch_first=True)
    x = torch.randn(1, 12, 24)
    edge = edge_of(model, (x,))
    fold = FoldConstants(limit=0)
    folded = copy.deepcopy(edge).transform(ExportedProgramPassManager([fold]))
    planning = MemoryPlanningPass(in_place=True, elide_copies=True, reorder=True)
    before, after = lower(edge, MemoryPlanningPass()), lower(folded, planning)
    assert planning.plan.arena_bytes == 10_368
    assert len(after.buffer) < len(before.buffer)
    for one, other in zip(before.run([(x,)])[0], after.run([(x,)])[0], strict=True):
        assert torch.equal(one, other)
