"""Which bytes a step's results may share with its arguments: kernels and moves, told in values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from lowtide.ir.program import Match
from lowtide.operators.aten import may_overwrite, overwrites_of
from lowtide.operators.moves import copies_whole, laid_out, may_move, moves_of

if TYPE_CHECKING:
    from lowtide.frontends.torch_export.bindings import Position


@dataclass(frozen=True, slots=True)
class NodeSharing:
    """The fields of a Step that say what may share bytes."""

    overwrites: tuple[tuple[int, int], ...] = ()
    matches: tuple[Match, ...] = ()


def sharing_of(
    node: fx.Node,
    operator: Any,
    fakes: Mapping[fx.Node, Any],
    at: Mapping[fx.Node, Position],
    made: frozenset[int],
    read: frozenset[int],
) -> NodeSharing:
    """What the results of an operator may share with its arguments.

    Args:
        node, operator: the call.
        fakes, at: fake results of nodes, and the positions of their values, this node's own included.
        made: values that the call makes anew.
        read: values whose bytes it reads.
    """
    if not (may_overwrite(operator) or may_move(operator)):
        return NodeSharing()
    value_behind: dict[int, int] = {}
    stand_ins: dict[int, torch.Tensor | None] = {}
    symbols: dict[Any, int] = {}

    def of_tensor(position: Any, fake: Any) -> Any:
        """One tensor on the meta device for each value; None where its layout is not known."""
        if not isinstance(fake, torch.Tensor):
            return fake
        if not isinstance(position, int):
            return None
        if position not in stand_ins:
            stand_ins[position] = laid_out(fake, symbols)
            value_behind[id(stand_ins[position])] = position
        return stand_ins[position]

    def passed(leaf: Any) -> Any:
        if not isinstance(leaf, fx.Node):
            return leaf
        position, fake = at[leaf], fakes[leaf]
        if isinstance(position, (tuple, dict)):
            return None
        return of_tensor(position, fake)

    args, kwargs = pytree.tree_map(passed, (node.args, dict(node.kwargs)))
    positions, leaves = (
        pytree.tree_leaves(at[node], is_leaf=_is_none),
        pytree.tree_leaves(fakes[node], is_leaf=_is_none),
    )
    if len(positions) != len(leaves):
        return NodeSharing()
    results = [of_tensor(p, f) if p in made else None for p, f in zip(positions, leaves, strict=True)]
    pairs = [
        (value_behind[id(result)], value_behind[id(argument)])
        for result, argument in overwrites_of(operator, args, kwargs, results)
    ]
    # How far a part lies from the start of a whole is no number if it depends on a symbol.
    known = not symbols or copies_whole(operator)
    moved = [
        Match(value_behind[id(inner)], value_behind[id(outer)], distance)
        for inner, outer, distance in (moves_of(operator, args, kwargs, results) if known else ())
    ]
    return NodeSharing(
        tuple((written, argument) for written, argument in pairs if argument in read),
        tuple(match for match in moved if {match.inner, match.outer} & read),
    )


def _is_none(leaf: Any) -> bool:
    return leaf is None
