"""Nodes that run graphs of their own, as ExecuTorch's emitter unfolds them.

=====  ==================================================================================================
cond   jumps; placeholders are bound to the operands, and the result's tensor is repointed at the tensor of
       the branch that ran (``MoveCall``): nobody ever writes the result's own bytes
map    a loop; each round copies a slice into the first placeholder, runs the body, and copies its output
       into the stacked result
scan   a loop; the carry results are filled from the inits, then from the body's outputs after each round,
       and the carry placeholders are bound to them; slices and stacked results as for map
=====  ==================================================================================================

The others (``while_loop``) do not get past the emitter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import fx
from torch._ops import HigherOrderOperator

from lowtide.base.errors import UnsupportedError

_COND, _MAP, _SCAN = _EMITTED = (
    torch.ops.higher_order.cond,
    torch.ops.higher_order.map_impl,
    torch.ops.higher_order.scan,
)


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """A node that runs graphs, its arguments sorted by what they are for.

    Args:
        kind: cond, or scan; a map is a scan without carries.
        graphs: the ``get_attr`` nodes of the graphs that it runs.
        operands: passed by reference.
        inits: what the carries start from.
        slices: of which every round gets one slice, copied.
        selector: the predicate of a cond.
    """

    kind: Literal["cond", "scan"]
    graphs: tuple[fx.Node, ...]
    operands: tuple[Any, ...]
    inits: tuple[Any, ...] = ()
    slices: tuple[Any, ...] = ()
    selector: Any = None


def control_flow(node: fx.Node) -> ControlFlow | None:
    """What a node runs; None if it runs no graphs.

    Raises:
        UnsupportedError: ExecuTorch's emitter does not know the operator.
    """
    if node.op != "call_function" or not isinstance(node.target, HigherOrderOperator):
        return None
    arguments: Any = node.args
    if node.target is _COND:
        predicate, on_true, on_false, operands = arguments
        return ControlFlow("cond", (on_true, on_false), tuple(operands), selector=predicate)
    if node.target is _MAP:
        body, slices, operands = arguments
        return ControlFlow("scan", (body,), tuple(operands), slices=tuple(slices))
    if node.target is _SCAN:
        body, inits, slices, operands = arguments
        return ControlFlow("scan", (body,), tuple(operands), tuple(inits), tuple(slices))
    if node.target.name() in ("executorch_call_delegate",):
        return None
    raise UnsupportedError(
        f"node {node.name!r}: ExecuTorch cannot emit the operator {node.target.name()!r}: "
        "use cond, map or scan"
    )


def graph_of(module: fx.GraphModule, graph: fx.Node) -> fx.GraphModule:
    """The graph module behind a ``get_attr`` node."""
    found: fx.GraphModule = getattr(module, str(graph.target))
    return found


def calls_of(module: fx.GraphModule) -> Iterator[tuple[fx.Node, ControlFlow]]:
    """The nodes of a graph that run graphs, in order, with what they run.

    They are looked up by operator: most graphs are long and have none.
    """
    found = [
        node for target in _EMITTED for node in module.graph.find_nodes(op="call_function", target=target)
    ]
    for node in sorted(found):
        called = control_flow(node)
        if called is not None:
            yield node, called


def tree(module: fx.GraphModule, name: str) -> Iterator[tuple[str, fx.GraphModule]]:
    """A graph module and every one that it runs, with qualified names, callers first."""
    yield name, module
    for _, called in calls_of(module):
        for graph in called.graphs:
            yield from tree(graph_of(module, graph), f"{name}/{graph.target}")
