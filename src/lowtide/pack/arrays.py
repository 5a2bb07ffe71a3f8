"""The bridge to the C++ kernel: a Problem with one arena as arrays of integers."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.base.errors import LowtideError

if TYPE_CHECKING:
    from lowtide.ir.problem import Problem


def to_kernel(problem: Problem) -> _kernel.Problem:
    """The same problem for the kernel; buffers keep their positions.

    Raises:
        LowtideError: the problem has more than one arena.
    """
    if len(problem.arenas) > 1:
        raise LowtideError("a packer is given one arena at a time: split the problem first")
    buffers = problem.buffers
    arena = problem.arenas[0] if problem.arenas else None
    first, start, stop = array("q", [0]), array("q"), array("q")
    for buffer in buffers:
        for begin, end in buffer.lifetime:
            start.append(begin)
            stop.append(end)
        first.append(len(start))
    index = problem.index if problem.has_permissions else {}
    return _kernel.Problem(
        size=array("q", [b.size for b in buffers]),
        alignment=array("q", [b.alignment for b in buffers]),
        pin=array("q", [-1 if b.offset is None else b.offset for b in buffers]),
        first=first,
        start=start,
        stop=stop,
        reserved=arena.reserved if arena else 0,
        capacity=-1 if arena is None or arena.capacity is None else arena.capacity,
        coincide=[(index[a], index[b]) for a, b in problem.may_coincide],
        placements=[(index[p.inner], index[p.outer], p.distance) for p in problem.placements],
    )
