"""What a kernel's own code allows: outputs exactly over inputs, and copies of bytes to where they are.

The same tables and rules serve ExecuTorch's planning pass (``lowtide.executorch.node_overwrites`` and
``lowtide.executorch.node_moves``); here they are asked about calls in a ``.pte``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from lowtide.operators.executorch import ELEMENTWISE, FIRST, TRIED, WHOLE
from lowtide.operators.registry import operator_named, overload_named
from lowtide.operators.schemas import known_name

if TYPE_CHECKING:
    from lowtide.frontends.pte.methods import Method, PteInstruction, TensorValue
    from lowtide.operators.signatures import Signature


class Allowance:
    """What is harmless although tensors share bytes; nothing for a call whose operator is not known.

    Both answers are looked for when somebody asks: what is copied to where it is takes PyTorch to find out.

    Args:
        call: the call of a kernel.
        depends: whether numbers that the program computes decide what it does.
    """

    def __init__(self, call: _Call | None, depends: bool) -> None:
        self._call, self._depends = call, depends

    @cached_property
    def over(self) -> frozenset[tuple[int, int]]:
        """Pairs of tensors ``(written, read)`` that may lie in exactly the same bytes."""
        return frozenset() if self._call is None else self._call.over()

    @cached_property
    def same(self) -> tuple[tuple[int, int, int], ...]:
        """Triples ``(inner, outer, distance)``: afterwards ``inner`` is the same bytes as ``outer`` from
        ``distance`` bytes on, one of them being written and the other read."""
        return () if self._call is None or self._depends else self._call.same()


def allowance_of(method: Method, instruction: PteInstruction, computed: frozenset[int]) -> Allowance:
    """What an instruction's kernel allows.

    Args:
        method: which has it.
        instruction: the call.
        computed: numbers that the program computes; of a copy that depends on one nothing is known.
    """
    operator = operator_named(instruction.operator) if instruction.kind == "kernel" else None
    if operator is None or len(instruction.args) < len(operator.arguments):
        return Allowance(None, False)
    call = _Call(method, instruction.operator, operator, instruction.args)
    return Allowance(call, not computed.isdisjoint(call.numbers))


class _Call:
    """A call, and the same with tensors of no bytes in place of its own."""

    def __init__(self, method: Method, name: str, operator: Signature, values: tuple[int, ...]) -> None:
        self.method, self.name, self.operator, self.values = method, name, operator, values
        self.kernel = known_name(operator)
        self.behind: dict[int, int] = {}
        self.outputs: list[int] = []
        self.first: tuple[int, ...] = ()
        self.inputs: list[int] = []
        self.numbers: set[int] = set(values)
        for position, (declared, value) in enumerate(zip(operator.arguments, values, strict=False)):
            tensors = method.tensors_in((value,))
            if declared.is_out:
                self.outputs += tensors
                continue
            self.inputs += tensors
            if position == 0:
                self.first = tensors
            content = method.plan.values[value].val
            if type(content).__name__ == "IntList":
                # Numbers of a list are values of their own, and the program may compute them.
                self.numbers.update(content.items or ())

    def over(self) -> frozenset[tuple[int, int]]:
        tensors = self.method.tensors
        if self.kernel in ELEMENTWISE:
            outputs, allowed = self.outputs, self.inputs
        elif self.kernel in FIRST:
            outputs, allowed = self.outputs[:1], list(self.first)
        else:
            return frozenset()
        return frozenset(
            (output, given)
            for output in outputs
            for given in allowed
            if self.inputs.count(given) == allowed.count(given)
            and _lie_alike(tensors[output], tensors[given])
            and (tensors[given].static or self.kernel != "masked_scatter")
        )

    def same(self) -> tuple[tuple[int, int, int], ...]:
        if self.kernel not in TRIED:
            return ()
        if self.kernel in WHOLE and self.outputs and self.first:
            a, b = (self.method.tensors[value] for value in (self.outputs[0], self.first[0]))
            if not a.static and _lie_alike(a, b):
                return ((self.outputs[0], self.first[0], 0),)
        overload = overload_named(self.name)
        if overload is None:  # PyTorch is not installed
            return ()
        from lowtide.operators.moves import moves_of_kernel

        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for declared, value in zip(self.operator.arguments, self.values, strict=False):
            if declared.kwarg_only and not declared.is_out:
                kwargs[declared.name] = self.content(value)
            elif not declared.is_out:
                args.append(self.content(value))
        results = [self.meta(value) for value in self.outputs]
        try:
            moves = list(moves_of_kernel(overload, args, kwargs, results))
        except Exception:  # no call that PyTorch would make: of that nothing is known
            return ()
        return tuple((self.behind[id(a)], self.behind[id(b)], distance) for a, b, distance in moves)

    def content(self, value: int) -> Any:
        """What the value table holds, with tensors of no bytes for tensors."""
        content = self.method.plan.values[value].val
        kind = type(content).__name__
        if kind == "Tensor":
            return self.meta(value)
        if kind in ("TensorList", "OptionalTensorList"):
            return [self.meta(item) if item >= 0 else None for item in content.items or ()]
        if kind == "IntList":
            return [
                self.method.scalar(item) if 0 <= item < len(self.method.plan.values) else None
                for item in content.items or ()
            ]
        if kind in ("BoolList", "DoubleList"):
            return list(content.items or ())
        return self.method.scalar(value)

    def meta(self, value: int) -> Any:
        """A tensor that is laid out as the value; None if that is known at run time only."""
        import torch

        tensor = self.method.tensors.get(value)
        dtype = getattr(torch, _DTYPES.get(tensor.dtype, ""), None) if tensor is not None else None
        if (
            tensor is None
            or not tensor.static
            or dtype is None
            or sorted(tensor.order) != list(range(len(tensor.shape)))
        ):
            return None
        strides, step = [0] * len(tensor.shape), 1
        for dim in reversed(tensor.order):
            strides[dim] = step
            step *= max(tensor.shape[dim], 1)
        made = torch.empty_strided(tensor.shape, strides, dtype=dtype, device="meta")
        self.behind[id(made)] = value
        return made


def _lie_alike(a: TensorValue, b: TensorValue) -> bool:
    """Whether the elements of a kernel's result and argument lie alike at run time too.

    Of dynamic shapes a file keeps the bounds only. Where these are equal, so are the shapes: a copy has the
    shape of what it copies, and export broadcasts no dimension that it has a symbol for.
    """
    return a.static == b.static and (a.dtype, a.shape, a.order) == (b.dtype, b.shape, b.order)


_DTYPES = {
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "bool": "bool",
    "bfloat16": "bfloat16",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
}
"""PyTorch's names of ExecuTorch's scalar types."""
