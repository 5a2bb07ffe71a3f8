"""Multiply-adds: the price of computing overlaps again.

A convolution counts elements of its result × input channels of a group × taps; a product of matrices M·N·K.
Everything else counts nothing: it is linear in what these make.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from lowtide.transforms.split.rules import operator_name, shape_of

if TYPE_CHECKING:
    from torch import fx


def macs_of(node: fx.Node, result: Sequence[int] | None = None) -> int:
    """Multiply-adds of a step.

    Args:
        node: the step.
        result: the shape of its result, if only a part of it is computed.
    """
    name = operator_name(node)
    if name not in ("convolution", "mm", "bmm", "addmm", "linear"):
        return 0
    elements = prod(shape_of(node) if result is None else result)
    if name == "convolution":
        weight, groups = shape_of(node.args[1]), node.args[8]
        if node.args[6]:  # transposed: each input meets every tap
            source = prod(shape_of(node.args[0]))
            return source * prod(weight[1:]) * elements // prod(shape_of(node))
        assert isinstance(groups, int)
        return elements * prod(weight[1:])
    factor = node.args[1 if name == "addmm" else 0]
    return elements * shape_of(factor)[-1]


def total_macs(nodes: Sequence[fx.Node]) -> int:
    """Multiply-adds of all steps of a graph."""
    return sum(macs_of(node) for node in nodes if node.op == "call_function")
