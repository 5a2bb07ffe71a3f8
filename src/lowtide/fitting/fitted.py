"""What a fit came to: frozen values in bytes and multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from lowtide.ir.plan import Plan
    from lowtide.transforms.fit import Allowed, FitStep, Floor, Limits


@dataclass(frozen=True, slots=True)
class Proof:
    """Original and fitted program, run on the same inputs.

    Args:
        runtime: whose kernels ran them.
        inputs: where the inputs are from: given, the example inputs of the export, or generated.
        outputs: tensors that were compared.
        equal: whether every bit of them agrees.
        largest: the largest absolute difference.
        replayed: program points of the replay in the planned arena, dead bytes poisoned.
        file_before, file_after: bytes of the programs as files: ``.pte`` of ExecuTorch, ``.pt2`` of PyTorch.
        remark: what there is to say of it.
    """

    runtime: Literal["executorch", "pytorch"]
    inputs: Literal["given", "example", "generated"]
    outputs: int
    equal: bool
    largest: float
    replayed: int
    file_before: int
    file_after: int
    remark: str = ""


@dataclass(frozen=True)
class Fitted:
    """A program that was made to fit, as far as that goes.

    Args:
        program: the changed program; the very one that was given if nothing in it had to change.
        plan: the runtime's plan of it.
        steps: what was done, in order, with the bytes that each won and its price.
        macs: multiply-adds of the program.
        front: pairs of live bytes at the peak and multiply-adds that the search for parts has seen: none has
            less of both. It counts bytes before packing.
        runtime: whose kernels and whose planner were meant.
        macs_before: multiply-adds of the given program.
        arena_before: bytes of its arena: ExecuTorch's own plan of it, or for PyTorch the plan without any
            technique.
        floor: what no execution in parts avoids.
        limits: what was asked.
        allowed: what the planner must be allowed for this arena.
        fits: whether the arena is as small as was asked; True if nothing was asked.
        changed: whether the program is another than the given one.
        complete: whether neither the deadline nor an interrupt cut the search short.
        interrupted: whether it was stopped by hand.
        barriers: operators of which nothing is known, which no part crosses.
        remarks: what else there is to say, for people.
        proof: original and fitted program, run; None if nothing changed, or nobody asked.
    """

    program: ExportedProgram
    plan: Plan
    steps: tuple[FitStep, ...]
    macs: int
    front: tuple[tuple[int, int], ...]
    runtime: str
    macs_before: int
    arena_before: int
    floor: Floor
    limits: Limits
    allowed: Allowed
    fits: bool
    changed: bool
    complete: bool
    interrupted: bool
    barriers: tuple[str, ...]
    remarks: tuple[str, ...]
    proof: Proof | None = None

    @property
    def arena_bytes(self) -> int:
        """What the program takes now."""
        return self.plan.arena_bytes

    @property
    def lower_bound_bytes(self) -> int:
        """No plan of the program as it is now takes less."""
        return self.plan.lower_bound_bytes

    @property
    def work(self) -> float:
        """Multiply-adds over those of the given program."""
        return self.macs / self.macs_before if self.macs_before else 1.0
