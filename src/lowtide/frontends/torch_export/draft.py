"""A region while its graph is being walked, and what is read off its nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from lowtide.base.errors import InputError, UnsupportedError
from lowtide.frontends.torch_export.bindings import Position, RegionBinding
from lowtide.frontends.torch_export.calls import CallSignature
from lowtide.ir.program import Region, Step
from lowtide.operators.schemas import schema_holder


@dataclass
class RegionDraft:
    """A region while its graph is being walked."""

    position: int
    name: str
    kind: str
    parent: int | None
    module: fx.GraphModule | None
    params: list[int] = field(default_factory=list)
    placeholders: list[fx.Node] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    nodes: list[fx.Node] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    at: dict[fx.Node, Position] = field(default_factory=dict)
    fakes: dict[fx.Node, Any] = field(default_factory=dict)
    calls: dict[fx.Node, CallSignature] = field(default_factory=dict)

    def freeze(self) -> tuple[Region, RegionBinding]:
        """The region and its binding."""
        region = Region(
            name=self.name,
            params=tuple(self.params),
            steps=tuple(self.steps),
            outputs=tuple(position_of(self, o) for o in self.outputs),
            kind=self.kind,
            parent=self.parent,
        )
        binding = RegionBinding(
            self.module,
            tuple(self.nodes),
            tuple(self.placeholders),
            self.at,
            tuple(self.outputs),
            self.calls,
        )
        return region, binding


def position_of(draft: RegionDraft, argument: Any) -> int | None:
    """Position of one argument or output; None if it holds no tensor."""
    if not isinstance(argument, fx.Node):
        return None
    position = draft.at[argument]
    if isinstance(position, (tuple, dict)):
        raise UnsupportedError(
            f"node {argument.name!r} has several results and is passed on as one: use getitem"
        )
    return position


def attribute_of(draft: RegionDraft, node: fx.Node) -> Any:
    """What a ``get_attr`` node refers to."""
    assert draft.module is not None
    try:
        return attribute(draft.module, str(node.target))
    except AttributeError:
        raise InputError(
            f"node {draft.name}/{node.name}: the graph module has no attribute {node.target!r}"
        ) from None


def attribute(module: Any, path: str) -> Any:
    """The attribute at a dotted path."""
    return functools.reduce(getattr, path.split("."), module)


def positions_of(draft: RegionDraft, arguments: Iterable[Any]) -> tuple[int | None, ...]:
    """Positions of arguments, nested ones flattened; None for what holds no tensor."""
    return tuple(position_of(draft, a) for a in pytree.tree_leaves(list(arguments)))


def called_graph(draft: RegionDraft, argument: Any) -> tuple[fx.GraphModule, str]:
    """A called graph module and its qualified name."""
    module = draft.fakes[argument] if isinstance(argument, fx.Node) else argument
    if not isinstance(module, fx.GraphModule):
        raise UnsupportedError(f"region {draft.name!r}: {argument!r} is called, but it is no graph module")
    if isinstance(argument, fx.Node):
        return module, f"{draft.name}/{argument.target}"
    assert draft.module is not None
    names = [name for name, child in draft.module.named_modules() if child is module]
    return module, f"{draft.name}/{names[0] if names else module._get_name()}"


def module_operands(node: fx.Node, module: fx.GraphModule) -> tuple[Any, ...]:
    """What a ``call_module`` of a graph module passes for each placeholder, bound as Python binds arguments.

    Raises:
        UnsupportedError: it passes more, or less, than the graph takes.
    """
    given, named = list(node.args), dict(node.kwargs)
    found: list[Any] = []
    for placeholder in module.graph.find_nodes(op="placeholder"):
        name = str(placeholder.target)
        if given:
            found.append(given.pop(0))
        elif name in named:
            found.append(named.pop(name))
        elif placeholder.args:
            found.append(placeholder.args[0])
        else:
            raise UnsupportedError(f"node {node.name!r}: {node.target!r} is not given its argument {name!r}")
    if given or named:
        extra = ", ".join([*map(repr, given), *named])
        raise UnsupportedError(f"node {node.name!r}: {node.target!r} does not take the arguments {extra}")
    return tuple(found)


def structured(
    fake: Any, path: str, place: Callable[[str, torch.Tensor, int], int], skip: Callable[[], Any]
) -> Position:
    """Positions in the shape of a fake result; ``place`` makes values, ``skip`` passes over other leaves."""
    count = iter(range(len(pytree.tree_leaves(fake))))

    def visit(item: Any, name: str) -> Position:
        if isinstance(item, (tuple, list)):
            return tuple(visit(x, f"{name}.{i}") for i, x in enumerate(item))
        if isinstance(item, dict):
            return {key: visit(x, f"{name}.{key}") for key, x in item.items()}
        index = next(count)
        if isinstance(item, torch.Tensor):
            return place(name, item, index)
        skip()
        return None

    return visit(fake, path)


def flat(position: Position) -> Iterator[int | None]:
    """The positions in a structured one, in order."""
    if isinstance(position, (tuple, dict)):
        for item in position.values() if isinstance(position, dict) else position:
            yield from flat(item)
    else:
        yield position


def fake_of(draft: RegionDraft, node: fx.Node) -> Any:
    """The fake result of a node.

    Raises:
        InputError: it carries none.
    """
    for key in ("val", "example_value"):
        if key in node.meta:
            return node.meta[key]
    if node.op == "call_function" and _returns_nothing(node.target):
        return None
    raise InputError(
        f"node {draft.name}/{node.name} ({node.target}) carries no fake tensor in meta['val']: "
        "export the program with torch.export.export, or run FakeTensorProp over the graph first"
    )


def _returns_nothing(target: Any) -> bool:
    operator = schema_holder(target)
    return operator is not None and not operator._schema.returns


def is_lowered(module: Any) -> bool:
    """Whether a module was lowered to a delegate."""
    return type(module).__name__ == "LoweredBackendModule"


@functools.cache
def method_called(name: str) -> Callable[..., Any]:
    """A function that calls this method of its first argument."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, name)(*args, **kwargs)

    return method


def function_name(target: Any) -> str:
    """Qualified name of a Python function, such as ``operator.add``."""
    module = str(getattr(target, "__module__", "")).lstrip("_")
    name = str(getattr(target, "__name__", target))
    return f"{module}.{name}" if module else name
