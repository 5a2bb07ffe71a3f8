"""A model with other offsets, in which every old byte is kept.

To serialise a model again would lose the alignment of its weights, and whatever a newer schema has. So
offsets of the same number are written over those that are there; otherwise a block goes in front: a new
root table, which refers to what the old one referred to, new vectors of buffers and metadata, and the
offsets. The block is a multiple of 64 bytes, so that what follows is aligned as it was.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from lowtide.base.errors import LowtideError, UnsupportedError
from lowtide.frontends.flatbuffer.tables import FlatBuffer
from lowtide.frontends.tflite.metadata import NAME, encode, entry_of
from lowtide.frontends.tflite.reading import IDENTIFIER, ModelField, read_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.flatbuffer.tables import Table
    from lowtide.frontends.tflite.model import Metadata, Model

_BLOCK = 64
_DATA = 16
"""Bytes: alignments of the block and of a buffer's content."""

_LIMIT = 2**31


def with_offsets(model: Model, offsets: Sequence[int]) -> Model:
    """The model with these offsets, read back.

    Args:
        model: as read.
        offsets: one a tensor of all subgraphs, -1 for those that the interpreter is to place.

    Raises:
        UnsupportedError: its root has fields that are not known here, or it would become too large.
        LowtideError: what was written is not what was read, but for the offsets.
    """
    content = encode(model, offsets)
    entry = entry_of(model)
    place = None if entry is None else model.buffers[model.metadata[entry].buffer]
    if entry is not None and place is not None and place.size == len(content) and _is_alone(model, entry):
        data = model.data[: place.start] + content + model.data[place.stop :]
    else:
        data = _with_block(model, content, entry)
    fresh = read_model(data, model.name)
    _compare(model, fresh, content)
    return fresh


def _is_alone(model: Model, entry: int) -> bool:
    """Whether nothing but this entry of the metadata uses the bytes of its buffer."""
    own = model.metadata[entry].buffer
    place = model.buffers[own]
    assert place is not None
    users = [tensor.buffer for tensor in model.tensors]
    users += [other.buffer for i, other in enumerate(model.metadata) if i != entry]
    others = (extent for i, extent in enumerate(model.buffers) if extent is not None and i != own)
    return own not in users and all(e.stop <= place.start or e.start >= place.stop for e in others)


def _with_block(model: Model, content: bytes, entry: int | None) -> bytes:
    """The old file behind a block with a new root."""
    root = FlatBuffer(model.data).root("model")
    if any(root.inside[len(ModelField) :]):
        raise UnsupportedError(
            f"{model.name}: its root has fields that are not known here: use a newer Lowtide"
        )
    block = _Block()
    block.root(root)
    buffers: list[_Place] = [table.at for table in root.tables(ModelField.BUFFERS)]
    entries: list[_Place] = [table.at for table in root.tables(ModelField.METADATA)]
    fresh = len(entries) if entry is None else entry
    entries[fresh : fresh + 1] = ["entry"]
    block.vector("buffers", [*buffers, "buffer"])
    block.vector("metadata", entries)
    block.table("entry", ["name", len(buffers).to_bytes(4, "little")])
    block.content("name", NAME.encode(), end=b"\0")
    block.table("buffer", ["content"])
    block.content("content", content, alignment=_DATA)
    data = block.finish() + model.data
    if len(data) >= _LIMIT:
        raise UnsupportedError(f"{model.name}: with offsets it would have 2 GiB or more")
    return data


_Place = int | str
"""Where something lies: a byte of the old file, or the name of something in the block."""


class _Block:
    """What goes in front of a file. Offsets lead forward, so what refers comes before what is referred to."""

    def __init__(self) -> None:
        self.bytes = bytearray(4) + IDENTIFIER
        self.links: list[tuple[int, _Place]] = [(0, "root")]  # where an offset lies, and where it leads
        self.names: dict[str, int] = {}

    def root(self, old: Table) -> None:
        """A root table that refers to what the old one refers to, but for buffers and metadata."""
        fields: list[_Place | bytes | None] = []
        for field in ModelField:
            at = old.place(field, 4)
            if field in (ModelField.BUFFERS, ModelField.METADATA):
                fields.append(field.name.lower())
            elif at is None:
                fields.append(None)
            elif field == ModelField.VERSION:
                fields.append(bytes(old.buffer.data[at : at + 4]))
            else:
                fields.append(old.buffer.follow(at, old.name(field)))
        self.table("root", fields)

    def table(self, name: str, fields: Sequence[_Place | bytes | None]) -> None:
        """A table of fields of four bytes each: a number, an offset, or None for an absent one."""
        present = [field for field in fields if field is not None]
        vtable = 4 + 2 * len(fields)
        self.pad(4, before=vtable)
        self.bytes += struct.pack("<HH", vtable, 4 + 4 * len(present))
        inside = 4
        for field in fields:
            self.bytes += struct.pack("<H", 0 if field is None else inside)
            inside += 0 if field is None else 4
        self.names[name] = len(self.bytes)
        self.bytes += struct.pack("<i", vtable)
        for field in present:
            self.number_or_link(field)

    def vector(self, name: str, targets: Sequence[_Place]) -> None:
        """A vector of references."""
        self.pad(4)
        self.names[name] = len(self.bytes)
        self.bytes += struct.pack("<I", len(targets))
        for target in targets:
            self.number_or_link(target)

    def content(self, name: str, content: bytes, *, alignment: int = 4, end: bytes = b"") -> None:
        """A vector of bytes, or a string."""
        self.pad(alignment, before=4)
        self.names[name] = len(self.bytes)
        self.bytes += struct.pack("<I", len(content)) + content + end

    def pad(self, alignment: int, before: int = 0) -> None:
        """Fill up so that what follows after so many bytes more is aligned."""
        self.bytes += bytes(-(len(self.bytes) + before) % alignment)

    def number_or_link(self, field: _Place | bytes) -> None:
        if isinstance(field, bytes):
            self.bytes += field
        else:
            self.links.append((len(self.bytes), field))
            self.bytes += bytes(4)

    def finish(self) -> bytes:
        """The block, padded, with its offsets filled in."""
        self.pad(_BLOCK)
        size = len(self.bytes)
        for at, target in self.links:
            found = self.names[target] if isinstance(target, str) else size + target
            struct.pack_into("<I", self.bytes, at, found - at)
        return bytes(self.bytes)


def _compare(old: Model, new: Model, content: bytes) -> None:
    """Refuse a file in which anything but the offsets is another: a fault of the writer, not of the file."""
    entry = entry_of(new)
    offsets = new.metadata[entry].buffer if entry is not None else -1
    same = (
        entry is not None
        and new.content(offsets) == content
        and new.subgraphs == old.subgraphs
        and _others(new) == _others(old)
        and all(new.content(i) == old.content(i) for i in range(len(old.buffers)) if i != offsets)
    )
    if not same:
        raise LowtideError(f"{old.name}: could not be written so that all else stays as it was")


def _others(model: Model) -> list[Metadata]:
    return [entry for entry in model.metadata if entry.name != NAME]
