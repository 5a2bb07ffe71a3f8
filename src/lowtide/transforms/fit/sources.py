"""Where nodes come from, told in numbers that are the same in every run.

PyTorch notes for each node the nodes that it was made of, and names their graphs by addresses in memory. Two
runs would write two different files. Only that two nodes come from one graph matters, so graphs are numbered
in the order in which they are met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def number_sources(program: ExportedProgram) -> None:
    """Number the graphs that the nodes of a program come from; what others hold is left as it is."""
    from torch.fx.traceback import NodeSource

    numbers: dict[int, int] = {}

    def numbered(told: dict[str, Any]) -> dict[str, Any]:
        number = numbers.setdefault(told["graph_id"], len(numbers))
        return {**told, "graph_id": number, "from_node": [numbered(inner) for inner in told["from_node"]]}

    for node in program.graph.nodes:
        sources = node.meta.get("from_node")
        if sources and all(isinstance(source, NodeSource) for source in sources):
            node.meta["from_node"] = [NodeSource._from_dict(numbered(source.to_dict())) for source in sources]
