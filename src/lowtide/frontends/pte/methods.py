"""What one execution plan of a ``.pte`` holds, in the few terms that memory needs.

Values keep the numbers that they have in the file (``%12`` in messages), instructions their positions,
which are also the debug handles that ExecuTorch's event tracer reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lowtide.base.errors import InputError
from lowtide.base.files import show_name
from lowtide.ir.problem import align_up

if TYPE_CHECKING:
    from collections.abc import Iterator

InstructionKind = Literal["kernel", "delegate", "move", "jump", "free"]

_ELEMENT_BYTES = {
    **dict.fromkeys(("BYTE", "CHAR", "BOOL", "QINT8", "QUINT8", "QUINT4X2", "QUINT2X4", "BITS1X8"), 1),
    **dict.fromkeys(("BITS2X4", "BITS4X2", "BITS8", "FLOAT8E5M2", "FLOAT8E4M3FN"), 1),
    **dict.fromkeys(("FLOAT8E5M2FNUZ", "FLOAT8E4M3FNUZ"), 1),
    **dict.fromkeys(("SHORT", "HALF", "BFLOAT16", "BITS16", "UINT16"), 2),
    **dict.fromkeys(("INT", "FLOAT", "QINT32", "COMPLEX32", "COMPLEXHALF", "UINT32"), 4),
    **dict.fromkeys(("LONG", "DOUBLE", "COMPLEX64", "COMPLEXFLOAT", "UINT64"), 8),
    **dict.fromkeys(("COMPLEX128", "COMPLEXDOUBLE"), 16),
}

_LARGEST_ALIGNMENT = 4096
"""Bytes: more is a coincidence."""

_CACHE_LINE = 64
"""Bytes."""

_WITNESSES = 8
"""Places from which on it is no chance that tensors of any size begin at multiples of something."""


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of an arena: ``[start, stop)`` of memory ``memory``."""

    memory: int
    start: int
    stop: int

    def overlaps(self, other: Place) -> bool:
        """Whether any byte is in both."""
        return self.memory == other.memory and self.start < other.stop and other.start < self.stop

    def __str__(self) -> str:
        return f"bytes {self.start} to {self.stop} of arena {self.memory}"


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor in the value table.

    Args:
        index: its position there.
        size: bytes, at the upper bound of its shape.
        place: the bytes that the file plans for it, or None.
        dtype, shape, order: as in the file; ``order`` lists dimensions from the outermost in memory.
        element: bytes of one element.
        static: whether its shape is fixed.
        stored: position of its first or constant bytes among those that the file holds; 0 for none.
        initialised: whether its first bytes come from the file.
        constant: whether it lies in the file, or in one that comes along, and never changes.
        name: fully qualified, of state and of external data; else empty.
    """

    index: int
    size: int
    place: Place | None
    dtype: str
    shape: tuple[int, ...]
    order: tuple[int, ...]
    element: int
    static: bool
    stored: int
    initialised: bool
    constant: bool
    name: str = ""

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "scalar"
        where = f", {self.place}" if self.place else ""
        label = f" {self.name!r}" if self.name else ""
        return f"%{self.index}{label} ({self.dtype} {shape}{where})"


@dataclass(frozen=True, slots=True)
class PteInstruction:
    """One instruction.

    Args:
        kind: what it is.
        chain, position: where it is; the position counts from the start of its chain.
        operator: of a kernel ``aten::add.out``; of a delegate its backend.
        args: values, as in the file; of a move its source and its target; of a jump its condition.
        target: of a jump: position among the method's instructions, its length meaning the end.
        delegate: of a delegate call: position of its delegate.
        source: where in the user's code it comes from, if the file says.
    """

    kind: InstructionKind
    chain: int
    position: int
    operator: str = ""
    args: tuple[int, ...] = ()
    target: int = -1
    delegate: int = -1
    source: str = ""

    def __str__(self) -> str:
        chain = f" of chain {self.chain}" if self.chain else ""
        name = f" {self.operator}" if self.operator else f" {self.kind}"
        return f"instruction {self.position}{chain}{name}"


@dataclass(frozen=True)
class Method:
    """One execution plan.

    Args:
        name: of the method.
        plan: the table ``ExecutionPlan`` of the schema.
        tensors: tensors by value.
        members: tensors of each value that is a list of them.
        inputs, outputs: values that are tensors, lists spread out.
        instructions: those of all chains, in order.
        arenas: bytes of each memory id, as the file has them.
    """

    name: str
    plan: Any
    tensors: dict[int, TensorValue]
    members: dict[int, tuple[int, ...]]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    instructions: tuple[PteInstruction, ...]
    arenas: dict[int, int]

    def tensors_in(self, args: tuple[int, ...]) -> tuple[int, ...]:
        """Tensors among some values, lists spread out."""
        found: list[int] = []
        for value in args:
            if value in self.tensors:
                found.append(value)
            else:
                found += self.members.get(value, ())
        return tuple(found)

    @property
    def planned(self) -> Iterator[TensorValue]:
        """Tensors with a place, in order."""
        return (tensor for tensor in self.tensors.values() if tensor.place is not None)

    def scalar(self, value: int) -> Any:
        """The content of a value that is a number, a truth or a string, as the file has it; else None."""
        content = self.plan.values[value].val
        for name in ("int_val", "bool_val", "double_val", "string_val"):
            if hasattr(content, name):
                return getattr(content, name)
        return None


def methods_of(program: Any, name: str) -> tuple[Method, ...]:
    """The methods of a program, in order.

    Raises:
        InputError: a tensor is of a type that is not known.
    """
    return tuple(_method(plan, name) for plan in program.execution_plan)


def alignment_in(
    method: Method, memory: int, *, least: int = 1, most: int = _LARGEST_ALIGNMENT, slack: int = 0
) -> int:
    """The alignment that an arena seems to be planned with.

    The largest power of two that every offset in it is a multiple of, and that its size leaves room to round
    its last tensor up to. Large alignments come about by chance where all tensors are large: beyond a cache
    line they count only if tensors of other sizes in several places keep to them.

    Args:
        method: which has it.
        memory: the arena's memory id.
        least, most: bytes; powers of two.
        slack: bytes at the arena's end that are no tensor's.
    """
    places = [t.place for t in method.planned if t.place is not None and t.place.memory == memory]
    end = max((place.stop for place in places), default=0)
    unit = least
    while unit < most and all(place.start % (2 * unit) == 0 for place in places):
        odd = {place.start for place in places if (place.stop - place.start) % (2 * unit)}
        by_chance = unit >= _CACHE_LINE and len(odd) < _WITNESSES
        if by_chance or method.arenas.get(memory, 0) - slack < align_up(end, 2 * unit):
            break
        unit *= 2
    return unit


def _method(plan: Any, name: str) -> Method:
    tensors: dict[int, TensorValue] = {}
    members: dict[int, tuple[int, ...]] = {}
    for i, value in enumerate(plan.values or ()):
        kind = type(value.val).__name__
        if kind == "Tensor":
            tensors[i] = _tensor(i, value.val, name)
        elif kind in ("TensorList", "OptionalTensorList"):
            members[i] = tuple(item for item in value.val.items or () if item >= 0)
    for list_, items in members.items():
        members[list_] = tuple(item for item in items if item in tensors)
    sizes = list(plan.non_const_buffer_sizes or ())
    method = Method(
        plan.name,
        plan,
        tensors,
        members,
        (),
        (),
        tuple(_instructions(plan)),
        {memory: size for memory, size in enumerate(sizes) if memory},
    )
    return Method(
        **{
            **{field: getattr(method, field) for field in Method.__dataclass_fields__},
            "inputs": method.tensors_in(tuple(plan.inputs or ())),
            "outputs": method.tensors_in(tuple(plan.outputs or ())),
        }
    )


def offset_of(details: Any) -> int:
    """Where in its arena the tensor of some AllocationDetails begins."""
    return int(details.memory_offset_low) | int(details.memory_offset_high) << 32


def _tensor(index: int, tensor: Any, name: str) -> TensorValue:
    dtype = tensor.scalar_type.name
    if dtype not in _ELEMENT_BYTES:
        raise InputError(f"{name}: tensor {index} has type {dtype}, whose size is not known: export it again")
    element = _ELEMENT_BYTES[dtype]
    size = element
    for length in tensor.sizes or ():
        size *= length
    details, extra = tensor.allocation_info, tensor.extra_tensor_info
    place = None
    if details is not None:
        start = offset_of(details)
        place = Place(details.memory_id, start, start + size)
    external = extra is not None and extra.location.name == "EXTERNAL"
    stored = tensor.data_buffer_idx > 0 or external
    return TensorValue(
        index=index,
        size=size,
        place=place,
        dtype=dtype.lower(),
        shape=tuple(tensor.sizes or ()),
        order=tuple(tensor.dim_order or ()),
        element=element,
        static=tensor.shape_dynamism.name == "STATIC",
        stored=tensor.data_buffer_idx,
        initialised=place is not None and stored,
        constant=place is None and stored,
        name=(extra.fully_qualified_name or "") if extra is not None else "",
    )


def _instructions(plan: Any) -> Iterator[PteInstruction]:
    before = 0
    for number, chain in enumerate(plan.chains or ()):
        instructions = chain.instructions or ()
        frames = chain.stacktrace or ()
        for position, instruction in enumerate(instructions):
            call = instruction.instr_args
            source = _source(frames[position]) if position < len(frames) else ""
            yield _instruction(plan, call, number, position, before, source)
        before += len(instructions)


def _instruction(plan: Any, call: Any, chain: int, position: int, before: int, source: str) -> PteInstruction:
    kind = type(call).__name__
    if kind == "KernelCall":
        operator = plan.operators[call.op_index]
        name = f"{operator.name}.{operator.overload}" if operator.overload else str(operator.name)
        args = tuple(call.args if call.args is not None else ())
        return PteInstruction("kernel", chain, position, show_name(name), args, source=source)
    if kind == "DelegateCall":
        index = call.delegate_index
        args = tuple(call.args if call.args is not None else ())
        name = show_name(str(plan.delegates[index].id))
        return PteInstruction("delegate", chain, position, name, args, delegate=index, source=source)
    if kind == "MoveCall":
        return PteInstruction("move", chain, position, args=(call.move_from, call.move_to))
    if kind == "JumpFalseCall":
        target = before + call.destination_instruction
        return PteInstruction("jump", chain, position, args=(call.cond_value_index,), target=target)
    return PteInstruction("free", chain, position, args=(call.value_index,))


def _source(frames: Any) -> str:
    """The innermost frame of a stack trace."""
    items = frames.items if frames is not None else None
    return show_name(f"{items[-1].filename}:{items[-1].lineno}") if items else ""
