"""Constant folding: what depends on parameters and constants alone is computed ahead of time.

A weight that is transposed at run time, a mask, a table of positions: each needs arena bytes in every run,
and may stand beside whatever else is alive then. Computed once, it is a constant of the file instead, and
takes no arena. The file grows by what is folded and shrinks by parameters that nobody uses any more; a limit
says how far it may grow.

Not one output bit changes: only such operators are folded as give the same bits in every library, because
they move elements, select among them, or round once as IEEE 754 demands. A sine or a sum of floats is none.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.utils import _pytree as pytree

from lowtide.errors import InputError
from lowtide.transforms.copying import copy_module, with_module

if TYPE_CHECKING:
    from collections.abc import Mapping

# fmt: off
_EXACT = frozenset(
    [
        # moved elements
        "alias", "as_strided", "cat", "clone", "constant_pad_nd", "contiguous", "detach", "diagonal",
        "embedding", "expand", "flip", "gather", "index", "index_select", "lift_fresh", "narrow", "permute",
        "pixel_shuffle", "pixel_unshuffle", "repeat", "reshape", "roll", "select", "select_scatter",
        "slice", "slice_scatter", "split", "split_with_sizes", "squeeze", "stack", "t", "transpose",
        "unbind", "unfold", "unsafe_view", "unsqueeze", "view",
        # made of numbers, and other types
        "arange", "full", "full_like", "ones", "ones_like", "scalar_tensor", "to", "to_copy",
        "to_dim_order_copy", "zeros", "zeros_like", "clone_dim_order",
        # rounded once
        "abs", "add", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "ceil", "clamp", "div",
        "eq", "floor", "ge", "gt", "le", "logical_and", "logical_not", "logical_or", "logical_xor", "lt",
        "masked_fill", "maximum", "minimum", "mul", "ne", "neg", "relu", "rsub", "sign", "sqrt", "sub",
        "tril", "triu", "trunc", "where",
        # of integers and truth values
        "all", "amax", "amin", "any",
    ]
)
# fmt: on
_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass(frozen=True)
class Folded:
    """A program with its constants computed.

    Args:
        program: the new program; the given one is unchanged.
        steps: names of the nodes that no longer run.
        constants: bytes of each new constant, by the name of the node that computed it.
        file_bytes: by how much the constants of the program grow; negative if they shrink.
    """

    program: ExportedProgram
    steps: tuple[str, ...]
    constants: dict[str, int]
    file_bytes: int


def fold_constants(program: ExportedProgram, *, limit: int | None = None) -> Folded:
    """Compute what depends on parameters and constants alone.

    Random numbers, operators that write into their arguments, and what a branch or loop computes stay.

    Args:
        program: an export, in ATen's or the edge dialect.
        limit: bytes by which the constants may grow in all; None for as much as it takes. What would grow
            them most is given up first.

    Raises:
        InputError: the limit is negative.
    """
    if limit is not None and limit < 0:
        raise InputError(f"limit {limit}: constants cannot be asked to grow by less than nothing")
    values = _evaluate(program)
    kept: set[fx.Node] = set()  # computed at run time after all
    while True:
        folded = _foldable(program, values, kept)
        frontier = _frontier(folded)
        gone = _unused(program, folded)
        growth = sum(_bytes(values[node]) for node in frontier) - sum(map(_bytes, gone.values()))
        if limit is None or growth <= limit or not frontier:
            break
        kept.add(max(frontier, key=lambda node: _bytes(values[node])))
    constants = {node.name: _bytes(values[node]) for node in frontier}
    steps = tuple(node.name for node in program.graph.nodes if node in folded and node.op == "call_function")
    if not frontier:
        return Folded(program, (), {}, 0)
    return Folded(_rewrite(program, {node: values[node] for node in frontier}), steps, constants, growth)


def _evaluate(program: ExportedProgram) -> dict[fx.Node, Any]:
    """The value of every node that is the same in every run: constants, and what is computed from them."""
    values: dict[fx.Node, Any] = {}
    varying = _written(program)
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs if spec.kind in _CONSTANTS}
    with torch.no_grad():
        for node in program.graph.nodes:
            if node in varying:
                continue
            if node.op == "placeholder" and node.name in specs:
                found = _tensor_of(program, specs[node.name])
                if isinstance(found, torch.Tensor):
                    values[node] = found.detach()
            elif _is_pure(node) and all(source in values for source in node.all_input_nodes):
                args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
                found = node.target(*args, **kwargs)
                if all(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(found)):
                    values[node] = found
    return values


def _tensor_of(program: ExportedProgram, spec: InputSpec) -> Any:
    found = program.constants.get(spec.target)
    return program.state_dict.get(spec.target) if found is None else found


def _written(program: ExportedProgram) -> set[fx.Node]:
    """Nodes whose bytes something writes into, directly or through a view; state that a run changes too."""
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    changed = [
        node
        for node in program.graph.nodes
        if node.op == "placeholder" and signature.inputs_to_buffers.get(node.name) in mutated
    ]
    for node in program.graph.nodes:
        if node.op == "call_function":
            schema = getattr(node.target, "_schema", None)
            if schema is None and node.target is not operator.getitem:
                changed += node.all_input_nodes  # it runs graphs, or nobody knows what it does
            elif schema is not None and schema.is_mutable:
                changed += node.all_input_nodes
    found: set[fx.Node] = set()
    while changed:
        node = changed.pop()
        if node not in found:
            found.add(node)
            changed += node.all_input_nodes
    return found


def _is_pure(node: fx.Node) -> bool:
    """Whether a node computes the same bits from the same in every library, and does nothing else."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable or not schema.returns:
        return False
    name = schema.name.split("::")[1].lstrip("_")
    if name not in _EXACT and name.removesuffix("_copy") not in _EXACT:
        return False
    # Whether steps of a range are added up or multiplied is every library's own business.
    return name != "arange" or not node.meta["val"].is_floating_point()


def _foldable(
    program: ExportedProgram, values: Mapping[fx.Node, Any], kept: set[fx.Node]
) -> dict[fx.Node, None]:
    """Nodes that need not run: whatever only folded nodes use, and what becomes a constant itself."""
    found: dict[fx.Node, None] = {}
    for node in program.graph.nodes:
        if node.op == "call_function" and node in values and node not in kept:
            found[node] = None
    return found


def _frontier(folded: Mapping[fx.Node, None]) -> list[fx.Node]:
    """Folded tensors that something uses that still runs: these become constants."""
    return [
        node
        for node in folded
        if not isinstance(node.meta.get("val"), (tuple, list))
        and any(user not in folded for user in node.users)
    ]


def _unused(program: ExportedProgram, folded: Mapping[fx.Node, None]) -> dict[str, torch.Tensor]:
    """Constants, by their names in the program, that nothing uses but what is folded."""
    found: dict[str, torch.Tensor] = {}
    used: set[str] = set()
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind not in _CONSTANTS or spec.target is None:
            continue
        node = nodes[spec.arg.name]
        tensor = _tensor_of(program, spec)
        if node.users and all(user in folded for user in node.users) and isinstance(tensor, torch.Tensor):
            found[spec.target] = tensor
        else:
            used.add(spec.target)
    return {name: tensor for name, tensor in found.items() if name not in used}


def _bytes(value: Any) -> int:
    return int(value.numel() * value.element_size()) if isinstance(value, torch.Tensor) else 0


def _rewrite(program: ExportedProgram, computed: Mapping[fx.Node, torch.Tensor]) -> ExportedProgram:
    """The program with some nodes turned into constants, and without what nobody needs then."""
    module, mapping = copy_module(program.graph_module)
    graph, signature = module.graph, program.graph_signature
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    used_before = {node.name for node in placeholders if node.users}
    user = {spec.arg.name for spec in signature.input_specs if spec.kind not in _CONSTANTS}
    first = next((node for node in placeholders if node.name in user), None)
    anchor = first or next(node for node in graph.nodes if node.op != "placeholder")
    constants, added = dict(program.constants), []
    for old, tensor in computed.items():
        node = mapping[old]
        with graph.inserting_before(anchor):
            constant = graph.placeholder(_free_name(constants, f"folded_{node.name}"))
        constant.meta = dict(node.meta)
        node.replace_all_uses_with(constant)
        constants[constant.name] = tensor.contiguous() if tensor.is_contiguous() else tensor.clone()
        added.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(constant.name), constant.name, None))
    graph.eliminate_dead_code()
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    specs = []
    for spec in signature.input_specs:
        name = spec.arg.name
        if spec.kind in _CONSTANTS and name in used_before and not nodes[name].users:
            graph.erase_node(nodes[name])
        else:
            specs.append(spec)
    position = next((i for i, spec in enumerate(specs) if spec.kind not in _CONSTANTS), len(specs))
    specs[position:position] = added
    targets = {spec.target for spec in specs}
    graph.lint()
    module.recompile()
    return with_module(
        program,
        module,
        signature=type(signature)(specs, list(signature.output_specs)),
        state_dict={name: value for name, value in program.state_dict.items() if name in targets},
        constants={name: value for name, value in constants.items() if name in targets},
    )


def _free_name(taken: Mapping[str, Any], wanted: str) -> str:
    name, number = wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name
