"""What a rule says: which slice of each operand a slice of the result needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from lowtide.operators.schemas import known_name, schema_holder


@dataclass(frozen=True, slots=True)
class Take:
    """A slice of what a node computes.

    Args:
        node: the operand.
        axis: of the operand.
        start, stop: along that axis. What lies before 0 or behind the end is padding.
        fill: the value of the padding.
    """

    node: fx.Node
    axis: int
    start: int
    stop: int
    fill: float = 0.0

    @property
    def inside(self) -> tuple[int, int]:
        """The elements that there are."""
        size = shape_of(self.node)[self.axis]
        return max(self.start, 0), min(self.stop, size)

    @property
    def padding(self) -> tuple[int, int]:
        """How many elements lie before the first and behind the last."""
        size = shape_of(self.node)[self.axis]
        return max(-self.start, 0), max(self.stop - size, 0)


@dataclass(frozen=True, slots=True)
class Part:
    """How a step is run for a slice of its result.

    Args:
        args, kwargs: of the call, with a ``Take`` for every operand of which a slice is enough; an operand
            that stands as itself is needed whole.
        passes_on: the part is its only operand, and there is nothing to run.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    passes_on: bool = False

    def takes(self) -> list[Take]:
        """Every slice that is needed, in order."""
        found: list[Take] = []
        fx.node.map_aggregate(
            (self.args, self.kwargs), lambda leaf: found.append(leaf) if isinstance(leaf, Take) else None
        )
        return found

    def wholes(self) -> list[fx.Node]:
        """Operands that are needed whole."""
        found: list[fx.Node] = []
        fx.node.map_aggregate(
            (self.args, self.kwargs), lambda leaf: found.append(leaf) if isinstance(leaf, fx.Node) else None
        )
        return found


Rule = Callable[[fx.Node, int, int, int], "Part | None"]
"""From a node, an axis of its first result, and a slice along it, start and stop, to the part that computes
it; None where no such part is known to give the bits of the whole."""


def value_of(node: fx.Node) -> torch.Tensor | None:
    """The fake tensor that a node computes, the first of several; None if it is no tensor."""
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    return value if isinstance(value, torch.Tensor) else None


def shape_of(node: fx.Node) -> tuple[int, ...]:
    """The shape of what a node computes."""
    value = value_of(node)
    assert value is not None
    return tuple(value.shape)


def operator_name(node: fx.Node) -> str:
    """The operator's name, whether it returns a view or a copy; empty if it is none that is known."""
    operator = schema_holder(node.target) if node.op == "call_function" else None
    return "" if operator is None else known_name(operator).removesuffix("_copy")


def argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    """An argument, wherever it stands in the call."""
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def with_args(node: fx.Node, changed: dict[int, Any]) -> Part:
    """The call with other positional arguments; those behind the last that is given stay left out."""
    args = tuple(changed.get(i, passed) for i, passed in enumerate(node.args))
    return Part(args, dict(node.kwargs))


def broadcast(operand: Any, axis: int, rank: int, start: int, stop: int) -> Any:
    """The slice of an operand that is spread over a result of some rank."""
    if not isinstance(operand, fx.Node) or value_of(operand) is None:
        return operand
    shape = shape_of(operand)
    mine = axis - (rank - len(shape))
    if mine < 0 or shape[mine] == 1:
        return operand
    return Take(operand, mine, start, stop)
