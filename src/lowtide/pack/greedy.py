"""greedy: shared objects, closest size first; what ExecuTorch's own planner does.

An object is a run of bytes that holds one buffer at a time. Buffers come in the given order; each takes
the free object whose size is closest to its own, which grows if it must, or a new one. Objects are
then laid side by side. A candidate that is looked at and not taken stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.errors import UnsupportedError
from lowtide.pack.registry import Options, Packing
from lowtide.problem import align_up

if TYPE_CHECKING:
    from lowtide.problem import Buffer, Lifetime, Problem


class _Object:
    """A run of bytes and when it is taken."""

    def __init__(self) -> None:
        self.size = 0
        self.alignment = 1
        self.busy: list[tuple[int, int]] = []
        self.last = -(2**63)

    def is_free(self, lifetime: Lifetime) -> bool:
        if lifetime[0][0] >= self.last:
            return True
        return all(stop <= begin or end <= start for start, stop in lifetime for begin, end in self.busy)

    def take(self, buffer: Buffer) -> None:
        self.size = max(self.size, buffer.size)
        self.alignment = max(self.alignment, buffer.alignment)
        self.busy += buffer.lifetime
        self.last = max(self.last, buffer.lifetime[-1][1])


def greedy(problem: Problem, options: Options) -> Packing:
    """Assign shared objects, and offsets from them. O(n * objects).

    Raises:
        UnsupportedError: the problem pins buffers or places them inside others, which objects cannot honour.
    """
    del options
    if problem.placements or any(buffer.offset is not None for buffer in problem.buffers):
        raise UnsupportedError(
            "packer greedy works with whole objects: use first-fit or auto for pins and placements"
        )
    objects: list[_Object] = []
    chosen = []
    for buffer in problem.buffers:
        best = None
        for number, candidate in enumerate(objects):
            closer = best is None or abs(candidate.size - buffer.size) < abs(objects[best].size - buffer.size)
            if closer and candidate.is_free(buffer.lifetime):
                best = number
        if best is None:
            best = len(objects)
            objects.append(_Object())
        objects[best].take(buffer)
        chosen.append(best)
    offsets = []
    top = problem.arenas[0].reserved if problem.arenas else 0
    for candidate in objects:
        top = align_up(top, candidate.alignment)
        offsets.append(top)
        top += candidate.size
    return Packing(tuple(offsets[number] for number in chosen), object_ids=tuple(chosen))
