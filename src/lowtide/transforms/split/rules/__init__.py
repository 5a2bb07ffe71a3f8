"""For each operator and axis of its result: which slice of each operand a slice of the result needs."""

from __future__ import annotations

import torch
from torch import fx

from lowtide.operators.schemas import is_view, known_name, schema_holder
from lowtide.transforms.split.rules import matrices, moving, pointwise, windows
from lowtide.transforms.split.rules.slices import (
    Part,
    Rule,
    Take,
    argument,
    operator_name,
    shape_of,
    value_of,
)

__all__ = [
    "Part",
    "Take",
    "argument",
    "is_barrier",
    "is_first_result",
    "is_plain",
    "operator_name",
    "part_of",
    "shape_of",
    "value_of",
]

_RULES: dict[str, Rule] = {**pointwise.RULES, **windows.RULES, **matrices.RULES, **moving.RULES}
_FIRST_ONLY = ("native_layer_norm", "_native_batch_norm_legit_no_training", "max_pool2d_with_indices")
"""These return several tensors, of which parts have the first."""


def part_of(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """How a step computes a slice of its result; None if it cannot, with the same bits.

    Args:
        node: the step.
        axis: of its first result.
        start, stop: the slice.
    """
    if is_first_result(node):
        source = node.args[0]
        return Part((Take(source, axis, start, stop), 0), {})
    rule = _RULES.get(operator_name(node))
    if rule is None:
        return None
    return rule(node, axis, start, stop)


def is_first_result(node: fx.Node) -> bool:
    """Whether a node names the first of several tensors, the only one that anybody reads."""
    return getattr(node.target, "__name__", "") == "getitem" and node.args[1] == 0


def is_plain(node: fx.Node) -> bool:
    """Whether a step can be run in parts as far as its result goes: static, dense, and read by its first."""
    value = value_of(node)
    if value is None or not all(type(size) is int for size in value.shape) or not value.numel():
        return False
    if isinstance(node.meta["val"], (tuple, list)):
        if operator_name(node) not in _FIRST_ONLY:
            return False
        return all(is_first_result(user) or not user.users for user in node.users)
    if is_first_result(node):
        return isinstance(node.args[0], fx.Node) and operator_name(node.args[0]) in _FIRST_ONLY
    holder = schema_holder(node.target)
    if holder is None or holder._schema.is_mutable:
        return False
    return value.is_contiguous() or (isinstance(node.target, torch._ops.OpOverload) and is_view(holder))


def is_barrier(node: fx.Node) -> bool:
    """Whether nobody can tell what a step does besides its result: no segment crosses it.

    It runs graphs or a delegate, writes into its arguments, draws random numbers, or is of a library of which
    nothing is known.
    """
    if getattr(node.target, "__name__", "") == "getitem":
        return False
    holder = schema_holder(node.target)
    if holder is None or holder._schema.is_mutable or not known_name(holder):
        return True
    return torch.Tag.nondeterministic_seeded in holder.tags
