"""What an instruction does to memory: reads, writes, and pointers that it moves.

Operators declare it (``lowtide.operators.schemas.roles``). The runtime's own primitives do not and are one
small table. An operator that nobody knows is assumed the
worst of: it reads and writes every tensor that it is given, and what it makes may be any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.frontends.pte.delegates import output_count
from lowtide.operators.registry import operator_named
from lowtide.operators.schemas import roles

if TYPE_CHECKING:
    from lowtide.frontends.pte.methods import Method, PteInstruction
    from lowtide.frontends.pte.reading import PteFile
    from lowtide.operators.signatures import Signature

_BINARY = (
    "add",
    "sub",
    "mul",
    "floordiv",
    "truediv",
    "mod",
    "eq",
    "ge",
    "gt",
    "le",
    "lt",
    "sym_max",
    "sym_min",
)
_UNARY = ("sym_float", "sym_int", "sym_not", "neg", "ceil", "round", "trunc", "sym_ite")
_NUMBERS_ONLY = frozenset(f"executorch_prim::{name}" for name in (*_BINARY, *_UNARY))
_LOOKS_AT_SHAPE = frozenset({"aten::sym_size.int", "aten::sym_stride.int", "aten::sym_numel"})

_PRIMITIVES = frozenset({"executorch_prim::et_view.default", "executorch_prim::et_copy_index.tensor"})
"""These work on tensors; numbers they only look at."""


@dataclass(frozen=True, slots=True)
class PteEffect:
    """What an instruction does, in values.

    Args:
        reads: tensors whose bytes it looks at.
        defines: tensors that it gives new content from end to end; nothing of the old is meant to stay.
        overwrites: tensors that it fills from end to end in place: whoever looks at the same bytes is meant
            to see the new ones.
        updates: tensors of which it changes some bytes in place.
        gathers: tensors that it fills a part at a time, in a loop.
        scratch: tensors that it uses while it runs and nobody else sees.
        copies: pairs ``(to, from)`` of ``overwrites``, where ``to`` is ``from``'s bytes afterwards.
        moves: pairs ``(to, from)``: from here on ``to`` is ``from``'s tensor.
        views: pairs ``(to, from)``: ``to`` gets ``from``'s bytes to look at.
        may_view: pairs as for views, where it may also keep its own.
        unknown: whether all this is assumed.
    """

    reads: tuple[int, ...] = ()
    defines: tuple[int, ...] = ()
    overwrites: tuple[int, ...] = ()
    updates: tuple[int, ...] = ()
    gathers: tuple[int, ...] = ()
    scratch: tuple[int, ...] = ()
    copies: tuple[tuple[int, int], ...] = ()
    moves: tuple[tuple[int, int], ...] = ()
    views: tuple[tuple[int, int], ...] = ()
    may_view: tuple[tuple[int, int], ...] = ()
    unknown: bool = False

    @property
    def writes(self) -> tuple[int, ...]:
        """Tensors of which it writes any byte."""
        return (*self.defines, *self.overwrites, *self.updates, *self.gathers, *self.scratch)


def effects_of(file: PteFile, method: Method) -> tuple[PteEffect, ...]:
    """What each instruction of a method does."""
    return _Effects(file, method).run()


def computed_numbers(method: Method) -> frozenset[int]:
    """Values that are no tensors and that an instruction may write: what the file has there says nothing."""
    found: set[int] = set()
    for instruction in method.instructions:
        args = instruction.args
        if instruction.kind == "move":
            found.add(args[1])
        elif instruction.kind == "delegate":
            found.update(args)
        elif instruction.kind == "kernel":
            name = instruction.operator
            if name in _PRIMITIVES:
                continue
            if _is_number_only(name):
                found.update(args[-1:])
                continue
            operator = operator_named(name)
            known = operator is not None and len(args) >= len(operator.arguments)
            found.update(args[len(operator.arguments) :] if operator is not None and known else args)
    return frozenset(found - method.tensors.keys() - method.members.keys())


def _is_number_only(name: str) -> bool:
    """Whether it computes a number, its last argument, from others or from a tensor's shape."""
    return name.rpartition(".")[0] in _NUMBERS_ONLY or name in _NUMBERS_ONLY or name in _LOOKS_AT_SHAPE


class _Effects:
    def __init__(self, file: PteFile, method: Method) -> None:
        self.file, self.method = file, method
        self.given = set(method.inputs) | {
            t.index for t in method.tensors.values() if t.constant or t.initialised
        }
        """Tensors that something before this instruction has filled, in the order of the file."""

    def run(self) -> tuple[PteEffect, ...]:
        found = []
        for instruction in self.method.instructions:
            effect = self.of(instruction)
            self.given.update(effect.writes, (to for to, _ in (*effect.moves, *effect.views)))
            found.append(effect)
        return tuple(found)

    def of(self, instruction: PteInstruction) -> PteEffect:
        args = instruction.args
        if instruction.kind == "move":
            source, target = args
            return PteEffect(moves=((target, source),)) if target in self.method.tensors else PteEffect()
        if instruction.kind == "jump":
            return PteEffect(reads=self.method.tensors_in(args))
        if instruction.kind == "free":
            return PteEffect()
        if instruction.kind == "delegate":
            return self.delegate(instruction)
        return self.kernel(instruction)

    def kernel(self, instruction: PteInstruction) -> PteEffect:
        name, args = instruction.operator, instruction.args
        tensors = self.method.tensors
        if _is_number_only(name):
            return PteEffect()
        if (
            name == "executorch_prim::et_view.default"
            and len(args) == 3
            and {args[0], args[2]} <= set(tensors)
        ):
            return PteEffect(views=((args[2], args[0]),))
        if (
            name == "executorch_prim::et_copy_index.tensor"
            and len(args) == 3
            and set(args[:2]) <= set(tensors)
        ):
            return PteEffect(reads=(args[1],), gathers=(args[0],))
        operator = operator_named(name)
        if operator is None or len(args) < len(operator.arguments):
            return self.worst(args)
        return self.declared(operator, args)

    def declared(self, operator: Signature, args: tuple[int, ...]) -> PteEffect:
        """What a kernel does whose operator is known; what is passed beyond its arguments it makes."""
        count = len(operator.arguments)
        reads: list[int] = []
        defines: list[int] = []
        overwritten: list[int] = []
        updates: list[int] = []
        viewed: list[int] = []
        for _, value, role in roles(
            operator, zip(operator.arguments, args, strict=False), self.method.scalar
        ):
            tensors = self.method.tensors_in((value,))
            if role == "out":
                defines += tensors
            elif role == "filled":
                overwritten += tensors
            elif role == "changed":
                updates += tensors
            elif role == "viewed":
                viewed += tensors
            if role in ("read", "changed", "viewed"):
                reads += tensors
        seen = {*reads, *defines, *overwritten, *updates, *self.method.tensors_in(args[:count])}
        made = [t for t in self.method.tensors_in(args[count:]) if t not in seen]
        views = tuple((t, source) for t in made for source in viewed)
        if views:
            return PteEffect(tuple(reads), updates=tuple(updates), may_view=views, defines=tuple(made))
        copies: tuple[tuple[int, int], ...] = ()
        if (operator.namespace, operator.base) == ("aten", "copy_") and len(overwritten) == len(reads) == 1:
            to, source = self.method.tensors[overwritten[0]], self.method.tensors[reads[0]]
            copies = (
                ((to.index, source.index),) if (to.dtype, to.shape) == (source.dtype, source.shape) else ()
            )
        return PteEffect(tuple(reads), (*defines, *made), tuple(overwritten), tuple(updates), copies=copies)

    def delegate(self, instruction: PteInstruction) -> PteEffect:
        """A backend's blob: it reads its inputs and defines its outputs, which come last.

        How many are outputs is not in the call. Where the blob does not tell, outputs are the last tensors
        that nothing has filled yet; one that might also be a view of something filled is taken for changed in
        place.
        """
        tensors = self.method.tensors_in(instruction.args)
        count = output_count(self.file, self.method, instruction.delegate)
        if count is not None and count <= len(tensors):
            split = len(tensors) - count
            return PteEffect(tensors[:split], tensors[split:])
        split = len(tensors)
        while split and tensors[split - 1] not in self.given:
            split -= 1
        unsure = tuple(t for t in tensors[split:] if self.might_be_view(t))
        outputs = tuple(t for t in tensors[split:] if t not in unsure)
        return PteEffect((*tensors[:split], *unsure), outputs, updates=unsure, unknown=bool(unsure))

    def might_be_view(self, value: int) -> bool:
        tensor = self.method.tensors[value]
        return any(
            self.method.tensors[other].place == tensor.place
            and self.method.tensors[other].dtype == tensor.dtype
            for other in self.given
            if tensor.place is not None and other in self.method.tensors
        )

    def worst(self, args: tuple[int, ...]) -> PteEffect:
        """Reads and writes all that it is given; what nothing has filled yet is made here, of any of it."""
        tensors = tuple(dict.fromkeys(self.method.tensors_in(args)))
        made = tuple(t for t in tensors if t not in self.given and not self.might_be_view(t))
        old = tuple(t for t in tensors if t not in made)
        changed = tuple(t for t in old if not self.method.tensors[t].constant)
        views = tuple((t, source) for t in made for source in old)
        return PteEffect(old, made, updates=changed, may_view=views, unknown=True)
