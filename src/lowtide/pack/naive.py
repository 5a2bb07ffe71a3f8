"""naive: every buffer has bytes of its own; under the policy ``sum``, what memory costs without planning.

Looser policies let regions share even so, since each also considers the plans of the stricter ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.errors import UnsupportedError
from lowtide.ir.problem import align_up
from lowtide.pack.registry import Options, Packing

if TYPE_CHECKING:
    from lowtide.ir.problem import Problem


def naive(problem: Problem, options: Options) -> Packing:
    """Stack the buffers one above the other, in the given order; above the pinned ones, if any.

    Raises:
        UnsupportedError: a buffer has to lie inside another.
    """
    del options
    if problem.placements:
        raise UnsupportedError("packer naive gives each buffer bytes of its own: use auto for placements")
    buffers = problem.buffers
    top = problem.arenas[0].reserved if problem.arenas else 0
    for buffer in buffers:
        if buffer.offset is not None:
            top = max(top, buffer.offset + buffer.size)
    offsets = []
    for buffer in buffers:
        if buffer.offset is not None:
            offsets.append(buffer.offset)
            continue
        offset = align_up(top, buffer.alignment)
        offsets.append(offset)
        top = offset + buffer.size
    return Packing(tuple(offsets))
