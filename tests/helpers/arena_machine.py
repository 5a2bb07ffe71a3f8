"""Runs the instructions of a ``.pte`` in one real arena, with PyTorch's implementations for kernels.

For programs whose kernels this machine does not have: every planned tensor is where the file says, bytes that
nobody is to read any more are spoiled before every instruction, and so is a kernel's scratch before it reads
and after it has written. Of the planner, and of what it knows of operators, nothing is used; only straight
programs are understood.
"""

from __future__ import annotations

import math
import re
from typing import Any

import torch

import cortex_m  # noqa: F401  (declares the operators)
from lowtide.frontends.pte import PteFile
from lowtide.frontends.pte.methods import offset_of

_TYPES = {
    "BYTE": torch.uint8,
    "CHAR": torch.int8,
    "INT": torch.int32,
    "LONG": torch.int64,
    "FLOAT": torch.float32,
    "BOOL": torch.bool,
}


class ArenaMachine:
    """One method of a file, ready to run.

    Args:
        file: as read.
        seed: of the garbage.
    """

    def __init__(self, file: PteFile, seed: int = 0) -> None:
        self.file, (self.plan,) = file, file.program.execution_plan
        (chain,) = self.plan.chains
        self.calls = [instruction.instr_args for instruction in chain.instructions]
        assert all(type(call).__name__ == "KernelCall" for call in self.calls), "no straight program"
        self.arena = torch.zeros(self.plan.non_const_buffer_sizes[1], dtype=torch.uint8)
        self.garbage = torch.Generator().manual_seed(seed)
        self.live = self._liveness()
        self.spoiled = 0  # bytes, in all

    def run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """What the method returns."""
        self._spoil(torch.ones_like(self.arena, dtype=torch.bool))
        for value, given in zip(self.plan.inputs, inputs, strict=True):
            self._write(value, given)
        for call, live in zip(self.calls, self.live, strict=False):
            self._spoil(~live)
            self._call(call)
        self._spoil(~self.live[-1])
        return [self._read(value) for value in self.plan.outputs]

    def _call(self, call: Any) -> None:
        _, functional, arguments, outputs, scratch = self._parts(call)
        for value in scratch:
            self._spoil(self._mask([value]))
        args = [self._argument(value) for value in arguments]
        results = functional(*args)
        for value, result in zip(outputs, [results] if len(outputs) == 1 else results, strict=True):
            self._write(value, result)
        for value in scratch:  # a kernel may use it to its last moment
            self._spoil(self._mask([value]))

    def _parts(self, call: Any) -> tuple[Any, Any, list[int], list[int], list[int]]:
        """The operator, its functional form, its arguments, outputs, and those that are scratch."""
        named = self.plan.operators[call.op_index]
        space, name = named.name.split("::")
        packet = getattr(getattr(torch.ops, space), name)
        operator = getattr(packet, named.overload)
        declared = operator._schema.arguments
        wanted = [(a.name, str(a.type)) for a in declared if not a.is_out]
        overloads = [getattr(packet, overload) for overload in packet.overloads()]
        (functional,) = (
            o for o in overloads if [(a.name, str(a.type)) for a in o._schema.arguments] == wanted
        )
        passed = list(zip(declared, call.args, strict=False))
        arguments = [value for argument, value in passed if not argument.is_out]
        outputs = [value for argument, value in passed if argument.is_out]
        scratch = [value for argument, value in passed if re.fullmatch("(output_)?scratch", argument.name)]
        return operator, functional, arguments, outputs, scratch

    # Bytes.

    def _liveness(self) -> list[torch.Tensor]:
        """For each point, the bytes of the arena that are read later, before anything is written there."""
        live = self._mask(self.plan.outputs)
        found = [live]
        for call in reversed(self.calls):
            _, _, arguments, outputs, scratch = self._parts(call)
            live = live & ~self._mask([*outputs, *scratch])
            live = live | self._mask([value for value in arguments if value not in scratch])
            found.append(live)
        return found[::-1]

    def _mask(self, values: list[int]) -> torch.Tensor:
        mask = torch.zeros_like(self.arena, dtype=torch.bool)
        for value in values:
            tensor = self.plan.values[value].val
            if type(tensor).__name__ == "Tensor" and tensor.allocation_info is not None:
                mask[self._span(tensor)] = True
        return mask

    def _spoil(self, mask: torch.Tensor) -> None:
        count = int(mask.sum())
        self.spoiled += count
        self.arena[mask] = torch.randint(0, 256, (count,), dtype=torch.uint8, generator=self.garbage)

    def _span(self, tensor: Any) -> slice:
        assert tensor.allocation_info.memory_id == 1
        start = offset_of(tensor.allocation_info)
        return slice(start, start + math.prod(tensor.sizes) * _TYPES[tensor.scalar_type.name].itemsize)

    # Values.

    def _read(self, value: int) -> torch.Tensor:
        tensor = self.plan.values[value].val
        if tensor.allocation_info is not None:
            data = self.arena[self._span(tensor)].clone()
        else:
            constants = self.file.program.constant_segment
            segment = self.file.program.segments[constants.segment_index]
            start = segment.offset + constants.offsets[tensor.data_buffer_idx]
            size = math.prod(tensor.sizes) * _TYPES[tensor.scalar_type.name].itemsize
            data = torch.frombuffer(bytearray(self.file.segments[start : start + size]), dtype=torch.uint8)
        order = list(tensor.dim_order)
        laid_out = data.view(_TYPES[tensor.scalar_type.name]).reshape([tensor.sizes[d] for d in order])
        return laid_out.permute([order.index(d) for d in range(len(order))])

    def _write(self, value: int, result: torch.Tensor) -> None:
        tensor = self.plan.values[value].val
        assert list(result.shape) == list(tensor.sizes)
        assert result.dtype == _TYPES[tensor.scalar_type.name]
        flat = result.permute(list(tensor.dim_order)).contiguous().reshape(-1)
        self.arena[self._span(tensor)] = flat.view(torch.uint8)

    def _argument(self, value: int) -> Any:
        content = self.plan.values[value].val
        kind = type(content).__name__
        if kind == "Tensor":
            return self._read(value)
        if kind == "IntList":
            return [self.plan.values[item].val.int_val for item in content.items]
        if kind == "Null":
            return None
        return next(
            getattr(content, name) for name in ("int_val", "double_val", "bool_val") if hasattr(content, name)
        )
