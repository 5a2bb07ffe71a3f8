"""Each operator that has a rule, run in parts by it on the real runtime: the bits are those of the whole."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from executorch.exir.pass_manager import ExportedProgramPassManager
from torch import nn
from torch.nn import functional as F

from lowtide.executorch import MemoryPlanningPass
from lowtide.executorch.fit_pass import edge_dialect
from lowtide.operators.executorch import same_columns, same_rows
from lowtide.transforms.split.live import Lives
from lowtide.transforms.split.rules import is_first_result, operator_name, value_of
from lowtide.transforms.split.segments import UNITS, cuts, grow, plan_parts
from lowtide.transforms.split.tape import Tape
from lowtide.transforms.split.writing import write
from runtime import edge_of, lower
from zoo import Run


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def image(channels: int = 4, height: int = 19, width: int = 14) -> torch.Tensor:
    return torch.randn(2, channels, height, width)


def conv(*, groups: int = 1, **more: Any) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    kernel = more.pop("kernel", 3)
    weight, bias = randn(8, 4 // groups, kernel, kernel), randn(8)
    return lambda x, w, b: F.conv2d(x, w, b, groups=groups, **more), (image(), weight, bias)


CASES: dict[str, Callable[[], tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]] = {
    "mm, whole vectors": lambda: (torch.mm, (randn(22, 17), randn(17, 48))),
    "mm, columns left over": lambda: (torch.mm, (randn(22, 17), randn(17, 50))),
    "bmm, columns left over": lambda: (torch.bmm, (randn(3, 21, 8), randn(3, 8, 37))),
    "bmm, whole vectors": lambda: (torch.bmm, (randn(3, 21, 8), randn(3, 8, 32))),
    "addmm": lambda: (torch.addmm, (randn(37), randn(22, 9), randn(9, 37))),
    "convolution": lambda: conv(padding=1),
    "convolution, strided": lambda: conv(stride=2, padding=(1, 0)),
    "convolution, dilated": lambda: conv(dilation=2, padding=2),
    "convolution, even kernel": lambda: conv(kernel=2, stride=1, padding=1),
    "convolution, in groups": lambda: conv(groups=2, padding=1),
    "convolution, depthwise": lambda: conv(groups=4, padding=1),
    "convolution, 1-d": lambda: (
        lambda x, w: F.conv1d(x, w, stride=2, padding=2),
        (randn(2, 4, 33), randn(6, 4, 5)),
    ),
    "max pool": lambda: (lambda x: F.max_pool2d(x, 3, 2, 1), (image(),)),
    "average pool": lambda: (lambda x: F.avg_pool2d(x, 3, 1, 1), (image(),)),
    "average pool, padding left out": lambda: (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        (image(),),
    ),
    "softmax": lambda: (lambda x: torch.softmax(x, -1), (randn(3, 11, 21),)),
    "softmax, inner": lambda: (lambda x: torch.softmax(x, 1), (randn(3, 11, 21),)),
    "log softmax": lambda: (lambda x: torch.log_softmax(x, -1), (randn(3, 11, 21),)),
    "layer norm": lambda: (lambda x: F.layer_norm(x, (21,)), (randn(3, 11, 21),)),
    "mean": lambda: (lambda x: x.mean(-1), (randn(3, 11, 21),)),
    "mean, inner": lambda: (lambda x: x.mean(1, keepdim=True), (randn(3, 11, 21),)),
    "sum of two axes": lambda: (lambda x: x.sum((1, 3)), (image(),)),
    "amax": lambda: (lambda x: x.amax(1), (randn(3, 11, 21),)),
    "gelu": lambda: (F.gelu, (randn(3, 11, 21),)),
    "gelu, tanh": lambda: (lambda x: F.gelu(x, approximate="tanh"), (randn(3, 11, 21),)),
    "sigmoid": lambda: (torch.sigmoid, (randn(3, 11, 21),)),
    "tanh": lambda: (torch.tanh, (randn(3, 11, 21),)),
    "exp": lambda: (torch.exp, (randn(3, 11, 21),)),
    "silu": lambda: (F.silu, (randn(3, 11, 21),)),
    "add, broadcast": lambda: (torch.add, (randn(3, 11, 21), randn(11, 1))),
    "mul": lambda: (torch.mul, (randn(3, 11, 21), randn(3, 1, 21))),
    "div": lambda: (torch.div, (randn(3, 11, 21), randn(21).abs() + 1)),
    "where": lambda: (lambda c, a, b: torch.where(c > 0, a, b), (randn(11, 21), randn(21), randn(11, 21))),
    "pow": lambda: (lambda x: x.abs().pow(1.7), (randn(11, 21),)),
    "rsqrt": lambda: (lambda x: (x.abs() + 1).rsqrt(), (randn(11, 21),)),
    "pad": lambda: (lambda x: F.pad(x, (2, 1, 0, 3), value=0.5), (randn(3, 11, 21),)),
    "permute": lambda: (lambda x: x.permute(2, 0, 1).contiguous(), (randn(3, 11, 21),)),
    "view": lambda: (lambda x: x.reshape(3, 44, 6).clone(), (randn(3, 11, 24),)),
    "expand": lambda: (lambda x: x.expand(5, 11, 21).clone(), (randn(1, 11, 21),)),
    "cat": lambda: (lambda x, y: torch.cat([x, y], 1), (randn(3, 11, 21), randn(3, 8, 21))),
    "slice": lambda: (lambda x: x[:, 2:9].clone(), (randn(3, 11, 21),)),
    "embedding": lambda: (F.embedding, (torch.randint(0, 9, (3, 11)), randn(9, 21))),
}


class OneStep(ExportedProgramPassBase):  # type: ignore[misc]
    """Cuts one step's result along an axis, in parts of a unit."""

    def __init__(self, position: int, axis: int, count: int, unit: int, *, keeps: bool) -> None:
        self.position, self.axis, self.count, self.unit, self.keeps = position, axis, count, unit, keeps
        self.is_cut = False

    def call(self, exported_program: Any) -> ExportedProgramPassResult:
        steps = Lives(exported_program).steps
        first = self.position - is_first_result(steps[self.position])
        segment = grow(steps, first, self.position, self.axis)
        size = value_of(steps[self.position]).shape[self.axis]
        intervals = cuts(size, self.count, self.unit)
        plans = plan_parts(segment, intervals, keeps=self.keeps) if segment and intervals else None
        if plans is None:
            return ExportedProgramPassResult(exported_program, False)
        self.is_cut = True
        return ExportedProgramPassResult(
            write(exported_program, [Tape(segment, plans)], edge_dialect()), True
        )


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.int32) if tensor.is_floating_point() else tensor


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_parts_of_one_step(name: str) -> None:
    torch.manual_seed(0)
    function, inputs = CASES[name]()
    edge = edge_of(Run(function), inputs)
    (whole,) = lower(edge, MemoryPlanningPass()).run([inputs])[0]
    steps = Lives(edge.exported_program()).steps
    cut = 0
    for position, node in enumerate(steps):
        value = value_of(node)
        if value is None or not (operator_name(node) or is_first_result(node)):
            continue
        for axis, size in enumerate(value.shape):
            wanted = {
                (count, unit) for unit in UNITS for count in (2, 3, 7, size) if 1 < count <= size // unit
            }
            for count, unit in sorted(wanted):
                one = OneStep(position, axis, count, unit, keeps=False)
                parts = copy.deepcopy(edge).transform(ExportedProgramPassManager([one]))
                if not one.is_cut:
                    continue
                cut += 1
                (found,) = lower(parts, MemoryPlanningPass(in_place=True)).run([inputs])[0]
                assert torch.equal(bits(whole), bits(found)), (str(node.target), axis, count, unit)
    assert cut or name == "average pool, padding left out"


class _Products(nn.Module):
    def __init__(self, spans: list[tuple[int, int]], axis: int) -> None:
        super().__init__()
        self.spans, self.axis = spans, axis

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = [torch.mm(x, w)]
        for start, stop in self.spans:
            found.append(torch.mm(x[start:stop], w) if self.axis == 0 else torch.mm(x, w[:, start:stop]))
        return tuple(found)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(26, 8, 50), (26, 17, 23), (21, 64, 20), (26, 33, 48), (9, 16, 40)])
@pytest.mark.parametrize("axis", [0, 1])
def test_which_slices_of_a_product_have_its_bits(shape: tuple[int, int, int], axis: int) -> None:
    """Every slice that the rule allows has them; of those that it refuses some have not, so it is needed."""
    rows, inner, columns = shape
    torch.manual_seed(0)
    x, w = randn(rows, inner), randn(inner, columns)
    size = rows if axis == 0 else columns
    widths = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, size)
    spans = sorted({(a, a + n) for a in range(size) for n in widths if a + n <= size})
    whole, *parts = lower(edge_of(_Products(spans, axis), (x, w)), MemoryPlanningPass()).run([(x, w)])[0]
    refused = 0
    for (start, stop), part in zip(spans, parts, strict=True):
        same = torch.equal(bits(whole.narrow(axis, start, stop - start)), bits(part))
        allowed = same_rows(start, stop, rows, columns) if axis == 0 else same_columns(start, stop, columns)
        assert same or not allowed, (start, stop)
        refused += not same
    assert refused or columns % 8 == 0
