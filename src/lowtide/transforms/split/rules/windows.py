"""Convolutions and pooling, in one or two dimensions: a slice of the result needs its windows.

Padding at a border is made explicit, for those parts only that reach it: zeros add nothing to a sum, and
the least number wins no maximum, so the bits stay what they were.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import fx

from lowtide.transforms.split.rules.slices import Part, Rule, Take, argument, shape_of, value_of, with_args


def convolution(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """By batch, by output channels, by groups of them, and by place."""
    source, weight, bias, stride, padding, dilation, transposed, _, groups = node.args
    assert isinstance(source, fx.Node)
    assert isinstance(weight, fx.Node)
    if axis == 0:
        return with_args(node, {0: Take(source, 0, start, stop)})
    if transposed:
        return None
    if axis == 1:
        changed: dict[int, Any] = {1: Take(weight, 0, start, stop)}
        if isinstance(bias, fx.Node):
            changed[2] = Take(bias, 0, start, stop)
        if groups != 1:
            each = shape_of(weight)[0] // groups
            if start % each or stop % each:
                return None
            wide = shape_of(weight)[1]
            changed[0] = Take(source, 1, start // each * wide, stop // each * wide)
            changed[8] = (stop - start) // each
        return with_args(node, changed)
    window = _Window(shape_of(weight)[2:], stride, padding, dilation)
    take, pads = window.take(node, axis, start, stop, 0.0)
    return with_args(node, {0: take, 4: pads})


def pooling(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """By batch, channel and place. Whoever reads indices gets none: they count from the whole's start."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    value = value_of(source)
    if value is None or not value.is_floating_point():
        return None
    rank = len(shape_of(source))
    is_max = "max" in str(node.target)
    ceil = argument(node, 5 if is_max else 4, "ceil_mode", False)
    spatial = 1 if "pool1d" in str(node.target) else 2
    if axis < rank - spatial:
        return with_args(node, {0: Take(source, axis, start, stop)})
    if ceil or len(node.args) < 2 or node.kwargs:
        return None
    kernel = _spread(node.args[1], spatial)
    stride = _spread(argument(node, 2, "stride", None) or kernel, spatial)
    padding = _spread(argument(node, 3, "padding", 0), spatial)
    dilation = _spread(argument(node, 4, "dilation", 1) if is_max else 1, spatial)
    counts_padding = argument(node, 5, "count_include_pad", True) if not is_max else True
    if not counts_padding and any(padding):
        return None
    fill = -math.inf if is_max else 0.0
    take, pads = _Window(kernel, stride, padding, dilation).take(node, axis, start, stop, fill)
    changed: dict[int, Any] = {0: take}
    if len(node.args) > 3:
        changed[3] = pads
    return with_args(node, changed)


class _Window:
    """The geometry of a window that slides over the last dimensions."""

    def __init__(self, kernel: Any, stride: Any, padding: Any, dilation: Any) -> None:
        self.kernel = list(kernel)
        count = len(self.kernel)
        self.stride, self.padding = _spread(stride, count), _spread(padding, count)
        self.dilation = _spread(dilation, count)

    def take(self, node: fx.Node, axis: int, start: int, stop: int, fill: float) -> tuple[Take, list[int]]:
        """The elements under some of a step's windows, and the padding that the call is left with."""
        source = node.args[0]
        assert isinstance(source, fx.Node)
        shape, windows = shape_of(source), shape_of(node)[axis]
        i = axis - (len(shape) - len(self.kernel))
        pad = self.padding[i]
        first = start * self.stride[i] - pad
        last = (stop - 1) * self.stride[i] - pad + self.dilation[i] * (self.kernel[i] - 1) + 1
        pads = [*self.padding]
        if (start, stop) == (0, windows):
            return Take(source, axis, 0, shape[axis]), pads  # every window: as the call has it
        pads[i] = 0
        return Take(source, axis, first, last, fill), pads


def _spread(sizes: int | Sequence[int], count: int) -> list[int]:
    """One number for each dimension."""
    if isinstance(sizes, int):
        return [sizes] * count
    return [*sizes] * count if len(sizes) == 1 else [*sizes]


RULES: dict[str, Rule] = {
    "convolution": convolution,
    "max_pool2d_with_indices": pooling,
    "max_pool2d": pooling,
    "avg_pool2d": pooling,
    "avg_pool1d": pooling,
}
