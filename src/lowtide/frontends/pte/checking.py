"""Do the indices of a parsed program lead anywhere? What the runtime trusts, an analysis must check."""

from __future__ import annotations

from typing import Any

from lowtide.base.errors import InputError

_LARGEST = 1 << 62
"""Bytes of a tensor or an arena beyond which arithmetic on addresses is meaningless."""


def check_program(program: Any, segment_bytes: int, name: str) -> None:
    """Check every index, size and reference of a program.

    Args:
        program: as parsed.
        segment_bytes: bytes from the segment base to the end of the file.
        name: of the file, for messages.

    Raises:
        InputError: something leads nowhere; the message says what.
    """
    checker = _Checker(program, segment_bytes, name)
    checker.segments()
    seen: set[str] = set()
    for plan in program.execution_plan or ():
        if plan.name is None or plan.name in seen:
            checker.fail(f"method {plan.name!r} occurs twice or has no name")
        seen.add(plan.name)
        _Methods(checker, plan).run()
    if not seen:
        checker.fail("it has no method")


class _Checker:
    def __init__(self, program: Any, segment_bytes: int, name: str) -> None:
        self.program, self.segment_bytes, self.name = program, segment_bytes, name

    def fail(self, what: str) -> None:
        raise InputError(f"{self.name}: is damaged: {what}: export it again")

    def index(self, value: int, count: int, what: str) -> None:
        if not 0 <= value < count:
            self.fail(f"{what} {value} does not exist, there are {count}")

    def segments(self) -> None:
        program = self.program
        found = program.segments or ()
        for i, segment in enumerate(found):
            if segment.offset + segment.size > self.segment_bytes:
                self.fail(f"segment {i} ends outside of the file")
        groups = [program.constant_segment] if program.constant_segment is not None else []
        for group in (*groups, *(program.mutable_data_segments or ())):
            offsets = list(group.offsets or ())
            if not offsets:
                continue
            self.index(group.segment_index, len(found), "segment")
            if max(offsets) > found[group.segment_index].size:
                self.fail(f"a tensor of segment {group.segment_index} begins outside of it")
        for named in program.named_data or ():
            self.index(named.segment_index, len(found), "segment")


class _Methods:
    def __init__(self, checker: _Checker, plan: Any) -> None:
        self.checker, self.plan = checker, plan
        self.values = list(plan.values or ())
        self.where = f"of method {plan.name!r}"

    def run(self) -> None:
        plan = self.plan
        for size in plan.non_const_buffer_sizes or ():
            if not 0 <= size < _LARGEST:
                self.fail(f"an arena of {size} bytes")
        for i, value in enumerate(self.values):
            self.value(i, value.val)
        for index in (*(plan.inputs or ()), *(plan.outputs or ())):
            self.of_value(index)
        for delegate in plan.delegates or ():
            self.delegate(delegate)
        for chain in plan.chains or ():
            count = len(chain.instructions or ())
            for instruction in chain.instructions or ():
                self.instruction(instruction.instr_args, count)

    def fail(self, what: str) -> None:
        self.checker.fail(f"{what} {self.where}")

    def of_value(self, index: int) -> None:
        self.checker.index(index, len(self.values), f"value {self.where}:")

    def value(self, position: int, value: Any) -> None:
        kind = type(value).__name__
        if kind in ("TensorList", "OptionalTensorList"):
            for item in value.items or ():
                if item == -1 and kind == "OptionalTensorList":
                    continue
                self.of_value(item)
                if type(self.values[item].val).__name__ not in ("Tensor", "Null"):
                    self.fail(f"list {position} holds value {item}, which is no tensor,")
        elif kind == "Tensor":
            self.tensor(position, value)

    def tensor(self, position: int, tensor: Any) -> None:
        bytes_ = 16
        for size in tensor.sizes or ():
            if size < 0:
                self.fail(f"tensor {position} has a negative size")
            bytes_ *= max(size, 1)
            if bytes_ >= _LARGEST:
                self.fail(f"tensor {position} has more bytes than any memory")
        if tensor.allocation_info is not None and not 0 <= tensor.allocation_info.memory_id < 1 << 31:
            self.fail(f"tensor {position} is in memory {tensor.allocation_info.memory_id}")

    def delegate(self, delegate: Any) -> None:
        if delegate.processed is None:
            self.fail(f"delegate {delegate.id!r} without data")
        inline = delegate.processed.location == 0
        blobs = self.checker.program.backend_delegate_data if inline else self.checker.program.segments
        self.checker.index(delegate.processed.index, len(blobs or ()), f"data {self.where}:")

    def instruction(self, call: Any, count: int) -> None:
        kind = type(call).__name__
        if kind in ("KernelCall", "DelegateCall"):
            table = self.plan.operators if kind == "KernelCall" else self.plan.delegates
            index = call.op_index if kind == "KernelCall" else call.delegate_index
            self.checker.index(index, len(table or ()), f"operator or delegate {self.where}:")
            for argument in call.args if call.args is not None else ():
                self.of_value(argument)
        elif kind == "MoveCall":
            self.of_value(call.move_from)
            self.of_value(call.move_to)
        elif kind == "JumpFalseCall":
            self.of_value(call.cond_value_index)
            if not 0 <= call.destination_instruction <= count:
                self.fail(f"a jump to instruction {call.destination_instruction} of {count}")
        elif kind == "FreeCall":
            self.of_value(call.value_index)
        else:
            self.fail("an empty instruction")
