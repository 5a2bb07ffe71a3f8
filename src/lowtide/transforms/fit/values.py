"""What the search for a fit is given, and what it finds: frozen values in bytes and multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from lowtide.base.errors import InputError
from lowtide.transforms.split.fitting import check_limits

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from lowtide.transforms.split import Dialect, SplitStep

StepKind = Literal["packing", "in_place", "elide_copies", "folding", "rewrite", "order", "split"]


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the planner of a runtime may do.

    Args:
        in_place: outputs may lie over inputs that die.
        elide_copies: what is copied may lie where the copy is.
        reorder: independent steps may move.
    """

    in_place: bool = True
    elide_copies: bool = True
    reorder: bool = False


@dataclass(frozen=True, slots=True)
class Packed:
    """An arena that was packed.

    Args:
        arena_bytes: what it takes.
        lower_bound_bytes: no plan of the same program takes less.
        plan: the plan itself; None of planners that give none.
    """

    arena_bytes: int
    lower_bound_bytes: int
    plan: Any = None


class Target(Protocol):
    """A runtime: whose kernels and whose planner are meant.

    Attributes:
        name: what it is called.
        dialect: the operators to cut and join with.
        has_views: whether views of constants take no memory; else each is a copy at every run.
        kernels: operators that it has beyond ExecuTorch's portable kernels.
    """

    name: str
    dialect: Dialect
    has_views: bool
    kernels: tuple[str, ...]

    def before(self, program: ExportedProgram) -> Packed:
        """The arena that a program takes without Lowtide, or under the plainest of its plans."""

    def pack(self, program: ExportedProgram, allowed: Allowed) -> Packed:
        """The arena that the runtime's planning will find."""

    def ordered(self, program: ExportedProgram) -> ExportedProgram | None:
        """The program in the order that reordering would find; None if that is the order that it has."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a fit may cost, and when it is good enough.

    Args:
        max_arena: bytes to fit into; None for as few as can be.
        max_macs: multiply-adds allowed, over those of the program.
        timeout: seconds that the search may take; None for as long as it takes.
        fold_limit: bytes by which constants may grow; None for as much as it takes.
        allow_rounding: whether changes that may round differently are allowed.

    Raises:
        InputError: a limit means nothing.
    """

    max_arena: int | None = None
    max_macs: float = 1.10
    timeout: float | None = 60
    fold_limit: int | None = 64 * 1024
    allow_rounding: bool = False

    def __post_init__(self) -> None:
        check_limits(self.max_arena, self.max_macs, self.timeout)
        if self.fold_limit is not None and self.fold_limit < 0:
            raise InputError(f"fold_limit {self.fold_limit}: give bytes, 0 or more")


@dataclass(frozen=True, slots=True)
class FitStep:
    """One thing that was done, and what it won.

    Args:
        kind: packing: another packer than the runtime's own; in_place, elide_copies: allowed to the planner;
            folding, rewrite, order, split: done to the program.
        nodes: names of the nodes that it is about; empty where it is about all.
        arena_bytes: of the program with this and all that came before.
        wins: bytes that it won, over all that came before.
        macs: multiply-adds that it costs.
        file_bytes: bytes by which the constants of the program grow.
        remark: more of it, for people.
        parts: of a split, the segments that run in parts; they win together.
    """

    kind: StepKind
    nodes: tuple[str, ...]
    arena_bytes: int
    wins: int
    macs: int = 0
    file_bytes: int = 0
    remark: str = ""
    parts: tuple[SplitStep, ...] = ()


@dataclass(frozen=True)
class Found:
    """What the search made of a program.

    Args:
        program: the new program; the given one if nothing in it had to change.
        allowed: what the planner must be allowed for the arena that was reached.
        steps: what was done, in order.
        before: the arena that the program took.
        packed: the arena that it takes now.
        macs_before, macs_after: multiply-adds.
        front: pairs of live bytes at the peak and multiply-adds: none seen has less of both.
        barriers: operators of which nothing is known, which no part crosses.
        fits: whether the arena is as small as was asked; True if nothing was asked.
        complete: whether neither the deadline nor an interrupt cut the search short.
        interrupted: whether it was stopped by hand.
        changed: whether the program itself is another.
    """

    program: ExportedProgram
    allowed: Allowed
    steps: tuple[FitStep, ...]
    before: Packed
    packed: Packed
    macs_before: int
    macs_after: int
    front: tuple[tuple[int, int], ...]
    barriers: tuple[str, ...]
    fits: bool
    complete: bool
    interrupted: bool
    changed: bool

    @property
    def arena_before(self) -> int:
        """Bytes of the arena that the program took."""
        return self.before.arena_bytes

    @property
    def arena_after(self) -> int:
        """Bytes of the arena that it takes now."""
        return self.packed.arena_bytes

    @property
    def work(self) -> float:
        """Multiply-adds over those of the given program."""
        return self.macs_after / self.macs_before if self.macs_before else 1.0
