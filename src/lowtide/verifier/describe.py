"""Buffers of a plan in words, for violations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.files import show_name

if TYPE_CHECKING:
    from lowtide.ir.plan import Plan


def describe_buffer(plan: Plan, position: int) -> str:
    """``root/mul (bytes 0 to 64 of arena 1, alive [3, 9))``."""
    buffer, offset = plan.problem.buffers[position], plan.offsets[position]
    spans = [f"[{start}, {stop})" for start, stop in buffer.lifetime]
    shown = " ".join(spans[:4]) + (" ..." if len(spans) > 4 else "")
    place = f"bytes {offset} to {offset + buffer.size} of arena {buffer.arena}"
    return f"{show_name(buffer.label)} ({place}, alive {shown})"
