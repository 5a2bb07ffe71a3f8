"""A better order of the nodes of ExecuTorch's graphs, which is the order in which the emitter writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowtide.transforms.reorder.fx import move_nodes, node_edges
from lowtide.transforms.reorder.reordering import Reordering, reorder

if TYPE_CHECKING:
    from torch import fx

    from lowtide.executorch.programs import ImportedModules
    from lowtide.ir.program import Region


def reorder_modules(imported: ImportedModules, **choices: Any) -> Reordering:
    """Move the nodes of a method's graphs to an order in which the packed arena is smaller.

    To be called when everything else has been done to the graphs, and before anything is planned. Each
    node moves with the allocation of its result, and with the nodes that name or view it. The specs stay as
    they are; the program has to be imported again if ``changed``.

    Args:
        imported: the tree of graphs, in-place reuse settled.
        choices: as for ``reorder``.
    """
    nodes, edges = [], {}
    for position, (region, module) in enumerate(zip(imported.program.regions, imported.modules, strict=True)):
        steps = _nodes_of(region, module)
        nodes.append(steps)
        edges[position] = node_edges(
            module, {node: step for step, node in enumerate(steps) if node is not None}
        )
        # Slices are cut when a round begins, by no node of the graph.
        slices = [step for step, node in enumerate(steps) if node is None]
        edges[position] += [(first, step) for first in slices for step in range(first + 1, len(steps))]
    found = reorder(imported.program, edges=edges, **choices)
    by_name = {region.name: position for position, region in enumerate(imported.program.regions)}
    for name, order in found.orders.items():
        position = by_name[name]
        moved = [node for step in order if (node := nodes[position][step]) is not None]
        move_nodes(imported.modules[position], moved)
    return found


def _nodes_of(region: Region, module: fx.GraphModule) -> list[fx.Node | None]:
    """The node of each step; None for the step that cuts a slice."""
    by_name = {node.name: node for node in module.graph.nodes if node.op == "call_function"}
    return [by_name.get(step.name) for step in region.steps]
