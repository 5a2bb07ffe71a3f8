"""What no packing can beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.ir.problem import align_up, end_of
from lowtide.pack.arrays import to_kernel

if TYPE_CHECKING:
    from lowtide.ir.problem import Buffer, Problem


def live_peak(problem: Problem) -> int:
    """Most bytes alive at any time in the problem's one arena, its reserved prefix included.

    A lower bound on the arena unless live buffers may share bytes. O(n log n) in lifetime intervals.
    """
    peak: int = _kernel.live_peak(to_kernel(problem))
    return peak


def lower_bound(problem: Problem, *, peak: int | None = None) -> int:
    """Bytes that the problem's one arena needs at the least.

    The live peak where no two live buffers may share bytes. Otherwise the peak of what cannot be shared at
    any one time: a buffer inside another that is alive counts for nothing, and of buffers that may coincide
    those count of which no two may. Nor can the arena end below any buffer at its pin, or where its alignment
    first lets it lie; a buffer of no bytes may lie at 0, even if that is reserved.

    Args:
        problem: buffers of one arena.
        peak: its ``live_peak``, if that is known already.
    """
    reserved = problem.arenas[0].reserved if problem.arenas else 0
    lowest = end_of(problem.buffers, (_lowest(buffer, reserved) for buffer in problem.buffers))
    if problem.has_permissions:
        return max(_kernel.disjoint_peak(to_kernel(problem)), lowest)
    return max(live_peak(problem) if peak is None else peak, lowest)


def _lowest(buffer: Buffer, reserved: int) -> int:
    if buffer.offset is not None:
        return buffer.offset
    return align_up(reserved, buffer.alignment) if buffer.size else 0
