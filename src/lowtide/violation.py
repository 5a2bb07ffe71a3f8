"""One fault of a plan, in words and by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.problem import Plan


@dataclass(frozen=True, slots=True)
class Violation:
    """A fault of a plan.

    Args:
        kind: overlap, lost, misaligned, outside, reserved, capacity, pin, placement, objects, totals,
            misfit, unplaced, twice, unasked, unknown.
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
    return f"{buffer.label} (bytes {offset} to {offset + buffer.size} of arena {buffer.arena}, alive {shown})"
