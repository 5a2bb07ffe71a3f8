"""greedy and shared-objects: memory that cannot be subdivided, such as GPU textures.

An object is a run of bytes that holds one buffer at a time and is as large as its largest; the sum of
object sizes is to be small. Objects are laid side by side, so that a plan is also one of an arena.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.base.errors import UnsupportedError
from lowtide.ir.problem import Arena, align_up
from lowtide.pack.arrays import to_kernel
from lowtide.pack.registry import Options, Packing

if TYPE_CHECKING:
    from lowtide.ir.problem import Problem


def greedy(problem: Problem, options: Options) -> Packing:
    """Closest size first, in the given order: what ExecuTorch's own planner does.

    Each buffer takes the free object whose size is closest to its own, which grows if it must, or a new one.
    A candidate that is looked at and not taken stays as it was.

    Raises:
        UnsupportedError: the problem pins buffers or places them inside others.
    """
    del options
    arrays = _arrays(problem, "greedy")
    found = _kernel.greedy_objects(arrays, range(len(problem.buffers)), "closest")
    return _side_by_side(problem, found.objects)


def shared_objects(problem: Problem, options: Options) -> Packing:
    """The least sum of object sizes: exact for small problems, local search for large ones.

    After the greedy orders of Pisarchyk and Lee (*Efficient Memory Management for Deep Neural Net Inference*,
    2020). The lower bound is that of plans with objects, which other plans may beat.

    Raises:
        UnsupportedError: the problem pins buffers or places them inside others.
    """
    arrays = _arrays(problem, "shared-objects")
    seconds = 1e9 if options.timeout is None else options.timeout
    found = _kernel.shared_objects(arrays, seconds=seconds, seed=options.seed)
    reserved = problem.arenas[0].reserved if problem.arenas else 0
    packing = _side_by_side(problem, found.objects)
    return replace(packing, lower_bound=reserved + found.lower_bound, interrupted=found.interrupted)


def _arrays(problem: Problem, packer: str) -> _kernel.Problem:
    """The problem for the kernel, which lays objects from 0 on: the reserved prefix is ours to add."""
    if problem.placements or any(buffer.offset is not None for buffer in problem.buffers):
        raise UnsupportedError(
            f"packer {packer} works with whole objects: use first-fit or auto for pins and placements"
        )
    id = problem.arenas[0].id if problem.arenas else 1
    return to_kernel(replace(problem, arenas=(Arena(id),), may_coincide=()))


def _side_by_side(problem: Problem, objects: list[int]) -> Packing:
    """Offsets and object ids from the object of each buffer; zero bytes fit into the first."""
    objects = [max(number, 0) for number in objects]
    size = [0] * (max(objects, default=-1) + 1)
    alignment = [1] * len(size)
    for buffer, number in zip(problem.buffers, objects, strict=True):
        size[number] = max(size[number], buffer.size)
        alignment[number] = max(alignment[number], buffer.alignment)
    top = problem.arenas[0].reserved if problem.arenas else 0
    offsets = []
    for bytes_, multiple in zip(size, alignment, strict=True):
        top = align_up(top, multiple)
        offsets.append(top)
        top += bytes_
    return Packing(tuple(offsets[number] for number in objects), object_ids=tuple(objects))
