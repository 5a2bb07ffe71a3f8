"""Operators that look at the same place of every operand, and those that reduce or normalise other axes."""

from __future__ import annotations

from math import prod

from torch import fx

from lowtide.operators.executorch import ELEMENTWISE
from lowtide.transforms.split.rules.slices import (
    Part,
    Rule,
    Take,
    argument,
    broadcast,
    operator_name,
    shape_of,
    with_args,
)

_ALSO_ELEMENTWISE = ("clone", "_clone_dim_order", "_to", "_to_dim_order", "alias", "detach", "full_like")
"""Copies and casts; names as ``operator_name`` gives them."""

_REDUCTIONS = ("mean", "sum", "amax", "amin", "any", "all", "argmax", "argmin", "var")


def elementwise(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """The same slice of every operand that is not spread over the axis."""
    rank = len(shape_of(node))
    if rank > 0 and shape_of(node)[axis] == 1:
        return Part(node.args, dict(node.kwargs))
    args = tuple(broadcast(operand, axis, rank, start, stop) for operand in node.args)
    kwargs = {name: broadcast(operand, axis, rank, start, stop) for name, operand in node.kwargs.items()}
    found = Part(args, kwargs)
    return None if any(map(_is_one_of_several, found.takes())) and len(node.all_input_nodes) > 1 else found


def _is_one_of_several(take: Take) -> bool:
    """Whether one number is left of an operand; kernels divide by one in another way than by several."""
    shape = shape_of(take.node)
    return prod(shape) == shape[take.axis] > 1 and take.stop - take.start == 1


def reduction(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """A slice along an axis that stays; what is reduced is needed whole."""
    source = node.args[0]
    dims, keeps = argument(node, 1, "dim"), argument(node, 2, "keepdim", False)
    if operator_name(node) == "var":
        dims, keeps = (
            argument(node, 1, "dim"),
            argument(node, 3, "keepdim", node.kwargs.get("keepdim", False)),
        )
    if not isinstance(source, fx.Node) or dims is None or dims == []:
        return None
    rank = len(shape_of(source))
    reduced = {dim % rank for dim in ([dims] if isinstance(dims, int) else dims)}
    staying = [dim for dim in range(rank) if keeps or dim not in reduced]
    mine = staying[axis]
    if mine in reduced:
        return None
    return with_args(node, {0: Take(source, mine, start, stop)})


def softmax(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """Any axis but the one that adds up to one."""
    source, dim = node.args[:2]
    assert isinstance(source, fx.Node)
    assert isinstance(dim, int)
    if dim % len(shape_of(source)) == axis:
        return None
    return with_args(node, {0: Take(source, axis, start, stop)})


def layer_norm(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """Any axis in front of those that are normalised."""
    source, normalised = node.args[:2]
    assert isinstance(source, fx.Node)
    if axis >= len(shape_of(source)) - len(normalised):
        return None
    return with_args(node, {0: Take(source, axis, start, stop)})


def batch_norm(node: fx.Node, axis: int, start: int, stop: int) -> Part:
    """Any axis: statistics are given. Along the channels their own are needed only."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    changed: dict[int, object] = {0: Take(source, axis, start, stop)}
    if axis == 1:
        for position in range(1, 5):
            operand = node.args[position]
            if isinstance(operand, fx.Node):
                changed[position] = Take(operand, 0, start, stop)
    return with_args(node, changed)


RULES: dict[str, Rule] = {
    **dict.fromkeys((name.removesuffix("_copy") for name in ELEMENTWISE), elementwise),
    **dict.fromkeys(_ALSO_ELEMENTWISE, elementwise),
    **dict.fromkeys(_REDUCTIONS, reduction),
    "_softmax": softmax,
    "_log_softmax": softmax,
    "native_layer_norm": layer_norm,
    "_native_batch_norm_legit_no_training": batch_norm,
}
