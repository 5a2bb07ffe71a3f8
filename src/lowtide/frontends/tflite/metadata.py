"""The offsets that a model carries for the interpreter: its ``OfflineMemoryAllocation`` metadata.

Little-endian int32s: version, number of subgraphs, number of tensors, then an offset for each tensor of all
subgraphs, constants included; -1 leaves a tensor to the interpreter, which ignores the first two numbers and
checks no offset. The format: docs/memory_management.md of TensorFlow Lite Micro.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from lowtide.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.tflite.model import Model

NAME = "OfflineMemoryAllocation"
"""Of the metadata, exactly."""

ONLINE = -1
"""The offset of what the interpreter is to place itself."""

_HEAD = struct.Struct("<iii")
_VERSION = 1


def entry_of(model: Model) -> int | None:
    """Position of the offsets among the metadata: the last of that name, as the interpreter takes it."""
    found = [i for i, entry in enumerate(model.metadata) if entry.name == NAME]
    return found[-1] if found else None


def offsets_in(model: Model) -> tuple[int, ...] | None:
    """The offsets that a model carries, one a tensor of all subgraphs; None if it has none.

    Raises:
        InputError: it has some, but the interpreter would refuse them or read behind them.
    """
    entry = entry_of(model)
    if entry is None:
        return None
    data = model.content(model.metadata[entry].buffer)
    if len(data) < _HEAD.size:
        raise InputError(f"{model.name}: its offsets are cut short: convert it again")
    count = _HEAD.unpack_from(data)[2]
    if count != model.tensor_count:
        raise InputError(
            f"{model.name}: has {model.tensor_count} tensors and offsets for {count}: convert it again"
        )
    if len(data) < _HEAD.size + 4 * count:
        raise InputError(f"{model.name}: its offsets are cut short: convert it again")
    return struct.unpack_from(f"<{count}i", data, _HEAD.size)


def encode(model: Model, offsets: Sequence[int]) -> bytes:
    """The content of the metadata for these offsets, one a tensor of all subgraphs."""
    assert len(offsets) == model.tensor_count
    head = _HEAD.pack(_VERSION, len(model.subgraphs), len(offsets))
    return head + struct.pack(f"<{len(offsets)}i", *offsets)
