"""How many bytes of each buffer a run reads and writes, counted from what runs.

A step reads each storage that it looks at once, whatever the windows that it looks through, and writes each
that it writes once. What lies in a loop's body counts once, since nobody knows how often the body runs, and
the slices of a loop over slices make up the whole once. Copies within one buffer move nothing. What a caller
writes into inputs and reads from outputs is the caller's, and not counted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.ir.flow import FlowGraph, Point
    from lowtide.ir.problem import Problem


def with_accesses(problem: Problem, flow: FlowGraph) -> Problem:
    """The problem with what its buffers' steps read and write.

    Args:
        problem: made of the program points; buffers that these do not know keep what they say.
        flow: program points.
    """
    buffer_of = _buffers_of_storages(problem, flow)
    reads, writes = [0] * len(problem.buffers), [0] * len(problem.buffers)
    for storage, counted in enumerate(storage_accesses(problem, flow)):
        if buffer_of[storage] >= 0:
            reads[buffer_of[storage]] += counted[0]
            writes[buffer_of[storage]] += counted[1]
    known = set(buffer_of)
    buffers = tuple(
        replace(buffer, reads=reads[i], writes=writes[i]) if i in known else buffer
        for i, buffer in enumerate(problem.buffers)
    )
    return replace(problem, buffers=buffers)


def storage_accesses(problem: Problem, flow: FlowGraph) -> list[tuple[int, int]]:
    """Bytes read from and written to each storage, by position; copies within one buffer move nothing."""
    storages = flow.program.storages
    buffer_of = _buffers_of_storages(problem, flow)
    reads, writes = [0] * len(storages), [0] * len(storages)
    for point in flow.points:
        if point.kind in ("entry", "exit"):
            continue
        read, written = _touched(point, buffer_of)
        for counts, touched in ((reads, read), (writes, written)):
            for storage in touched:
                counts[storage] += storages[storage].size or 0
    return list(zip(reads, writes, strict=True))


def _buffers_of_storages(problem: Problem, flow: FlowGraph) -> list[int]:
    """Position of the buffer that holds each storage; -1 if none does."""
    holder = _holders(problem)
    return [holder.get(storage.name, -1) for storage in flow.program.storages]


def _holders(problem: Problem) -> dict[str, int]:
    """Position of the buffer that holds each storage, by the storage's name."""
    found: dict[str, int] = {}
    for i, buffer in enumerate(problem.buffers):
        for name in buffer.members or (buffer.id,):
            found[name] = i
    return found


def _touched(point: Point, buffer_of: list[int]) -> tuple[set[int], set[int]]:
    """Storages that a point reads and those that it writes, without copies of a buffer onto itself."""
    read, written = set(point.reads), {*point.writes, *point.partial}
    for copy in point.copies:
        target = copy.target_storage
        sources = copy.source_storages
        here = None if target is None else buffer_of[target]
        if (
            sources
            and here is not None
            and here >= 0
            and all(buffer_of[source] == here for source in sources)
        ):
            read.difference_update(sources)
            continue
        read.update(sources)
        if target is not None:
            written.add(target)
    return read, written
