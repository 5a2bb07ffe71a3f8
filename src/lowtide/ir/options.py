"""What of a program is planned: the options that every front end for programs takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowtide.base.errors import InputError


@dataclass(frozen=True)
class Options:
    """What is planned, and how.

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

    def __post_init__(self) -> None:
        if type(self.alignment) is not int or self.alignment < 1:
            raise InputError(f"alignment {self.alignment!r} is not a whole number of bytes above 0")
        for name, size in self.scratch.items():
            if type(size) is not int or size < 0:
                raise InputError(f"scratch of node {name!r}: {size!r} is not a whole number of bytes")
