"""What ExecuTorch keeps about a tensor: its ``TensorSpec``, and which node has which.

One spec is one tensor of the emitted program: nodes that share a spec share its bytes. A view that costs
nothing (``memory.view``) has a spec of its own, whose place is that of what it is a view of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executorch.exir import memory
from executorch.exir.tensor import TensorSpec
from torch import fx
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

from lowtide.ir.problem import align_up


def specs_of(node: fx.Node) -> list[Any]:
    """Specs of a node's result, flat; None for what is no tensor. A view's are those of its base."""
    while node.op == "call_function" and node.target is memory.view:
        node = node.args[0]
    spec = node.meta.get("spec")
    if isinstance(spec, TensorSpec):
        return [spec]
    leaves = (spec,) if spec is None else pytree.tree_leaves(spec)
    return [leaf if isinstance(leaf, TensorSpec) else None for leaf in leaves]


def spec_of(argument: Any) -> Any:
    """The only spec of an argument; None if it is no tensor."""
    if not isinstance(argument, fx.Node):
        return None
    specs = specs_of(argument)
    return specs[0] if len(specs) == 1 else None


def own_spec_of(argument: Any) -> Any:
    """As ``spec_of``, but a view's is its own, which says how its elements lie; its place is its base's."""
    base = spec_of(argument)
    spec = argument.meta.get("spec") if base is not None else None
    return spec if isinstance(spec, TensorSpec) else base


def nodes_in(argument: Any) -> list[fx.Node]:
    """All nodes in an argument, however deep, in order."""
    if isinstance(argument, fx.Node):
        return [argument]
    if isinstance(argument, dict):
        argument = argument.values()
    elif not isinstance(argument, (list, tuple)):
        return []
    return [node for item in argument for node in nodes_in(item)]


def mutable_buffers(signature: Any) -> frozenset[str]:
    """Names of the placeholders that are mutable buffers; none without a signature."""
    if signature is None:
        return frozenset()
    mutated = set(signature.buffers_to_mutate.values())
    return frozenset(name for name, buffer in signature.inputs_to_buffers.items() if buffer in mutated)


def outputs_of(module: fx.GraphModule) -> list[Any]:
    """What a graph returns, flat: nodes, or constants such as None."""
    return list(pytree.tree_leaves(module.graph.output_node().args[0]))


def dropped_outputs(signature: Any) -> frozenset[int]:
    """Positions of outputs that no caller gets: new values of mutable buffers, which the emitter drops."""
    specs = () if signature is None else signature.output_specs
    return frozenset(i for i, spec in enumerate(specs) if spec.kind is OutputKind.BUFFER_MUTATION)


def placeholders_of(module: fx.GraphModule) -> list[fx.Node]:
    """A graph's inputs in order."""
    return list(module.graph.find_nodes(op="placeholder"))


def view_base(node: fx.Node) -> Any:
    """The spec whose place the spec of a ``memory.view`` node reports as its own.

    It is usually that of the node's argument, but not where a pass has given that node another spec since.
    """
    spec = node.meta["spec"]
    while hasattr(type(spec), "_run_guards"):
        spec = spec._base
    return spec


def size_of(spec: Any, alignment: int) -> int | None:
    """Bytes to reserve, rounded up to the alignment; None if there is no bound."""
    if spec.is_dynamic_unbound_tensor:
        return None
    return align_up(int(spec.nbytes()), alignment)


def layout_of(spec: Any, shape: Sequence[Any] | None = None) -> str:
    """How elements lie in the bytes; empty where that is known at run time only.

    Args:
        spec: what says so of a static shape.
        shape: as it was exported, with symbols. Where these are equal, the shapes are at run time.
    """
    if not spec.is_static_shape_tensor:
        if shape is None or spec.is_dynamic_unbound_tensor or all(type(d) is int for d in shape):
            return ""  # a stacked result, which grows, has no symbols
        return f"{spec.dtype}/({', '.join(map(str, shape))})/{tuple(spec.dim_order)}"
    return f"{spec.dtype}/{tuple(spec.shape)}/{tuple(spec.dim_order)}"


def layouts_of(node: fx.Node) -> list[str]:
    """As ``layout_of``, for each of a node's results; empty for what is no tensor. A view's is its own."""
    if node.op == "call_function" and node.target is memory.view:
        spec = node.meta["spec"]
        specs = [spec if isinstance(spec, TensorSpec) else None]
    else:
        specs = specs_of(node)
    exported = pytree.tree_leaves(node.meta.get("val"))
    shapes = [getattr(leaf, "shape", None) for leaf in exported] if len(exported) == len(specs) else []
    shapes = shapes or [None] * len(specs)
    return ["" if s is None else layout_of(s, shape) for s, shape in zip(specs, shapes, strict=True)]


class Groups:
    """Disjoint sets of specs that are one block of bytes. The first spec of a set stands for it."""

    def __init__(self) -> None:
        self._leader: dict[Any, Any] = {}
        self._members: dict[Any, list[Any]] = {}

    def find(self, spec: Any) -> Any:
        """The spec that stands for this one's set."""
        return self._leader.get(spec, spec)

    def join(self, first: Any, second: Any) -> None:
        """Make two sets one; the leader of the first stays."""
        first, second = self.find(first), self.find(second)
        if first is second:
            return
        moved = self._members.pop(second, [second])
        self._members.setdefault(first, [first]).extend(moved)
        for spec in moved:
            self._leader[spec] = first

    def members(self, spec: Any) -> tuple[Any, ...]:
        """All specs of a set."""
        leader = self.find(spec)
        return tuple(self._members.get(leader, [leader]))
