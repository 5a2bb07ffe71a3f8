"""Graph edits that the runtime needs before any plan can be right: a few clones, and honest shapes.

Exported programs hardly ever need a clone: ``torch.export`` refuses branches that return an input or one
value twice. Passes that run later may take the clones away that kept it so, and options of the planner may
ask for what the runtime cannot do (see ``add_copies``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir import memory
from executorch.exir.memory_planning import _is_inplace_node
from executorch.exir.schema import TensorShapeDynamism
from executorch.exir.tensor import TensorSpec
from torch import fx
from torch.utils import _pytree as pytree

from lowtide.base.constants import ROOT
from lowtide.base.errors import UnsupportedError
from lowtide.executorch.control_flow import calls_of, graph_of, tree
from lowtide.executorch.specs import mutable_buffers, outputs_of, placeholders_of, spec_of, specs_of

if TYPE_CHECKING:
    from lowtide.ir.program import Program

KEPT_META = ("val", "tensor_meta", "stack_trace", "nn_module_stack", "debug_handle", "from_node")


def declare_stacked(root: fx.GraphModule) -> None:
    """Say before planning what the emitter makes of stacked results: their first dimension grows.

    The emitter declares them dynamic itself, but late: a static view of one then no longer agrees with it,
    and emission fails. Such a view gets a spec without a place, which the runtime points at the right bytes.

    Raises:
        UnsupportedError: a stacked result has no bound.
    """
    for name, module in tree(root, ROOT):
        stacked: set[Any] = set()
        for node, called in calls_of(module):
            if called.kind != "scan":
                continue
            for spec in specs_of(node)[len(called.inits) :]:
                if spec is not None:
                    if spec.is_dynamic_unbound_tensor:
                        raise UnsupportedError(
                            f"node {name}/{node.name}: a stacked result without a bound cannot be filled: "
                            "give its dynamic dimensions a max when exporting"
                        )
                    stacked.add(spec)
        if stacked:
            # Before the base changes: a view's spec can only be read while it agrees with its base.
            for node in module.graph.find_nodes(op="call_function", target=memory.view):
                if spec_of(node) in stacked:
                    node.meta["spec"] = _growing(node.meta["spec"])
        for spec in stacked:
            spec.shape_dynamism = TensorShapeDynamism.DYNAMIC_BOUND


def _growing(view: Any) -> Any:
    """A spec with the shape of a view, declared dynamic, with no place."""
    spec = fresh_spec(view)
    spec.shape_dynamism = TensorShapeDynamism.DYNAMIC_BOUND
    return spec


def fresh_spec(spec: Any) -> Any:
    """A new spec of the same shape, type and device, in no place yet."""
    new = TensorSpec(spec.dtype, torch.Size(spec.shape), spec.layout, spec.is_sparse)
    new.stride, new.dim_order = spec.stride, spec.dim_order
    new.shape_dynamism = spec.shape_dynamism
    new.device, new.device_index = spec.device, spec.device_index
    return new


def add_copies(root: fx.GraphModule, signature: Any, *, plan_inputs: bool, plan_outputs: bool) -> list[str]:
    """Put a clone wherever the runtime would otherwise hand on the wrong tensor.

    ============================================  =====================================================
    a branch returns its input, a constant, or    the result would be that very tensor, and its bytes
    one value twice, or changes it in place       those of something that lives on
    a scan body returns a carry, or a view of     carries are copied one after the other, then rows: it
    one, and an earlier copy has changed it       would be the new value
    the program returns a cond's result, and      the caller sets the output's pointer, the runtime
    its outputs are not planned                   moves it, and the next caller's is set on a branch's
    the program returns one value twice, and      the value has one pointer, and the caller sets two
    its outputs are not planned
    the program returns its input, and not        the caller sets the pointer of the output, and with it
    both inputs and outputs are planned           that of the input
    ============================================  =====================================================

    Args:
        root: the method's graph module.
        signature: tells inputs from state; None if there is none.
        plan_inputs, plan_outputs: whether inputs and outputs get a place in the arena.

    Returns:
        What was cloned and why, one line each.

    Raises:
        UnsupportedError: two conds share one branch.
    """
    notes = []
    moved: set[Any] = set()
    seen: set[int] = set()
    for name, module in tree(root, ROOT):
        for node, called in calls_of(module):
            for graph in called.graphs:
                child = graph_of(module, graph)
                if called.kind == "cond":
                    if id(child) in seen:
                        raise UnsupportedError(
                            f"{name}/{graph.target}: two conds share one branch: give each a copy of it"
                        )
                    notes += _copy_outputs(child, f"{name}/{graph.target}", _not_made_here)
                    moved |= {spec for spec in specs_of(node) if spec is not None}
                elif called.inits:
                    notes += _hold_carries(child, f"{name}/{graph.target}", len(called.inits))
                seen.add(id(child))
    state = mutable_buffers(signature)

    def is_handed_over(node: fx.Node, seen: set[Any]) -> bool:
        """Whether the caller provides memory for an output that the runtime does not write there."""
        spec, origin = spec_of(node), _origin(node, _is_inplace_node)
        if spec.const or origin.target in state:
            return False
        if origin.op == "placeholder":
            return not (plan_inputs and plan_outputs)
        again = spec in seen
        seen.add(spec)
        return not plan_outputs and (again or spec in moved)

    return notes + _copy_outputs(root, ROOT, is_handed_over)


def _origin(node: fx.Node, same: Callable[[fx.Node], bool]) -> fx.Node:
    """The node that a tensor was before those that only write into it, or show it, as a rule says."""
    while node.op == "call_function" and same(node):
        node = node.args[0]
    return node


def _hold_carries(body: fx.GraphModule, name: str, carried: int) -> list[str]:
    """Clone those carries that a scan's body returns and the runtime copies when they are new already."""
    copied = {node: i for i, node in enumerate(placeholders_of(body)[:carried])}
    last = {node: position for position, node in enumerate(outputs_of(body)) if isinstance(node, fx.Node)}

    def is_changed_before(node: fx.Node, _: set[Any]) -> bool:
        origin = _origin(node, lambda n: n.target is memory.view or _is_inplace_node(n))
        return origin in copied and copied[origin] < last[node]

    return _copy_outputs(body, name, is_changed_before)


def _not_made_here(node: fx.Node, seen: set[Any]) -> bool:
    """Whether a branch's output is anything but a tensor of its own, returned for the first time."""
    spec = spec_of(node)
    if node.op != "call_function" or node.target is memory.view or _is_inplace_node(node) or spec in seen:
        return True
    seen.add(spec)
    return False


def _copy_outputs(module: fx.GraphModule, name: str, wants: Any) -> list[str]:
    """Clone those outputs of a graph that a rule asks for."""
    output = module.graph.output_node()
    seen: set[Any] = set()
    notes = []
    replaced = []
    for returned in outputs_of(module):
        if isinstance(returned, fx.Node) and spec_of(returned) is not None and wants(returned, seen):
            notes.append(f"{name} returns a copy of {returned.name}")
            returned = clone_before(output, returned)
        replaced.append(returned)
    if notes:
        structure = pytree.tree_structure(output.args[0])
        output.args = (pytree.tree_unflatten(replaced, structure),)
        output.meta["spec"] = pytree.tree_map(_spec_or_none, output.args[0])
        module.recompile()
    return notes


def _spec_or_none(argument: Any) -> Any:
    return argument.meta.get("spec") if isinstance(argument, fx.Node) else None


def clone_before(at: fx.Node, source: fx.Node) -> fx.Node:
    """Insert a real copy of a tensor before a node; the node that makes it."""
    graph = at.graph
    spec = fresh_spec(source.meta["spec"])
    with graph.inserting_before(at):
        alloc = graph.call_function(memory.alloc, ((tuple(spec.shape), spec.dtype),))
        copy = graph.call_function(
            torch.ops.dim_order_ops._clone_dim_order.out,
            (source,),
            {"dim_order": [int(d) for d in spec.dim_order], "out": alloc},
        )
    for node in (alloc, copy):
        node.meta.update({key: source.meta[key] for key in KEPT_META if key in source.meta})
        node.meta["spec"] = spec
    return copy


def held_carries(program: Program) -> Iterator[str]:
    """What of a program's loops cannot share a carry's bytes, though it is a copy of it; one line each.

    The runtime copies a carry before it copies them, and they hold what it was.
    """
    for region in program.regions:
        for step in region.steps:
            if step.call is None or step.call.order != "sequential" or not step.call.carries:
                continue
            (body,) = (program.regions[callee] for callee in step.call.regions)
            carries = {param: i for i, param in enumerate(body.params[: len(step.call.carries)])}
            last = {output: position for position, output in enumerate(body.outputs)}
            for inside in body.steps:
                for match in inside.matches:
                    changed = carries.get(match.outer)
                    if changed is not None and changed < last.get(match.inner, -1):
                        yield (
                            f"{body.name}/{inside.name} holds {program.values[match.outer].name}, "
                            "which an earlier copy changes at the end of each round"
                        )


def refresh_outputs(modules: Iterable[fx.GraphModule]) -> None:
    """Let output nodes list the specs that their arguments have now."""
    for module in modules:
        output = module.graph.output_node()
        output.meta["spec"] = pytree.tree_map(_spec_or_none, output.args[0])
