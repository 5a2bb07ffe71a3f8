"""Every allocation that ExecuTorch's runtime makes when it loads a method, in its order.

What ``Method::load`` and all that it calls take from the method allocator, and from the pool for temporary
memory. Both only move a pointer up, so order and alignment decide how much is taken. ``Program::load`` takes
nothing from either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lowtide.frontends.pte.structures import MOST_DIMENSIONS
from lowtide.ir.problem import align_up

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lowtide.frontends.pte.methods import Method, PteInstruction
    from lowtide.frontends.pte.reading import PteFile
    from lowtide.frontends.pte.structures import Runtime, Structure


class Allocation(NamedTuple):
    """One request to an allocator.

    Args:
        what: the kind of memory, for reports.
        size, alignment: bytes.
    """

    what: str
    size: int
    alignment: int


@dataclass(frozen=True)
class Target:
    """Where a method is loaded.

    Args:
        structures: sizes there.
        runtime: which loads it.
        pool: bytes of the pool for temporary memory; None if the runtime is given none.
        handles: what backends take for each delegate, by name.
    """

    structures: Mapping[str, Structure]
    runtime: Runtime
    pool: int | None
    handles: Mapping[str, Structure] = field(default_factory=dict)

    def some(self, what: str, structure: str, count: int = 1) -> Allocation:
        """Some structures in a row."""
        size, alignment = self.structures[structure]
        return Allocation(what, size * count, alignment)

    def lookup_pool_bytes(self, method: Method, call: PteInstruction) -> int:
        """Bytes that a pool for temporary memory must have, so that looking a kernel up takes them there."""
        meta = self.structures["tensor_meta"].size
        if self.runtime.passes_over_small_pools:
            return (meta + MOST_DIMENSIONS * self.structures["order"].size) * len(call.args)
        return filled(self.lookup(method, call))

    def looks_up_in_pool(self, method: Method, call: PteInstruction) -> bool:
        """Whether looking a kernel up takes its memory from the pool for temporary memory."""
        if not self.pool:
            return False
        return not self.runtime.passes_over_small_pools or self.pool >= self.lookup_pool_bytes(method, call)

    def lookup(self, method: Method, call: PteInstruction) -> Iterator[Allocation]:
        """What finding the kernel for an instruction takes: type and order of every argument."""
        yield self.some("kernel lookups", "tensor_meta", len(call.args))
        for value in call.args:
            if value in method.tensors:
                yield self.some("kernel lookups", "order", len(method.tensors[value].shape))


def filled(allocations: Iterable[Allocation], start: int = 0) -> int:
    """How far an allocator is filled afterwards that was filled up to ``start``."""
    for _, size, alignment in allocations:
        start = align_up(start, alignment) + size
    return start


def allocations(
    file: PteFile, method: Method, target: Target, *, without: Collection[int] = ()
) -> Iterator[Allocation]:
    """What loading a method takes from the method allocator.

    Args:
        file: which holds it.
        method: of the file.
        target: where it is loaded.
        without: instructions to leave out, by position among those of all chains.
    """
    if target.pool is None:
        yield target.some("the runtime's own allocator", "platform_allocator")
    yield from _values(method, target)
    yield from _delegates(file, method, target)
    yield from _instructions(method, target, without)


def is_external(tensor: Any) -> bool:
    """Whether the bytes of a tensor of the schema come from a file that comes along."""
    extra = tensor.extra_tensor_info
    return extra is not None and extra.location.name == "EXTERNAL"


def is_bounded(method: Method, value: int) -> bool:
    """Whether the shape of a tensor has an upper bound, so that its size is told."""
    return bool(method.plan.values[value].val.shape_dynamism.name != "DYNAMIC_UNBOUND")


def _values(method: Method, target: Target) -> Iterator[Allocation]:
    values = [value.val for value in method.plan.values or ()]
    yield target.some("values", "value", len(values))
    if inputs := len(method.plan.inputs or ()):
        yield target.some("values", "flag", inputs)
    outside = [
        value
        for value in values
        if type(value).__name__ == "Tensor" and is_external(value) and value.allocation_info is None
    ]
    if outside:
        yield target.some("external constants", "external", len(outside))
    for value in values:
        yield from _value(value, target)


def _value(value: Any, target: Target) -> Iterator[Allocation]:
    """What a value needs beside its entry in the table."""
    kind = type(value).__name__
    if kind == "Tensor":
        dimensions = len(value.sizes or ())
        if value.shape_dynamism.name != "STATIC":
            yield target.some("sizes and orders of dynamic tensors", "size", dimensions)
            yield target.some("sizes and orders of dynamic tensors", "order", dimensions)
        yield target.some("strides", "size", dimensions)
        yield target.some("tensors", "tensor_impl")
    elif kind == "IntList":
        yield target.some("lists", "pointer", len(value.items or ()))
        yield target.some("lists", "integer", len(value.items or ()))
        yield target.some("lists", "boxed_list")
    elif kind == "TensorList":
        yield target.some("lists", "tensor", len(value.items or ()))
        yield target.some("lists", "pointer", len(value.items or ()))
        yield target.some("lists", "boxed_list")
    elif kind == "OptionalTensorList":
        yield target.some("lists", "pointer", len(value.items or ()))
        yield target.some("lists", "optional_tensor", len(value.items or ()))
        yield target.some("lists", "boxed_list")
    elif kind in ("BoolList", "DoubleList", "String"):
        yield target.some("lists", "array")


def _delegates(file: PteFile, method: Method, target: Target) -> Iterator[Allocation]:
    delegates = method.plan.delegates or ()
    yield target.some("delegates", "delegate", len(delegates))
    if has_external_data(file) and file.program.named_data is not None:
        yield target.some("external constants", "merged_data_map")
    for delegate in delegates:
        if delegate.compile_specs is not None:
            yield target.some("delegates", "compile_spec", len(delegate.compile_specs))
        if handle := target.handles.get(delegate.id):
            yield Allocation("delegates' handles", *handle)


def has_external_data(file: PteFile) -> bool:
    """Whether a file of data comes along: then every method of the program is loaded with it."""
    values = (value.val for plan in file.program.execution_plan for value in plan.values or ())
    return any(type(value).__name__ == "Tensor" and is_external(value) for value in values)


def _instructions(method: Method, target: Target, without: Collection[int]) -> Iterator[Allocation]:
    chains = method.plan.chains or ()
    yield target.some("instructions", "chain", len(chains))
    calls: list[list[PteInstruction]] = [[] for _ in chains]
    for at, instruction in enumerate(method.instructions):
        if at not in without:
            calls[instruction.chain].append(instruction)
    for chain in calls:
        yield target.some("instructions", "kernel", len(chain))
        yield target.some("instructions", "arguments", len(chain))
        for call in chain:
            if call.kind in ("kernel", "delegate"):
                yield target.some("arguments", "pointer", len(call.args))
            if call.kind == "kernel" and not target.looks_up_in_pool(method, call):
                yield from target.lookup(method, call)
