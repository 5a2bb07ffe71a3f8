"""Lifetimes as ExecuTorch writes them, for those who look at specs after planning.

Nothing here decides where a tensor goes: a lifetime of this kind is one interval of node positions in one
graph, both ends included, and knows nothing of what a graph that is called does.
"""

from __future__ import annotations

from collections.abc import Container

from torch import fx

from lowtide.executorch.specs import specs_of


def write_lifetimes(module: fx.GraphModule, forever: Container[str]) -> None:
    """Set ``lifetime`` of every spec of a graph: the first and the last node that mentions it.

    Args:
        module: the graph.
        forever: names of placeholders that live until the last node, as mutable buffers do. Inputs live
            from the first node on.
    """
    positions = {node: position for position, node in enumerate(module.graph.nodes)}
    last = len(positions) - 1
    for node, position in positions.items():
        if node.op == "get_attr":
            continue
        first, until = position, max((positions[user] for user in node.users), default=position)
        if node.op == "placeholder":
            first, until = 0, last if node.target in forever else until
        for spec in specs_of(node):
            if spec is not None:
                start, stop = spec.lifetime
                spec.lifetime = [
                    first if start is None else min(start, first),
                    until if stop is None else max(stop, until),
                ]
