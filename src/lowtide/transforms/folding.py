"""Constant folding: what depends on parameters and constants alone is computed ahead of time.

A weight that is transposed at run time, a mask, a table of positions: each needs arena bytes in every run,
and may stand beside whatever else is alive then. Computed once, it is a constant of the file instead, and
takes no arena. The file grows by what is folded and shrinks by parameters that nobody uses any more; what is
equal counts once, as a ``.pte`` stores it once. A limit says how far the file may grow.

Not one output bit changes: only such operators are folded as give the same bits in every library, because
they move elements, select among them, or round once as IEEE 754 demands. A sine or a sum of floats is none.
"""

from __future__ import annotations

import hashlib
import operator
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.utils import _pytree as pytree

from lowtide.base.errors import InputError
from lowtide.transforms.copying import copy_module, with_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Content = tuple[int, bytes]
"""Bytes of a constant: how many, and their digest."""

_SPACES = frozenset({"aten", "dim_order_ops"})

# fmt: off
_MOVES = frozenset(
    [
        "alias", "as_strided", "cat", "clone", "clone_dim_order", "constant_pad_nd", "contiguous", "detach",
        "diagonal", "embedding", "expand", "flip", "gather", "index", "index_select", "lift_fresh", "narrow",
        "permute", "pixel_shuffle", "pixel_unshuffle", "repeat", "reshape", "roll", "select", "slice",
        "select_scatter", "slice_scatter", "split", "split_with_sizes", "squeeze", "stack", "t", "transpose",
        "tril", "triu", "unbind", "unfold", "unsafe_view", "unsqueeze", "view",
    ]
)
"""These move elements, and change none."""

_ROUNDED_ONCE = frozenset(
    [
        "add", "arange", "ceil", "div", "eq", "floor", "full", "full_like", "ge", "gt", "le", "lt",
        "masked_fill", "mul", "ne", "neg", "ones", "ones_like", "rsub", "scalar_tensor", "sqrt", "sub", "to",
        "to_copy", "to_dim_order_copy", "trunc", "where", "zeros", "zeros_like",
    ]
)
"""Of floats too these are what IEEE 754 says, if the numbers that they are given are."""

_OF_INTEGERS = frozenset(
    [
        "abs", "all", "amax", "amin", "any", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
        "clamp", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "relu",
        "sign",
    ]
)
"""Libraries differ in what they make of NaN, negative zeros and half precision."""
# fmt: on
_PLAIN = (
    torch.float32,
    torch.float64,
    torch.int32,
    torch.int64,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


STEP_BYTES = 64
"""What a step takes in a file at the least, with the tensor that it makes: a ``.pte`` has over 150 bytes for
both (an instruction, its arguments, a value, shape and order of a tensor), a ``.pt2`` several hundred."""


@dataclass(frozen=True)
class Folded:
    """A program with its constants computed.

    Args:
        program: the new program; the given one is unchanged.
        steps: names of the nodes that no longer run.
        constants: bytes of each new constant, by the name of the node that computed it; nodes that compute
            one and the same tensor share the constant of the first.
        file_bytes: by how much the constants of the program grow, equal bytes counted once; negative if they
            shrink.
    """

    program: ExportedProgram
    steps: tuple[str, ...]
    constants: dict[str, int]
    file_bytes: int


def fold_constants(program: ExportedProgram, *, limit: int | None = None, dense: bool = False) -> Folded:
    """Compute what depends on parameters and constants alone.

    Random numbers, operators that write into their arguments, and what a branch or loop computes stay.

    Args:
        program: an export, in ATen's or the edge dialect.
        limit: bytes by which the file may grow in all: its constants, less what the steps took that are gone
            (``STEP_BYTES`` each); None for as much as it takes. What would grow it most is given up first.
        dense: whether views in another order of dimensions become constants in the usual order. Runtimes
            without views copy such a view at every run; PyTorch's kernels may round it differently then.

    Raises:
        InputError: the limit is negative.
    """
    if limit is not None and limit < 0:
        raise InputError(f"limit {limit}: constants cannot be asked to grow by less than nothing")
    contents = _Contents(_evaluate(program))
    values = contents.values
    kept: set[fx.Node] = set()  # computed at run time after all
    choice = _choose(program, contents, kept, dense)
    while limit is not None and choice.file_growth > limit and choice.frontier:
        # Give up what brings the growth down most; of what brings it down alike, the smallest.
        tried = [
            (size, nodes, _choose(program, contents, kept | nodes, dense))
            for size, nodes in _what_to_give_up(contents, choice)
        ]
        _, given_up, choice = min(tried, key=lambda trial: (trial[2].file_growth, trial[0]))
        kept |= given_up
    folded, frontier, growth = choice.folded, choice.frontier, choice.growth
    shared = contents.shared(frontier)
    constants = {node.name: _bytes(values[node]) for node in dict.fromkeys(shared.values())}
    steps = tuple(node.name for node in program.graph.nodes if node in folded and node.op == "call_function")
    if not frontier:
        return Folded(program, (), {}, 0)
    return Folded(_rewrite(program, shared, values), steps, constants, growth)


class _Contents:
    """What constants hold: equal bytes are one content, whatever their type and shape.

    Args:
        values: every node that is the same in every run, with what it computes.
    """

    def __init__(self, values: Mapping[fx.Node, Any]) -> None:
        self.values = values
        self._known: dict[fx.Node, Content] = {}

    def of(self, node: fx.Node) -> Content:
        """Size and digest of the bytes of a node's tensor."""
        if node not in self._known:
            tensor = self.values[node]
            flat = tensor.contiguous().reshape(-1).view(torch.uint8)
            self._known[node] = (_bytes(tensor), hashlib.sha256(flat.cpu().numpy()).digest())
        return self._known[node]

    def total(self, nodes: Iterable[fx.Node]) -> int:
        """Bytes of the constants that some nodes are, equal ones once."""
        return sum(size for size, _ in {self.of(node) for node in nodes})

    def shared(self, nodes: Iterable[fx.Node]) -> dict[fx.Node, fx.Node]:
        """For each of some nodes the first of them that computes the same tensor."""
        first: dict[tuple[Content, torch.dtype, torch.Size], fx.Node] = {}
        found = {}
        for node in nodes:
            tensor = self.values[node]
            found[node] = first.setdefault((self.of(node), tensor.dtype, tensor.shape), node)
        return found


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
    return found | _sharing_bytes(program, found)


def _sharing_bytes(program: ExportedProgram, written: set[fx.Node]) -> set[fx.Node]:
    """Constants that are other names for bytes that are written."""
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs if spec.kind in _CONSTANTS}
    places: dict[fx.Node, int] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in specs:
            tensor = _tensor_of(program, specs[node.name])
            if isinstance(tensor, torch.Tensor):
                places[node] = tensor.untyped_storage().data_ptr()
    taken = {place for node, place in places.items() if node in written and place}
    return {node for node, place in places.items() if place in taken}


def _is_pure(node: fx.Node) -> bool:
    """Whether a node computes the same bits from the same in every library, and does nothing else."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable or not schema.returns:
        return False
    space, name = schema.name.split("::")
    if space not in _SPACES:  # whoever made the operator knows what it does, and nobody else
        return False
    name = name.lstrip("_")
    names = {name, name.removesuffix("_copy")}
    if names & _MOVES:
        return True
    tensors = [source.meta.get("val") for source in (*node.all_input_nodes, node)]
    types = [tensor.dtype for tensor in tensors if isinstance(tensor, torch.Tensor)]
    scalars = [leaf for leaf in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(leaf, float)]
    if not any(type.is_floating_point or type.is_complex for type in types) and not scalars:
        return bool(names & (_ROUNDED_ONCE | _OF_INTEGERS))
    return bool(names & _ROUNDED_ONCE) and _is_ieee(node, name, types, scalars)


def _is_ieee(node: fx.Node, name: str, types: list[torch.dtype], scalars: list[float]) -> bool:
    """Whether arithmetic on floats leaves nothing to a library: no half precision, no hidden rounding."""
    if any(type not in _PLAIN for type in types) or not all(_fits_float(scalar) for scalar in scalars):
        return False
    if name == "arange":  # whether steps are added up or multiplied is every library's own business
        return False
    if name in ("add", "sub", "rsub"):  # a factor may be fused with the sum, and rounded with it
        given = node.args[2] if len(node.args) > 2 else node.kwargs.get("alpha", 1)
        return bool(given == 1)
    return name != "div" or node.kwargs.get("rounding_mode") is None


def _fits_float(scalar: float) -> bool:
    """Whether a number is one in single precision too: then nobody rounds it on the way."""
    try:
        return scalar != scalar or struct.unpack("f", struct.pack("f", scalar))[0] == scalar
    except OverflowError:
        return False


@dataclass(frozen=True)
class _Choice:
    """What is folded, what of it becomes a constant, and by how many bytes the constants grow."""

    folded: dict[fx.Node, None]
    frontier: list[fx.Node]
    growth: int

    @property
    def file_growth(self) -> int:
        """Bytes by which the file grows at the most."""
        return self.growth - STEP_BYTES * len(self.folded)


def _choose(program: ExportedProgram, contents: _Contents, kept: set[fx.Node], dense: bool) -> _Choice:
    """Fold all that can be, but for some nodes, and for what cannot become a constant."""
    kept, values = set(kept), contents.values
    while True:
        folded = {
            node: None
            for node in program.graph.nodes
            if node.op == "call_function" and node in values and node not in kept
        }
        frontier = [node for node in folded if any(user not in folded for user in node.users)]
        unfit = [node for node in frontier if not _may_be_constant(node, dense)]
        if not unfit:
            break
        kept.update(unfit)
    gone = _unused(program, folded)
    before = [node for node in values if node.op == "placeholder"]
    after = [*(node for node in before if node not in gone), *frontier]
    return _Choice(folded, frontier, contents.total(after) - contents.total(before))


def _what_to_give_up(contents: _Contents, choice: _Choice) -> Iterator[tuple[int, set[fx.Node]]]:
    """Sets of nodes that could be computed at run time after all, with the bytes of the constant saved.

    Nodes whose constants are equal go together: one of them alone would save nothing. They go alone, so that
    what they are computed from becomes the constant, and with all that.
    """
    equal: dict[Content, set[fx.Node]] = {}
    for node in choice.frontier:
        equal.setdefault(contents.of(node), set()).add(node)
    for (size, _), nodes in equal.items():
        yield size, nodes
        behind, left = set(nodes), list(nodes)
        while left:
            for source in left.pop().all_input_nodes:
                if source in choice.folded and source not in behind:
                    behind.add(source)
                    left.append(source)
        if behind != nodes:
            yield size, behind


def _may_be_constant(node: fx.Node, dense: bool) -> bool:
    """A plain tensor, in the usual order of its dimensions or put in it, that is not what is returned."""
    value = node.meta.get("val")
    returned = any(user.op == "output" for user in node.users)
    return isinstance(value, torch.Tensor) and (dense or value.is_contiguous()) and not returned


def _unused(program: ExportedProgram, folded: Mapping[fx.Node, None]) -> set[fx.Node]:
    """Constants that nothing uses but what is folded, under none of their names."""
    found: dict[fx.Node, str] = {}
    used: set[str] = set()
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind not in _CONSTANTS or spec.target is None:
            continue
        node = nodes[spec.arg.name]
        if node.users and all(user in folded for user in node.users):
            found[node] = spec.target
        else:
            used.add(spec.target)
    return {node for node, name in found.items() if name not in used}


def _bytes(value: Any) -> int:
    return int(value.numel() * value.element_size()) if isinstance(value, torch.Tensor) else 0


def _rewrite(
    program: ExportedProgram, shared: Mapping[fx.Node, fx.Node], values: Mapping[fx.Node, Any]
) -> ExportedProgram:
    """The program with some nodes turned into constants, and without what nobody needs then.

    Args:
        shared: for each of these nodes the one whose constant it takes.
        values: the tensors of the constants.
    """
    module, mapping = copy_module(program.graph_module)
    graph, signature = module.graph, program.graph_signature
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    used_before = {node.name for node in placeholders if node.users}
    user = {spec.arg.name for spec in signature.input_specs if spec.kind not in _CONSTANTS}
    first = next((node for node in placeholders if node.name in user), None)
    anchor = first or next(node for node in graph.nodes if node.op != "placeholder")
    constants, added = dict(program.constants), []
    taken = {node.name for node in graph.nodes} | constants.keys() | program.state_dict.keys()
    taken |= {spec.target for spec in signature.input_specs if spec.target is not None}
    constant_of: dict[fx.Node, fx.Node] = {}
    for old, owner in shared.items():
        node = mapping[old]
        if owner in constant_of:
            node.replace_all_uses_with(constant_of[owner])
            continue
        with graph.inserting_before(anchor):
            constant = graph.placeholder(_free_name(taken, f"folded_{node.name}"))
        taken.add(constant.name)
        constant.meta = {**node.meta, "val": node.meta["val"].contiguous()}
        node.replace_all_uses_with(constant)
        constant_of[owner] = constant
        constants[constant.name] = values[owner].contiguous()
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


def _free_name(taken: set[str], wanted: str) -> str:
    name, number = wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name
