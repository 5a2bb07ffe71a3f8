"""Products of matrices: rows of the result need rows of the first factor, columns those of the second.

A product is cut only where its bits hold: those of ``mm``, ``bmm`` and ``linear`` depend on which rows and
columns are computed together. ``addmm`` gives the same bits for any part. Only 32-bit floats were
tried.
"""

from __future__ import annotations

from math import prod

import torch
from torch import fx

from lowtide.operators.executorch import same_columns, same_rows
from lowtide.transforms.split.rules.slices import (
    Part,
    Rule,
    Take,
    broadcast,
    shape_of,
    value_of,
    with_args,
)


def product(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """``mm`` and ``bmm``; a batch needs the same of both."""
    if not _same_bits(node, axis, start, stop):
        return None
    return with_args(node, dict(enumerate(_factors(node, node.args[0], node.args[1], axis, start, stop))))


def addmm(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """What is added is spread over the product."""
    if not _is_tried(node):
        return None
    bias, first, second = node.args[:3]
    factors = _factors(node, first, second, axis, start, stop)
    return with_args(node, {0: broadcast(bias, axis, 2, start, stop), 1: factors[0], 2: factors[1]})


def linear(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """A weight with a row for each column of the result."""
    *outer, columns = shape_of(node)
    if not _is_tried(node):
        return None
    if axis == len(outer):
        if not same_columns(start, stop, columns):
            return None
    else:
        # The kernel sees one matrix; a slice of an inner axis is several pieces of it.
        each = prod(outer[axis + 1 :])
        in_one_piece = prod(outer[:axis]) == 1
        rows = (start * each, stop * each, prod(outer)) if in_one_piece else (0, 1, prod(outer))
        if not same_rows(*rows, columns):
            return None
    source, weight, *bias = node.args
    assert isinstance(source, fx.Node)
    assert isinstance(weight, fx.Node)
    if axis < len(shape_of(node)) - 1:
        return with_args(node, {0: Take(source, axis, start, stop)})
    changed: dict[int, object] = {1: Take(weight, 0, start, stop)}
    if bias and isinstance(bias[0], fx.Node):
        changed[2] = Take(bias[0], 0, start, stop)
    return with_args(node, changed)


def _is_tried(node: fx.Node) -> bool:
    value = value_of(node)
    return value is not None and value.dtype == torch.float32


def _same_bits(node: fx.Node, axis: int, start: int, stop: int) -> bool:
    """Whether a slice of the result has the bits of the whole."""
    *batch, rows, columns = shape_of(node)
    if not _is_tried(node):
        return False
    if axis < len(batch):
        return True
    if axis == len(batch):
        return same_rows(start, stop, rows, columns)
    return same_columns(start, stop, columns)


def _factors(
    node: fx.Node, first: object, second: object, axis: int, start: int, stop: int
) -> tuple[object, object]:
    rank = len(shape_of(node))
    assert isinstance(first, fx.Node)
    assert isinstance(second, fx.Node)
    if axis == rank - 1:
        return first, Take(second, axis, start, stop)
    return Take(first, axis, start, stop), second if axis == rank - 2 else Take(second, axis, start, stop)


RULES: dict[str, Rule] = {"mm": product, "bmm": product, "addmm": addmm, "linear": linear}
