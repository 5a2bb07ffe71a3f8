"""The exceptions that Lowtide raises on purpose.

Every message is one line that names the file, the buffer or the node, and says what to do. The
command line prints it and exits 2, or 1 if the answer is no: a plan is wrong, a replay differs, no
plan fits. Nothing else is ever shown to a user without ``--traceback``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class LowtideError(Exception):
    """Base class of everything that Lowtide raises on purpose."""


class InputError(LowtideError):
    """A file or an argument cannot be used as it stands."""


class UnsupportedError(LowtideError):
    """The input is legal, but Lowtide cannot plan it: an unknown operator, a feature out of reach."""


class InfeasibleError(LowtideError):
    """No plan can fit: the pins contradict each other, or the capacity is below what is needed."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A fault of a plan.

    Args:
        kind: of the plan alone: overlap, alignment, capacity, reserved, pin, placement, objects, totals;
            against its program or problem: lost, misfit, unplaced, unasked, unknown, twice, frees.
        message: one line with names, lifetimes and byte ranges.
        buffers: names of the buffers or storages concerned.
    """

    kind: str
    message: str
    buffers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.message


class VerificationError(LowtideError):
    """A plan is wrong. ``violations`` lists every fault found."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations)
        more = f" (and {len(self.violations) - 1} more)" if len(self.violations) > 1 else ""
        super().__init__(f"the plan is wrong: {self.violations[0]}{more}")


def first_line(error: BaseException) -> str:
    """Somebody else's exception on one line: its type, and the first line of what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


class ReplayError(LowtideError):
    """A planned run did not compute what the same program computes with separate storage."""


class ProgramError(ReplayError):
    """The program itself fails on these inputs, whatever its plan; the command line exits 2."""


class UntestedVersionWarning(UserWarning):
    """A package that Lowtide builds on is newer than any that its tests were run with."""
