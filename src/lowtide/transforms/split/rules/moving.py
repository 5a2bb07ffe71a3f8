"""Operators that move elements: the axis is found again in the operand, or the segment ends."""

from __future__ import annotations

from math import prod
from typing import Any

from torch import fx

from lowtide.transforms.split.rules.slices import Part, Rule, Take, argument, shape_of, with_args


def view(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """An axis that both shapes have, or one that is the outermost factor of the other's."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    old, new = shape_of(source), shape_of(node)
    before = prod(new[:axis])
    for mine in range(len(old)):
        if prod(old[:mine]) != before or old[mine] == 1:
            continue
        wide, narrow = max(old[mine], new[axis]), min(old[mine], new[axis])
        factor = wide // narrow
        if wide % narrow:
            return None
        if old[mine] >= new[axis]:
            take = Take(source, mine, start * factor, stop * factor)
        elif start % factor or stop % factor:
            return None
        else:
            take = Take(source, mine, start // factor, stop // factor)
        return with_args(node, {0: take, 1: _resized(new, axis, stop - start)})
    return None


def permute(node: fx.Node, axis: int, start: int, stop: int) -> Part:
    """The axis that goes there."""
    source, dims = node.args[:2]
    assert isinstance(source, fx.Node)
    rank = len(shape_of(source))
    return with_args(node, {0: Take(source, dims[axis] % rank, start, stop)})


def transpose(node: fx.Node, axis: int, start: int, stop: int) -> Part:
    """Two axes change places; ``t`` swaps both of a matrix."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    rank = len(shape_of(source))
    first, second = (int(argument(node, i, f"dim{i - 1}", i - 1)) % rank for i in (1, 2))
    mine = {first: second, second: first}.get(axis, axis)
    return with_args(node, {0: Take(source, mine, start, stop)})


def unsqueeze(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """Axes behind the new one stood one further to the left."""
    source, dim = node.args[:2]
    assert isinstance(source, fx.Node)
    new = dim % len(shape_of(node))
    if axis == new:
        return None
    return with_args(node, {0: Take(source, axis - (axis > new), start, stop)})


def squeeze(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """Axes of size one are gone."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    old = shape_of(source)
    dims = argument(node, 1, "dim")
    if dims is None:
        return None  # a part may have more axes of size one than the whole
    gone = {dim % len(old) for dim in ([dims] if isinstance(dims, int) else dims)}
    staying = [dim for dim in range(len(old)) if dim not in gone or old[dim] != 1]
    if any(old[dim] != 1 for dim in gone):
        return None
    return with_args(node, {0: Take(source, staying[axis], start, stop)})


def expand(node: fx.Node, axis: int, start: int, stop: int) -> Part:
    """An axis that is spread needs what is spread, whole."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    old, new = shape_of(source), shape_of(node)
    mine = axis - (len(new) - len(old))
    changed: dict[int, Any] = {1: _resized(new, axis, stop - start)}
    if mine >= 0 and old[mine] != 1:
        changed[0] = Take(source, mine, start, stop)
    return with_args(node, changed)


def concatenation(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """Along the joint those operands that the slice meets; along another axis the same slice of each."""
    operands = node.args[0]
    assert isinstance(operands, (list, tuple))
    rank = len(shape_of(node))
    dim = int(argument(node, 1, "dim", 0)) % rank
    if any(len(shape_of(operand)) != rank for operand in operands):
        return None
    if axis != dim:
        taken = [Take(operand, axis, start, stop) for operand in operands]
        return with_args(node, {0: taken})
    taken, begin = [], 0
    for operand in operands:
        assert isinstance(operand, fx.Node)
        size = shape_of(operand)[dim]
        first, last = max(start - begin, 0), min(stop - begin, size)
        if first < last:
            taken.append(Take(operand, dim, first, last))
        begin += size
    return with_args(node, {0: taken})


def slicing(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """A slice of a slice; along another axis both."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    rank, dim = len(shape_of(source)), int(argument(node, 1, "dim", 0))
    dim %= rank
    if axis != dim:
        return with_args(node, {0: Take(source, axis, start, stop)})
    first, step = argument(node, 2, "start", None) or 0, argument(node, 4, "step", 1)
    size = shape_of(source)[dim]
    first = max(first + size, 0) if first < 0 else first
    if step != 1:
        return None
    return Part((Take(source, dim, first + start, first + stop),), {}, passes_on=True)


def select(node: fx.Node, axis: int, start: int, stop: int) -> Part:
    """One place of an axis, which is gone."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    dim = int(node.args[1]) % len(shape_of(source))
    return with_args(node, {0: Take(source, axis + (axis >= dim), start, stop)})


def padding(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """Along the axis the border parts pad; along others every part does as the whole did."""
    source, pads = node.args[:2]
    assert isinstance(source, fx.Node)
    assert isinstance(pads, (list, tuple))
    rank = len(shape_of(source))
    place = 2 * (rank - 1 - axis)
    if any(int(pad) < 0 for pad in pads):
        return None
    if place >= len(pads):
        return with_args(node, {0: Take(source, axis, start, stop)})
    fill = float(argument(node, 2, "value", 0.0))
    before = int(pads[place])
    take = Take(source, axis, start - before, stop - before, fill)
    others = [0 if i in (place, place + 1) else pad for i, pad in enumerate(pads)]
    return Part((take, others, *node.args[2:]), dict(node.kwargs), passes_on=not any(others))


def embedding(node: fx.Node, axis: int, start: int, stop: int) -> Part | None:
    """A row of the table for each index."""
    indices = node.args[1]
    assert isinstance(indices, fx.Node)
    if axis == len(shape_of(node)) - 1:
        return None
    return with_args(node, {1: Take(indices, axis, start, stop)})


def _resized(shape: tuple[int, ...], axis: int, size: int) -> list[int]:
    return [size if i == axis else old for i, old in enumerate(shape)]


RULES: dict[str, Rule] = {
    "view": view,
    "_unsafe_view": view,
    "reshape": view,
    "permute": permute,
    "transpose": transpose,
    "t": transpose,
    "unsqueeze": unsqueeze,
    "squeeze": squeeze,
    "expand": expand,
    "cat": concatenation,
    "slice": slicing,
    "select": select,
    "constant_pad_nd": padding,
    "embedding": embedding,
}
