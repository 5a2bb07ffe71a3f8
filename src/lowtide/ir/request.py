"""What is planned: the options that every front end takes, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lowtide.base.errors import InputError
from lowtide.ir.memory_map import MemoryMap

Capacity = int | str


@dataclass(frozen=True)
class Request:
    """What is planned, and what the plan may make use of.

    Args:
        alignment: bytes; offsets are multiples of it, and sizes are rounded up to one.
        plan_inputs: whether user inputs get a place in the arena, or stay where the caller has them.
        plan_outputs: the same for outputs. What is input and output at once is planned only if both are.
        plan_state: the same for mutable buffers, and alone decides on them: state that is returned too
            stays where state is, whatever is said of outputs, since it outlives the invocation.
        reset_state: whether state starts afresh at every invocation, so that its bytes may be reused.
        scratch: bytes that a node's kernel or delegate needs while it runs, by qualified name, such as
            ``root/true_graph_0/linear``; the node's name alone will do where no other region has it too.
        in_place: whether an output may lie exactly over an input that dies at the step, where the kernel is
            known to be right so.
        elide_copies: whether what a step copies may lie where the copy is.
        fold_constants: whether what depends on an exported program's parameters and constants alone is
            computed ahead of time.
        fold_limit: bytes by which the file may grow for it; None for as much as it takes.
        reorder: whether independent steps of an exported program may move, so that fewer bytes are alive.
        capacity: bytes that a plan may take, as a number or such as ``"256KiB"``: of the only arena, or by
            memory id.
        memory_map: the banks that buffers go to; None if all memory is one.
        format_options: options of single formats, by name: ``pins`` of a CSV, ``method`` of a ``.pte``.

    Raises:
        InputError: an amount of bytes is not a whole number, or the alignment is not above 0.
    """

    alignment: int = 16
    plan_inputs: bool = True
    plan_outputs: bool = True
    plan_state: bool = True
    reset_state: bool = False
    scratch: Mapping[str, int] = field(default_factory=dict)
    in_place: bool = False
    elide_copies: bool = False
    fold_constants: bool = False
    fold_limit: int | None = None
    reorder: bool = False
    capacity: Capacity | Mapping[int, Capacity] | None = None
    memory_map: MemoryMap | None = None
    format_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if type(self.alignment) is not int or self.alignment < 1:
            raise InputError(f"alignment {self.alignment!r} is not a whole number of bytes above 0")
        if self.capacity is not None and self.memory_map is not None:
            raise InputError("a memory map says the capacity of each bank: leave out the other capacity")
        for name, size in self.scratch.items():
            if type(size) is not int or size < 0:
                raise InputError(f"scratch of node {name!r}: {size!r} is not a whole number of bytes")
