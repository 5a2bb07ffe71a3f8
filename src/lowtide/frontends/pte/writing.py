"""A ``.pte`` with other places, put together from what was read.

The flatbuffer is written by ExecuTorch's own serialiser, the only thing here that takes ExecuTorch. It is
given what it was given when the file was made; segments are copied as they are. Afterwards everything but
the places is compared.
"""

from __future__ import annotations

import importlib.util
import struct
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import UnsupportedError
from lowtide.base.files import show_name
from lowtide.base.lazy import quiet_imports
from lowtide.frontends.pte.methods import offset_of
from lowtide.frontends.pte.reading import PteFile, read_pte
from lowtide.ir.problem import align_up

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER_LENGTH = 32
_LARGEST_ALIGNMENT = 65536
"""Bytes: of segments, beyond which no page is."""

Spots = dict[str, dict[int, tuple[int, int]]]
"""Of each method, memory id and offset by tensor."""

Sizes = dict[str, dict[int, int]]
"""Of each method, bytes by memory id; an id that is left out has none."""

Alignments = tuple[int | None, int | None]


def rewrite(file: PteFile, spots: Spots, sizes: Sizes) -> PteFile:
    """The file with its tensors in other places and arenas of other sizes, read back.

    Args:
        file: as read; it is as it was afterwards.
        spots: new places; methods and tensors that are missing stay.
        sizes: new sizes; methods that are missing stay.

    Raises:
        UnsupportedError: ExecuTorch is missing, or the installed one cannot write it so that all else stays
            as it was.
    """
    program = _parse(file)
    plain = _serialise(program, None, None)
    alignments = _alignments(file, program, plain)
    before = _edit(program, spots, sizes)
    fresh = read_pte(_assemble(file, _serialise(program, *alignments), alignments), file.name)
    again = _parse(fresh)
    _edit(again, *before)
    if _serialise(again, None, None) != plain or fresh.segments != file.segments:
        raise UnsupportedError(
            f"{file.name}: the installed executorch does not write this file back as it was: use the version "
            "that wrote it"
        )
    return fresh


def _parse(file: PteFile) -> Any:
    """ExecuTorch's own Program of a file."""
    if importlib.util.find_spec("executorch") is None:
        raise UnsupportedError(
            f"{file.name}: to write a .pte takes ExecuTorch, which is not installed: "
            "pip install '.[executorch]'"
        )
    with quiet_imports():
        from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program

    try:
        return _flatbuffer_to_program(file.data[: file.program_bytes])
    except Exception as error:  # it checks nothing itself: whatever it trips over is in the bytes
        reason = show_name(" ".join(str(error).split())[:120])
        raise UnsupportedError(
            f"{file.name}: the installed executorch cannot read it: {type(error).__name__}: {reason}: "
            "use the version that wrote it"
        ) from None


def _edit(program: Any, spots: Spots, sizes: Sizes) -> tuple[Spots, Sizes]:
    """Change places and sizes in place; return those that were there."""
    old_spots: Spots = {}
    old_sizes: Sizes = {}
    for plan in program.execution_plan:
        old_spots[plan.name] = {}
        for value, (memory, offset) in spots.get(plan.name, {}).items():
            details = plan.values[value].val.allocation_info
            old_spots[plan.name][value] = details.memory_id, offset_of(details)
            details.memory_id = memory
            details.memory_offset_low, details.memory_offset_high = offset & 0xFFFFFFFF, offset >> 32
        if plan.name in sizes:
            old_sizes[plan.name] = dict(enumerate(plan.non_const_buffer_sizes))
            new = {0: plan.non_const_buffer_sizes[0], **sizes[plan.name]}
            plan.non_const_buffer_sizes = [new.get(memory, 0) for memory in range(max(new) + 1)]
    return old_spots, old_sizes


def _serialise(program: Any, tensors: int | None, delegates: int | None) -> bytes:
    from executorch.exir._serialize._flatbuffer_program import _program_to_flatbuffer

    return bytes(
        _program_to_flatbuffer(program, constant_tensor_alignment=tensors, delegate_alignment=delegates).data
    )


def _alignments(file: PteFile, program: Any, plain: bytes) -> Alignments:
    """The alignments of inline data that the file was written with: those that give it back byte for byte.

    If none does, because another version wrote it, those that the serialiser has by itself.
    """
    inline = bool(file.program.constant_buffer or file.program.backend_delegate_data)
    for choice in _choices(inline):
        # Without inline data alignments show in the header's length only.
        again = inline and choice != (None, None)
        flatbuffer = _serialise(program, *choice) if again else plain
        if _with_header(file, flatbuffer, choice) == file.data[: file.program_bytes]:
            return choice
    return None, None


def _choices(inline: bool) -> Iterator[Alignments]:
    """Alignments of tensors and delegates, the likeliest first."""
    yield None, None
    for power in (32 << i for i in range(8)):
        yield power, None
        if inline:
            yield None, power
            yield power, power


def _assemble(file: PteFile, flatbuffer: bytes, alignments: Alignments) -> bytes:
    head = _with_header(file, flatbuffer, alignments)
    if not file.segment_base:
        return head
    base = file.segment_base
    if len(head) > base or base - len(head) >= 2 * _segment_alignment(file):
        unit = _segment_alignment(file)
        base = align_up(len(head), unit)
    head = head[:24] + struct.pack("<Q", base) + head[32:]
    return head + bytes(base - len(head)) + file.segments


def _segment_alignment(file: PteFile) -> int:
    """The largest power of two that the segment base and every segment's offset are multiples of."""
    unit = file.segment_base & -file.segment_base
    for segment in file.program.segments:
        if segment.offset:
            unit = min(unit, segment.offset & -segment.offset)
    return min(unit, _LARGEST_ALIGNMENT)


def _with_header(file: PteFile, flatbuffer: bytes, alignments: Alignments) -> bytes:
    """The flatbuffer with the extended header put behind its identifier, as the file has one."""
    if not file.segment_base:
        return flatbuffer
    unit = max(16, *(alignment or 16 for alignment in alignments))
    padded = align_up(_HEADER_LENGTH, unit)
    root = struct.unpack_from("<I", flatbuffer)[0] + padded
    size = len(flatbuffer) + padded
    header = b"eh00" + struct.pack("<IQQQ", _HEADER_LENGTH, size, file.segment_base, _segment_bytes(file))
    return struct.pack("<I", root) + flatbuffer[4:8] + header + bytes(padded - len(header)) + flatbuffer[8:]


def _segment_bytes(file: PteFile) -> int:
    """Length of the segments as the header has it; older headers have none, and then it is what there is."""
    length, _, _, size = struct.unpack_from("<IQQQ", file.data, 12)
    return int(size) if length >= _HEADER_LENGTH else len(file.segments)
