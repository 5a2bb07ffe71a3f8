"""Pads taken over by the convolution or the pooling that reads them, where that costs nothing.

A convolution skips the taps that lie outside of its input. Explicit zeros add ``0 * w`` instead, which is a
zero where the weight is finite, and a sum that starts at ``+0`` does not change by a zero of either sign: the
bits are equal. A pooling by average takes zeros of its own padding as it does given ones, if they count; one
by maximum takes its own for minus infinity.

An operator pads both ends of an axis alike. What is padded at the front must be so exactly, since the windows
start there. At the back, only what some window reaches matters: with a stride, the last zeros are often read
by nobody, or more of them would be. What does not fit stays an explicit pad, as small as it can be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowtide.transforms.rewrites.editing import argument, operator_name, shape_of, tensor_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from torch import fx

    from lowtide.transforms.rewrites.rule import Changed, Site

_OPERATORS = ("convolution", "avg_pool2d", "max_pool2d_with_indices")


@dataclass(frozen=True)
class Window:
    """How an operator reads the last axes of its input.

    Args:
        size, stride, padding, dilation: an entry for each axis.
        most: the padding that the operator takes at the most.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    most: tuple[float, ...]


def absorb_pads(site: Site) -> list[Changed]:
    """Take explicit pads over into what reads them."""
    found: list[Changed] = []
    for pad in site.edit.calls("constant_pad_nd"):
        for user in list(pad.users):
            if user.op == "call_function" and user.args and user.args[0] is pad:
                changed = _absorb(site, pad, user)
                if changed is not None:
                    found.append(changed)
    return found


def _absorb(site: Site, pad: fx.Node, user: fx.Node) -> Changed | None:
    name, source = operator_name(user), pad.args[0]
    shape, padded = shape_of(source), shape_of(pad)
    if name not in _OPERATORS or shape is None or padded is None or user.all_input_nodes.count(pad) != 1:
        return None
    window = window_of(user, site.constants)
    if window is None or argument(pad, 2, "value", 0) != (-math.inf if name.startswith("max") else 0):
        return None
    axes = len(window.size)
    pairs = pairs_of(pad, axes)
    if pairs is None:
        return None
    chosen = [_choose(*pairs[i], shape[-axes + i], window, i) for i in range(axes)]
    padding = [choice[0] for choice in chosen]
    rest = [choice[1:] for choice in chosen]
    if sum(map(sum, rest)) >= sum(map(sum, pairs)):
        return None
    kept: Any = source
    if any(map(sum, rest)):
        flat = [end for pair in reversed(rest) for end in pair]
        kept = site.edit.call("constant_pad_nd", (source, flat, *pad.args[2:]), of=pad)
    before = user.meta["val"]
    args = _with_padding(name, [kept, *user.args[1:]], padding)
    new = site.edit.call_again(user, args)
    if _shapes(new.meta["val"]) != _shapes(before):
        site.edit.let_go(new)
        return None
    names = (pad.name, user.name)
    if isinstance(before, (tuple, list)):
        for getter in list(user.users):
            site.edit.replace(getter, site.edit.first_of(new, of=getter))
        site.edit.let_go(user)
    else:
        site.edit.replace(user, new)
    site.edit.let_go(pad)
    left = "" if kept is source else f"; {sum(map(sum, rest))} of its elements per row and column stay"
    return names, f"{user.name} pads by itself what {pad.name} padded{left}"


def pairs_of(pad: fx.Node, axes: int) -> list[tuple[int, int]] | None:
    """What is padded at the front and back of each of the last axes; None if others are padded, or cut."""
    rank, given = len(pad.meta["val"].shape), list(pad.args[1])
    given += [0] * (2 * rank - len(given))
    pairs = [(given[2 * i], given[2 * i + 1]) for i in reversed(range(rank))]  # listed from the last axis on
    if any(end < 0 for pair in pairs for end in pair) or any(end for pair in pairs[:-axes] for end in pair):
        return None
    return pairs[-axes:]


def _with_padding(name: str, args: list[Any], padding: list[int]) -> list[Any]:
    """Arguments of an operator with another padding."""
    if name == "convolution":
        return [*args[:4], padding, *args[5:]]
    if name == "avg_pool2d":  # zeros count, as those did that were given
        given = [*args, *[None, None, [], 0, False, True, None][len(args) :]]
        return [*given[:3], padding, given[4], True, *given[6:]]
    given = [*args, *[None, None, []][len(args) :]]
    return [*given[:3], padding, *given[4:]]


def _choose(front: int, back: int, size: int, window: Window, axis: int) -> tuple[int, int, int]:
    """Padding, and explicit pads at front and back, that give the same windows for the fewest zeros."""
    stride, own = window.stride[axis], window.padding[axis]
    reach = window.dilation[axis] * (window.size[axis] - 1) + 1
    windows = (size + front + back + 2 * own - reach) // stride + 1
    ahead = front + own
    needed = (windows - 1) * stride + reach - ahead - size  # zeros behind the last element that are read
    best = (own, front, back)
    for padding in range(own, ahead + 1):
        if padding > window.most[axis]:
            break
        left, right = ahead - padding, max(needed - padding, 0)
        same = (size + left + right + 2 * padding - reach) // stride + 1 == windows
        if same and left + right < best[1] + best[2]:
            best = (padding, left, right)
    return best


def window_of(node: fx.Node, constants: Mapping[fx.Node, torch.Tensor]) -> Window | None:
    """How an operator reads; None where its own padding might give other bits than zeros that it is given."""
    name = operator_name(node)
    if name == "convolution":
        weight, transposed = shape_of(node.args[1]), argument(node, 6, "transposed")
        if weight is None or transposed or not _all_finite(node.args[1], constants):
            return None
        if shape_of(node) is None:
            return None
        axes = len(weight) - 2
        stride, padding, dilation = (_spread(node.args[i], axes) for i in (3, 4, 5))
        return Window(tuple(weight[2:]), stride, padding, dilation, (math.inf,) * axes)
    size = _spread(node.args[1], 2)
    stride = _spread(argument(node, 2, "stride", []) or list(size), 2)
    padding = _spread(argument(node, 3, "padding", 0), 2)
    most = tuple(k // 2 for k in size)
    if name == "avg_pool2d":
        counts = argument(node, 5, "count_include_pad", True) or not any(padding)
        if argument(node, 4, "ceil_mode", False) or not counts:
            return None
        return Window(size, stride, padding, (1, 1), most)
    if argument(node, 5, "ceil_mode", False) or any(user.args[1:] != (0,) for user in node.users):
        return None  # the indices would be those of other places
    return Window(size, stride, padding, _spread(argument(node, 4, "dilation", 1), 2), most)


def _all_finite(weight: Any, constants: Mapping[fx.Node, torch.Tensor]) -> bool:
    """Whether a weight is known, and gives a zero by zero."""
    found = constants.get(weight)
    return found is not None and tensor_of(weight) is not None and bool(found.isfinite().all())


def _spread(given: Any, axes: int) -> tuple[int, ...]:
    """One number for each axis, of which a single one may stand for all."""
    numbers: Sequence[int] = [given] if isinstance(given, int) else list(given)
    return tuple(numbers) * axes if len(numbers) == 1 else tuple(numbers)


def _shapes(value: Any) -> list[tuple[int, ...]]:
    return [tuple(v.shape) for v in (value if isinstance(value, (tuple, list)) else [value])]
