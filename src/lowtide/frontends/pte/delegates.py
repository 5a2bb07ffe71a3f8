"""How many outputs a delegate has: not in the call, but in the blobs of backends whose format is known."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING

from lowtide.frontends.flatbuffer.tables import DamagedError
from lowtide.frontends.pte.reading import shipped_decoder

if TYPE_CHECKING:
    from lowtide.frontends.flatbuffer.decoding import Decoder
    from lowtide.frontends.pte.methods import Method
    from lowtide.frontends.pte.reading import PteFile

XNNPACK = "XnnpackBackend"

_XNNPACK_MAGIC = b"XH00"
_XNNPACK_AT = 4
"""The header is behind four zeros: magic, its length, offset and size of the flatbuffer."""


def output_count(file: PteFile, method: Method, delegate: int) -> int | None:
    """How many of a delegate's arguments, counted from the last, are outputs; None if nobody knows."""
    if method.plan.delegates[delegate].id != XNNPACK:
        return None
    blob = blob_of(file, method, delegate)
    if blob[_XNNPACK_AT : _XNNPACK_AT + 4] != _XNNPACK_MAGIC or len(blob) < 18:
        return None
    start, size = struct.unpack_from("<II", blob, _XNNPACK_AT + 6)
    try:
        graph = _xnnpack_decoder().decode(blob[start : start + size], "XNNGraph")
    except DamagedError:
        return None
    return len(graph.output_ids or ()) or None


def blob_of(file: PteFile, method: Method, delegate: int) -> memoryview:
    """What a delegate of a method was given: bytes that only its backend understands."""
    reference = method.plan.delegates[delegate].processed
    if reference.location.name == "INLINE":
        return memoryview(bytes(file.program.backend_delegate_data[reference.index].data or b""))
    segment = file.program.segments[reference.index]
    start = file.segment_base + segment.offset
    return memoryview(file.data)[start : start + segment.size]


@cache
def _xnnpack_decoder() -> Decoder:
    return shipped_decoder("xnnpack.fbs")
