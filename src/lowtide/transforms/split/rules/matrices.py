"""Products of matrices: rows of the result need rows of the first factor, columns those of the second."""

from __future__ import annotations

from torch import fx

from lowtide.transforms.split.rules.slices import Part, Rule, Take, broadcast, shape_of, with_args


def product(node: fx.Node, axis: int, start: int, stop: int) -> Part:
    """``mm`` and ``bmm``; a batch needs the same of both."""
    return with_args(node, dict(enumerate(_factors(node, node.args[0], node.args[1], axis, start, stop))))


def addmm(node: fx.Node, axis: int, start: int, stop: int) -> Part:
    """What is added is spread over the product."""
    bias, first, second = node.args[:3]
    factors = _factors(node, first, second, axis, start, stop)
    return with_args(node, {0: broadcast(bias, axis, 2, start, stop), 1: factors[0], 2: factors[1]})


def linear(node: fx.Node, axis: int, start: int, stop: int) -> Part:
    """A weight with a row for each column of the result."""
    source, weight, *bias = node.args
    assert isinstance(source, fx.Node)
    assert isinstance(weight, fx.Node)
    if axis < len(shape_of(node)) - 1:
        return with_args(node, {0: Take(source, axis, start, stop)})
    changed: dict[int, object] = {1: Take(weight, 0, start, stop)}
    if bias and isinstance(bias[0], fx.Node):
        changed[2] = Take(bias[0], 0, start, stop)
    return with_args(node, changed)


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
