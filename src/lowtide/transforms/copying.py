"""Copies of programs whose graphs may be changed; weights are shared, since nothing here changes those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import fx
from torch.export import ExportedProgram

if TYPE_CHECKING:
    from torch.export.graph_signature import ExportGraphSignature


def copy_program(program: ExportedProgram) -> ExportedProgram:
    """The same program with graphs of its own, at every depth."""
    module, _ = copy_module(program.graph_module)
    return with_module(program, module)


def copy_module(module: fx.GraphModule) -> tuple[fx.GraphModule, dict[fx.Node, fx.Node]]:
    """A copy of a module, those that its branches and loops run included, and which node is which."""
    graph = fx.Graph()
    mapping: dict[fx.Node, fx.Node] = {}
    output = graph.output(graph.graph_copy(module.graph, mapping))
    output.meta = dict(module.graph.output_node().meta)
    for old, new in mapping.items():
        if new.name != old.name:  # torch gives no node the name of a builtin, such as "input"; exports do
            new.name = old.name
    copy = fx.GraphModule(module, graph)
    copy.meta = dict(module.meta)
    for node in graph.find_nodes(op="get_attr"):
        called = getattr(module, node.target, None)
        if isinstance(called, fx.GraphModule):
            setattr(copy, node.target, copy_module(called)[0])
    return copy, mapping


def with_module(
    program: ExportedProgram,
    module: fx.GraphModule,
    *,
    signature: ExportGraphSignature | None = None,
    state_dict: dict[str, Any] | None = None,
    constants: dict[str, Any] | None = None,
    verifiers: list[Any] | None = None,
) -> ExportedProgram:
    """A program with another graph module, and with what is given instead of its own."""
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature or program.graph_signature,
        state_dict=program.state_dict if state_dict is None else state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants if constants is None else constants,
        verifiers=program.verifiers if verifiers is None else verifiers,
    )
