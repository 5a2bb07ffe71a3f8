"""Tensors of one number, where one element of it is enough.

``full_like(x, 0)`` beside ``x`` in a ``where`` or a sum takes as many bytes as ``x``. A tensor of one element
and as many axes is broadcast instead: each element of the result is computed from the same numbers, and its
type is what it was, since the number of axes is what types go by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lowtide.transforms.rewrites.editing import argument, operator_name, shape_of, tensor_of

if TYPE_CHECKING:
    from torch import fx

    from lowtide.transforms.rewrites.rule import Changed, Site

_FILLS = ("full", "full_like", "zeros", "zeros_like", "ones", "ones_like")
_BROADCASTING = frozenset(
    [
        "add", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "ge", "gt", "le", "logical_and",
        "logical_or", "logical_xor", "lt", "maximum", "minimum", "mul", "ne", "sub", "where",
    ]
)  # fmt: skip
"""Of two numbers these give the same bits wherever in memory they come from. ``div`` does not: ExecuTorch's
optimised kernel multiplies by the reciprocal of a divisor that is one element."""


def shrink_fills(site: Site) -> list[Changed]:
    """Make tensors of one number that are only broadcast as small as they can be."""
    found: list[Changed] = []
    for fill in site.edit.calls(*_FILLS):
        value, number = tensor_of(fill), _number(fill)
        if value is None or number is None or value.dim() == 0 or value.numel() <= 1:
            continue
        users = [user for user in fill.users if _would_broadcast(user, fill)]
        if not users:
            continue
        shape = [1] * value.dim()
        small = site.edit.call("full", (shape, number), of=fill, dtype=value.dtype)
        for user in users:
            user.replace_input_with(fill, small)
        name = fill.name
        if fill.users:
            note = f"{len(users)} steps take one element instead of {name}"
        else:
            site.edit.graph.erase_node(fill)
            small.name = name
            note = f"{name} is one element, which is broadcast"
        found.append(((name, *(user.name for user in users)), note))
    return found


def _number(fill: fx.Node) -> Any:
    """The number that a tensor is filled with; None if it is none that is known here."""
    name = operator_name(fill)
    is_given = name.startswith("full")
    number = argument(fill, 1, "fill_value") if is_given else int(name.startswith("ones"))
    return number if isinstance(number, (bool, int, float)) else None


def _would_broadcast(user: fx.Node, fill: fx.Node) -> bool:
    """Whether a step gives the same if it broadcasts one element instead."""
    if user.op != "call_function" or operator_name(user) not in _BROADCASTING:
        return False
    given = [leaf for leaf in (*user.args, *user.kwargs.values()) if isinstance(leaf, torch.fx.Node)]
    others = [shape_of(leaf) for leaf in given if leaf is not fill]
    result, mine = shape_of(user), shape_of(fill)
    if result is None or mine is None or None in others or len(mine) > len(result):
        return False
    try:
        return (
            tuple(torch.broadcast_shapes(*(s for s in others if s is not None), (1,) * len(mine))) == result
        )
    except RuntimeError:
        return False
