"""What a ``.pte`` holds, segment by segment: bytes stay where the file is, unless a loader copies them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowtide.frontends.pte.allocating import is_external
from lowtide.ir.device_memory import RamPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lowtide.frontends.pte.methods import Method
    from lowtide.frontends.pte.reading import PteFile

_PLACEHOLDERS = 1
"""The first offset of a segment of constants stands for tensors without any."""


def segments_of(file: PteFile, method: Method, *, copied: bool) -> Iterator[RamPart]:
    """The parts of a file that loading a method makes use of.

    Args:
        file: which holds it.
        method: of the file.
        copied: whether the loader copies what it loads into RAM.
    """

    def part(what: str, size: int, count: int, remark: str, in_ram: bool = copied) -> RamPart:
        return RamPart("file", what, size, count, in_ram, remark)

    program = file.program
    segments = program.segments or ()
    yield part("program", file.program_bytes, 1, "tables that the runtime reads while it runs")
    constants = program.constant_segment
    if constants is not None and len(constants.offsets or ()) > _PLACEHOLDERS:
        size = segments[constants.segment_index].size
        yield part("constants", size, len(constants.offsets) - _PLACEHOLDERS, "of all methods")
    firsts = {group.segment_index for group in program.mutable_data_segments or () if group.offsets}
    if firsts:
        size = sum(segments[index].size for index in firsts)
        yield part("first values of state", size, len(firsts), "read into the arena", in_ram=False)
    blobs = [delegate.processed.index for delegate in method.plan.delegates or () if _is_apart(delegate)]
    if blobs:
        size = sum(segments[index].size for index in set(blobs))
        yield part("delegate blobs", size, len(blobs), "for as long as the backend keeps them")
    named = {entry.segment_index for entry in program.named_data or ()}
    if named:
        size = sum(segments[index].size for index in named)
        yield part("named data", size, len(named), "as backends ask for it")
    outside = dict(_external_tensors(method))
    if outside:
        yield part("constants of another file", sum(outside.values()), len(outside), "that comes along")


def _is_apart(delegate: Any) -> bool:
    """Whether a delegate's blob is a segment, and not inside the program."""
    return bool(delegate.processed.location.name == "SEGMENT")


def _external_tensors(method: Method) -> Iterator[tuple[str, int]]:
    for tensor in method.tensors.values():
        if tensor.constant and is_external(method.plan.values[tensor.index].val):
            yield tensor.name, tensor.size
