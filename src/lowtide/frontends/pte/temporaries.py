"""What kernels and delegates ask for while they run, and what delegates keep: as far as it is known."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from lowtide.frontends.pte.allocating import Allocation
from lowtide.frontends.pte.delegates import XNNPACK, blob_of
from lowtide.frontends.pte.structures import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lowtide.frontends.pte.methods import Method, PteInstruction
    from lowtide.frontends.pte.reading import PteFile

ETHOS_U = "EthosUBackend"

HANDLES: dict[str, dict[str, Structure]] = {XNNPACK: {"host": Structure(272, 8)}}
"""What a backend's ``init`` takes from the method allocator for each delegate, by device."""

WITHOUT_HANDLES = {ETHOS_U}
"""Backends whose ``init`` takes nothing from it."""

QUIET_LIBRARIES = ("aten", "dim_order_ops", "quantized_decomposed", "cortex_m", "executorch_prim")
"""Operators of ExecuTorch's portable, optimised, quantised and Cortex-M kernels, of which ``topk`` alone asks
for temporary memory."""

HEAPS = {
    XNNPACK: "packed weights and its workspace",
    ETHOS_U: "a handle per delegate, and fast scratch where the NPU has SRAM of its own",
}
"""What a backend takes from the C library's heap, which no file tells the size of."""

_TOPK = "aten::topk.values"
_VELA_HEAD = 32
"""Bytes in front of a block: a name of 16, its length, padding."""


def handle_of(backend: str, device: str) -> Structure | None:
    """What a backend's delegate takes from the method allocator; None if nobody knows."""
    if backend in WITHOUT_HANDLES:
        return Structure(0, 1)
    return HANDLES.get(backend, {}).get(device)


def asks_for(file: PteFile, method: Method, call: PteInstruction, pointer: Structure) -> Allocation | None:
    """Temporary memory that an instruction asks for while it runs; None if none that is known."""
    if call.kind == "kernel" and call.operator == _TOPK:
        return Allocation("topk", _topk_bytes(method, call), pointer.alignment)
    if call.kind == "delegate" and call.operator == ETHOS_U:
        scratch = _ethos_u_scratch(bytes(blob_of(file, method, call.delegate)))
        return None if scratch is None else Allocation("Ethos-U scratch", scratch, 16)
    return None


def unread_scratch(file: PteFile, method: Method) -> int:
    """How many delegates of an Ethos-U have a blob that does not tell their scratch."""
    delegates = enumerate(method.plan.delegates or ())
    blobs = (bytes(blob_of(file, method, at)) for at, delegate in delegates if delegate.id == ETHOS_U)
    return sum(_ethos_u_scratch(blob) is None for blob in blobs)


def strangers(method: Method) -> tuple[str, ...]:
    """Operators, and backends, of which nobody knows what they ask for."""
    calls = (call for call in method.instructions if call.kind in ("kernel", "delegate"))
    return tuple(dict.fromkeys(call.operator for call in calls if not _is_known(call)))


def _is_known(call: PteInstruction) -> bool:
    if call.kind == "delegate":
        return call.operator in (XNNPACK, ETHOS_U)
    return call.operator.partition("::")[0] in QUIET_LIBRARIES


def _topk_bytes(method: Method, call: PteInstruction) -> int:
    """A pair of number and position for each element along the dimension."""
    if len(call.args) < 3:
        return 0
    tensor = method.tensors.get(call.args[0])
    count, dimension = method.scalar(call.args[1]), method.scalar(call.args[2])
    if tensor is None or not isinstance(dimension, int) or 0 in tensor.shape:
        return 0
    if count == 0 and tensor.shape:
        return 0
    lengths = tensor.shape or (1,)
    return 16 * lengths[dimension] if -len(lengths) <= dimension < len(lengths) else 0


def _ethos_u_scratch(blob: bytes) -> int | None:
    """The block ``scratch_size`` of what Vela compiled; None if there is none."""
    for name, start, size in _vela_blocks(blob):
        if name == b"scratch_size" and size >= 4:
            return int(struct.unpack_from("<I", blob, start)[0])
    return None


def _vela_blocks(blob: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name, first byte and length of every block."""
    at = 0
    while at + _VELA_HEAD <= len(blob):
        name = blob[at : at + 16].rstrip(b"\0")
        (size,) = struct.unpack_from("<I", blob, at + 16)
        if at + _VELA_HEAD + size > len(blob):
            return
        yield name, at + _VELA_HEAD, size
        at += _VELA_HEAD + (size + 15 & ~15)
