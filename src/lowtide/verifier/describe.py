"""One fault of a plan, in words and by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.ir.problem import Plan


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


def describe_buffer(plan: Plan, position: int) -> str:
    """``root/mul (bytes 0 to 64 of arena 1, alive [3, 9))``."""
    buffer, offset = plan.problem.buffers[position], plan.offsets[position]
    spans = [f"[{start}, {stop})" for start, stop in buffer.lifetime]
    shown = " ".join(spans[:4]) + (" ..." if len(spans) > 4 else "")
    place = f"bytes {offset} to {offset + buffer.size} of arena {buffer.arena}"
    return f"{show_name(buffer.label)} ({place}, alive {shown})"


def show_name(name: str) -> str:
    """A name as it is if it prints on one line, otherwise quoted."""
    return name if name.isprintable() else repr(name)
