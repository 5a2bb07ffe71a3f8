"""Nodes made and taken away, so that names, shapes and what people trace programs by stay."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from lowtide.operators.schemas import known_name, schema_holder

if TYPE_CHECKING:
    from lowtide.transforms.rewrites.dialect import Dialect

_NOT_COPIED = ("val", "tensor_meta", "spec")


def operator_name(node: Any) -> str:
    """The operator that a node calls, whether it is a view or a copy; empty if it is none that is known."""
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return ""
    found = schema_holder(node.target)
    return "" if found is None else known_name(found).removesuffix("_copy")


def argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    """An argument, wherever it stands in the call."""
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def tensor_of(node: Any) -> torch.Tensor | None:
    """The fake tensor that a node computes if its shape is static and its elements lie in the usual order."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, torch.Tensor) or not all(type(size) is int for size in value.shape):
        return None
    return value if value.is_contiguous() else None


def shape_of(node: Any) -> tuple[int, ...] | None:
    """The shape of such a tensor; None if there is none."""
    value = tensor_of(node)
    return None if value is None else tuple(value.shape)


def bytes_of(value: torch.Tensor) -> int:
    """Bytes of the elements of a tensor."""
    return int(value.numel() * value.itemsize)


def modules_of(module: fx.GraphModule) -> Iterator[fx.GraphModule]:
    """A graph module, and those that its branches and loops run, at every depth; each once."""
    seen: set[int] = set()
    left = [module]
    while left:
        module = left.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield module
        for node in module.graph.find_nodes(op="get_attr"):
            called = getattr(module, node.target, None)
            if isinstance(called, fx.GraphModule):
                left.append(called)


class Editor:
    """Changes one graph.

    Args:
        graph: what is changed.
        dialect: whose operators new nodes call.
    """

    def __init__(self, graph: fx.Graph, dialect: Dialect) -> None:
        self.graph = graph
        self.dialect = dialect
        self._old: dict[fx.Node, None] = {}

    def calls(self, *names: str) -> list[fx.Node]:
        """Nodes that call one of some operators, in order."""
        return [node for node in self.graph.nodes if operator_name(node) in names]

    def call(
        self, name: str, args: Sequence[Any], *, of: fx.Node, overload: str = "default", **kwargs: Any
    ) -> fx.Node:
        """A new node before ``of``, from which it has what people trace it by."""
        return self._make(self.dialect.operator(name, overload), tuple(args), kwargs, of)

    def call_again(self, node: fx.Node, args: Sequence[Any]) -> fx.Node:
        """The call of a node with other positional arguments, before it."""
        return self._make(node.target, tuple(args), dict(node.kwargs), node)

    def first_of(self, node: fx.Node, *, of: fx.Node) -> fx.Node:
        """The first of the tensors that a node returns."""
        return self._make(operator.getitem, (node, 0), {}, of)

    def _make(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], of: fx.Node) -> fx.Node:
        with self.graph.inserting_before(of):
            node = self.graph.call_function(target, args, kwargs)
        node.meta = {key: value for key, value in of.meta.items() if key not in _NOT_COPIED}
        node.meta["val"] = _run_on_fakes(node, of)
        return node

    def replace(self, old: fx.Node, new: fx.Node) -> None:
        """Put a new node in the place of an old one, whose name it gets."""
        value, before = new.meta["val"], old.meta["val"]
        assert value.shape == before.shape
        assert value.dtype == before.dtype
        name = old.name
        old.replace_all_uses_with(new)
        sources = old.all_input_nodes
        self._old.pop(old, None)
        self.graph.erase_node(old)
        new.name = name
        self._old.update(dict.fromkeys(sources))

    def let_go(self, node: fx.Node) -> None:
        """Take a node away at the end if nobody uses it then."""
        self._old[node] = None

    def finish(self) -> None:
        """Take away what only replaced nodes used."""
        left, gone = list(self._old), set[fx.Node]()
        while left:
            node = left.pop()
            if node.op == "call_function" and not node.users and node not in gone and _is_pure(node):
                gone.add(node)
                sources = node.all_input_nodes
                self.graph.erase_node(node)
                left += sources
        self._old = {}
        self.graph.lint()


def is_functional(graph: fx.Graph) -> bool:
    """Whether no operator of a graph writes into its arguments."""
    schemas = (
        getattr(schema_holder(n.target), "_schema", None) for n in graph.nodes if n.op == "call_function"
    )
    return not any(schema is not None and schema.is_mutable for schema in schemas)


def is_random(node: fx.Node) -> bool:
    """Whether a node draws random numbers."""
    found = schema_holder(node.target)
    return found is not None and torch.Tag.nondeterministic_seeded in getattr(found, "tags", ())


def _is_pure(node: fx.Node) -> bool:
    if node.target is operator.getitem:
        return True
    found = schema_holder(node.target)
    return found is not None and not found._schema.is_mutable and not is_random(node)


def _run_on_fakes(node: fx.Node, like: fx.Node) -> Any:
    """What a node computes, as a fake tensor."""
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    if node.target is operator.getitem:
        return args[0][args[1]]
    leaves = [*pytree.tree_leaves((args, kwargs)), *pytree.tree_leaves(like.meta["val"])]
    mode = next(leaf.fake_mode for leaf in leaves if isinstance(leaf, FakeTensor))
    with mode:
        return node.target(*args, **kwargs)
