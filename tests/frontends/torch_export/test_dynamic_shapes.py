"""A bounded dynamic dimension keeps no tensors apart that may share bytes: planned, verified, replayed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import lowtide  # noqa: E402
from lowtide.replay import replay  # noqa: E402


class Chain(nn.Module):
    """Element-wise operators, a clone, and a transposed tensor whose bounds are the same."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.sigmoid(torch.tanh(x * 2) + 1).exp().clone() + y
        return h, (x @ y.t()).sin() + (y @ x.t()).t()


def test_the_same_arena_as_a_static_shape_in_every_size():
    rows = torch.export.Dim("rows", min=1, max=8)
    example = (torch.randn(8, 64), torch.randn(8, 64))
    arenas = []
    for dynamic, sizes in ((None, (8,)), (({0: rows}, {0: rows}), (8, 1, 3))):
        exported = torch.export.export(Chain(), example, dynamic_shapes=dynamic)
        plan = lowtide.plan(exported, in_place=True, elide_copies=True)
        lowtide.verify(plan, exported, in_place=True, elide_copies=True)
        for n in sizes:
            inputs = (torch.randn(n, 64), torch.randn(n, 64))
            replay(exported, plan, inputs, in_place=True, elide_copies=True)
        arenas.append((lowtide.plan(exported).arena_bytes, plan.arena_bytes))
    assert arenas[0] == arenas[1]
    assert arenas[0][1] < arenas[0][0]
