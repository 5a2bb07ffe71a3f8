"""Lifetimes as ExecuTorch writes them, for those who look at specs after planning.

Nothing here decides where a tensor goes: a lifetime of this kind is one interval of node positions in one
graph, both ends included, and knows nothing of what a graph that is called does.
"""

from __future__ import annotations

from typing import Any

from torch import fx

from lowtide.executorch.specs import mutable_buffers, specs_of


def write_lifetimes(module: fx.GraphModule, signature: Any) -> None:
    """Set ``lifetime`` of every spec of a graph: the first and the last node that mentions it.

    Inputs live from the first node on, mutable buffers until the last one.
    """
    forever = mutable_buffers(signature)
    last = len(module.graph.nodes) - 1
    for position, node in enumerate(module.graph.nodes):
        for mentioned in (node, *node.all_input_nodes):
            if mentioned.op == "get_attr":
                continue
            for spec in specs_of(mentioned):
                if spec is not None:
                    start, stop = spec.lifetime
                    first = 0 if node.op == "placeholder" else position
                    until = last if node.op == "placeholder" and node.target in forever else position
                    spec.lifetime = [
                        first if start is None else min(start, first),
                        until if stop is None else max(stop, until),
                    ]
