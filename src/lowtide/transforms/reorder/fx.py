"""The order of a Program's steps carried over to the graphs that it was made of.

``reorder_graphs`` is a pass to run before lowering: it moves nodes of an exported program, or of any graph
module that Lowtide reads, and changes nothing else: signature, names and metadata stay, and the graph
computes the same values. What the steps of a Program do not say about nodes is added here: arguments that
are no tensors, random numbers, delegates that may keep state of their own, and assertions on sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator

from lowtide.frontends.torch_export import import_program
from lowtide.operators.schemas import schema_holder
from lowtide.transforms.reorder.reordering import Reordering, reorder

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from lowtide.ir.request import Request

_STRUCTURED = frozenset({"cond", "while_loop", "map_impl", "scan", "associative_scan", "invoke_subgraph"})
"""Higher-order operators that run graphs, and do nothing else."""


def reorder_graphs(
    source: ExportedProgram | fx.GraphModule, request: Request | None = None, **choices: Any
) -> Reordering:
    """Move the nodes of every graph of a program to an order in which fewer bytes are alive.

    The graphs are changed in place, and left alone where no better order is found.

    Args:
        source: an exported program, or a graph module whose nodes carry fake tensors.
        request: what is planned, as for ``import_program``.
        choices: as for ``reorder``.

    Raises:
        InputError, UnsupportedError: the program cannot be read.
    """
    imported = import_program(source, request)
    nodes = [binding.nodes for binding in imported.regions]
    modules = [binding.module for binding in imported.regions]
    edges = {
        region: node_edges(module, {node: step for step, node in enumerate(nodes[region])})
        for region, module in enumerate(modules)
        if module is not None
    }
    found = reorder(imported.program, edges=edges, **choices)
    by_name = {region.name: position for position, region in enumerate(imported.program.regions)}
    for name, order in found.orders.items():
        module = modules[by_name[name]]
        assert module is not None
        move_nodes(module, [nodes[by_name[name]][step] for step in order])
    return found


def node_edges(module: fx.GraphModule, steps: Mapping[fx.Node, int]) -> list[tuple[int, int]]:
    """Pairs of steps of a graph that must keep their order, whatever they do to tensors' bytes.

    Args:
        module: the graph.
        steps: the nodes that are steps, with their positions.
    """
    edges: set[tuple[int, int]] = set()
    nearest: dict[fx.Node, frozenset[int]] = {}
    for node in module.graph.nodes:
        found: set[int] = set()
        for argument in node.all_input_nodes:
            found |= {steps[argument]} if argument in steps else nearest[argument]
        nearest[node] = frozenset(found)
        if node in steps:
            edges |= {(step, steps[node]) for step in found}
    for keeps in (is_random, is_opaque):
        edges.update(pairwise(step for node, step in steps.items() if keeps(node)))
    for node in steps:
        if is_assertion(node):
            edges |= {(steps[node], steps[other]) for other in _guarded(module, node) if other in steps}
    return sorted(edges)


def move_nodes(module: fx.GraphModule, steps: Sequence[fx.Node]) -> None:
    """Put the nodes of a graph in a new order.

    Nodes that are no steps go where they are first possible if they name a result (``getitem``, a view), and
    just before their first user if they take no other node (an allocation, an attribute).

    Args:
        module: the graph, linted and recompiled afterwards.
        steps: all its steps, in the new order.
    """
    graph = module.graph
    place = {node: position for position, node in enumerate(graph.nodes)}
    wanted = set(steps)
    order = dict.fromkeys(graph.find_nodes(op="placeholder"))

    def emit(node: fx.Node) -> None:
        for argument in node.all_input_nodes:
            if argument not in order:
                emit(argument)
        order[node] = None
        follow(node)

    def follow(node: fx.Node) -> None:
        for user in sorted(node.users, key=place.__getitem__):
            names = user not in order and user not in wanted and user.op != "output"
            if names and all(argument in order for argument in user.all_input_nodes):
                emit(user)

    for placeholder in list(order):
        follow(placeholder)
    for step in steps:
        emit(step)
    output = graph.output_node()
    for node in graph.nodes:
        if node is not output and node not in order:
            emit(node)
    for node in order:
        output.prepend(node)
    graph.lint()
    module.recompile()


def is_random(node: fx.Node) -> bool:
    """Whether a node, or a graph that it runs, draws random numbers."""
    return _anywhere(node, _draws)


def is_opaque(node: fx.Node) -> bool:
    """Whether a node, or a graph that it runs, calls something that may keep state of its own: a delegate."""

    def opaque(inner: fx.Node) -> bool:
        target = inner.target
        return isinstance(target, HigherOrderOperator) and target.name() not in _STRUCTURED

    return _anywhere(node, opaque)


def is_assertion(node: fx.Node) -> bool:
    """Whether a node only states what must hold."""
    operator = schema_holder(node.target)
    return operator is not None and not operator._schema.returns and not operator._schema.is_mutable


def _anywhere(node: fx.Node, asked: Callable[[fx.Node], bool]) -> bool:
    """Whether something holds for a node, or for any node of the graphs that it runs."""
    if node.op in ("call_function", "call_method", "call_module") and asked(node):
        return True
    return any(_anywhere(inner, asked) for graph in _graphs_of(node) for inner in graph.graph.nodes)


def _graphs_of(node: fx.Node) -> Iterator[fx.GraphModule]:
    """The graphs that a node runs."""
    owner = node.graph.owning_module
    if owner is None:
        return
    names: Iterable[Any] = [n.target for n in node.all_input_nodes if n.op == "get_attr"]
    for name in [*names, node.target] if node.op == "call_module" else names:
        found: Any = owner
        for part in str(name).split("."):
            found = getattr(found, part, None)
        if isinstance(found, fx.GraphModule):
            yield found


def _draws(node: fx.Node) -> bool:
    """Whether a node draws random numbers, or nobody can tell: a method, a module, a plain function."""
    if node.op != "call_function":
        return node.op == "call_method" or not any(True for _ in _graphs_of(node))
    if isinstance(node.target, HigherOrderOperator) or _is_arithmetic(node.target):
        return False
    holder = schema_holder(node.target)
    if holder is None:
        return getattr(node.target, "__module__", "").partition(".")[0] != "executorch"
    return torch.Tag.nondeterministic_seeded in holder.tags


def _is_arithmetic(target: Any) -> bool:
    """Whether a function works on numbers only."""
    home, name = getattr(target, "__module__", ""), getattr(target, "__name__", "")
    return home in ("_operator", "math", "builtins") or (home == "torch" and name.startswith("sym_"))


def _guarded(module: fx.GraphModule, assertion: fx.Node) -> Iterator[fx.Node]:
    """Nodes behind an assertion that depend on what it is about; tracers need to know it before them."""
    subject: set[fx.Node] = set()
    pending = list(assertion.all_input_nodes)
    while pending:
        node = pending.pop()
        if node not in subject:
            subject.add(node)
            if not isinstance(node.meta.get("val"), torch.Tensor):
                pending += node.all_input_nodes
    behind = False
    for node in module.graph.nodes:
        if any(argument in subject for argument in node.all_input_nodes):
            subject.add(node)
            if behind:
                yield node
        behind |= node is assertion
