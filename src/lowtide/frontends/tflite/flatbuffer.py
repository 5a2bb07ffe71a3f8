"""Reading flatbuffers that strangers wrote, without a schema and without a dependency.

A flatbuffer is tables that refer to one another by offsets; what a field means only its schema tells, so
whoever reads asks for a field by its position and says what it takes it for. Every offset, count and length
is checked to lie inside the buffer before it is followed, and all that is read together may not be much more
than there is: a vector of a million references to one large table is refused, not walked.

The format: https://flatbuffers.dev/internals (tables, vtables, vectors, strings, unions).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

Scalar = Literal["b", "B", "h", "H", "i", "I", "q", "Q", "f", "d", "?"]
"""The type of a scalar as ``struct`` names it: ``B`` for ubyte and bool, ``i`` for int."""

_WIDTHS = {form: struct.calcsize(f"<{form}") for form in "bBhHiIqQfd?"}

_SHARING = 8
"""How often what is there may be read on average: writers share vtables, strings and small vectors."""


class DamagedError(Exception):
    """The buffer is no sound flatbuffer; the message names the field and the byte."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a run of bytes lies in the buffer."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


class FlatBuffer:
    """A buffer to be read with care.

    Args:
        data: the whole buffer; offsets in messages count from its start.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.size = len(data)
        self._left = _SHARING * self.size + 1024

    def root(self, name: str = "root") -> Table:
        """The root table.

        Raises:
            DamagedError: there is none.
        """
        return self.table_at(self.follow(0, name), name)

    def scalar(self, form: str, at: int, path: str) -> int | float | bool:
        """The number at a byte."""
        if not 0 <= at <= self.size - _WIDTHS[form]:
            raise DamagedError(f"{path} at byte {at} is outside of its {self.size} bytes")
        number: int | float | bool = struct.unpack_from("<" + form, self.data, at)[0]
        return number

    def follow(self, at: int, path: str) -> int:
        """Where the offset that lies at a byte leads."""
        found = at + int(self.scalar("I", at, path))
        if found == at or found > self.size - 4:
            raise DamagedError(f"{path} at byte {at} leads to byte {found} of {self.size}")
        return found

    def spend(self, amount: int, path: str) -> None:
        """Take note that some bytes were read."""
        self._left -= amount
        if self._left < 0:
            raise DamagedError(f"{path} is reached too often: tables or vectors overlap")

    def table_at(self, at: int, path: str) -> Table:
        """The table that starts at a byte."""
        vtable = at - int(self.scalar("i", at, path))
        length = int(self.scalar("H", vtable, path))
        size = int(self.scalar("H", vtable + 2, path))
        if length < 4 or length % 2 or vtable + length > self.size or size < 4 or at + size > self.size:
            raise DamagedError(f"{path} at byte {at} has a broken vtable")
        self.spend(size + length, path)
        inside = struct.unpack_from(f"<{(length - 4) // 2}H", self.data, vtable + 4)
        return Table(self, at, size, inside, path)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: fields by their position in the schema. A field's name is told from its enum, if it has one.

    Args:
        buffer: that holds it.
        at: its first byte.
        size: bytes of its inline part.
        inside: distance of each field from ``at``; 0 where it is absent.
        path: how it was reached, for messages.
    """

    buffer: FlatBuffer
    at: int
    size: int
    inside: tuple[int, ...]
    path: str

    def place(self, field: int, width: int) -> int | None:
        """First byte of a field of so many inline bytes; None if it is absent."""
        inside = self.inside[field] if field < len(self.inside) else 0
        if not inside:
            return None
        if inside < 4 or inside + width > self.size:
            raise DamagedError(f"{self.name(field)} lies outside of its table at byte {self.at}")
        return self.at + inside

    def name(self, field: int) -> str:
        """How a field is called in messages."""
        return f"{self.path}.{field.name.lower() if isinstance(field, IntEnum) else field}"

    def integer(self, field: int, form: Scalar = "i", default: int = 0) -> int:
        """A number, or its default where it is absent."""
        at = self.place(field, _WIDTHS[form])
        return default if at is None else int(self.buffer.scalar(form, at, self.name(field)))

    def table(self, field: int) -> Table | None:
        """A table, or the table that a union holds; None if it is absent."""
        at = self.place(field, 4)
        if at is None:
            return None
        path = self.name(field)
        return self.buffer.table_at(self.buffer.follow(at, path), path)

    def string(self, field: int) -> str | None:
        """Text; None if it is absent."""
        found = self.extent(field)
        if found is None:
            return None
        self.buffer.spend(4 + found.size, self.path)
        try:
            return bytes(self.buffer.data[found.start : found.stop]).decode("utf-8")
        except UnicodeDecodeError:
            raise DamagedError(f"{self.name(field)} at byte {found.start} is not UTF-8") from None

    def extent(self, field: int, width: int = 1) -> Extent | None:
        """Where a vector's elements, each of so many bytes, lie, unread; None if it is absent."""
        at = self.place(field, 4)
        if at is None:
            return None
        path = self.name(field)
        vector = self.buffer.follow(at, path)
        count = int(self.buffer.scalar("I", vector, path))
        start = vector + 4
        if count * width > self.buffer.size - start:
            raise DamagedError(f"{path} at byte {vector} should have {count} elements and is cut off")
        return Extent(start, start + count * width)

    def numbers(self, field: int, form: Scalar = "i") -> tuple[int, ...]:
        """A vector of numbers; empty if it is absent."""
        width = _WIDTHS[form]
        found = self.extent(field, width)
        if found is None:
            return ()
        self.buffer.spend(4 + found.size, self.path)
        return struct.unpack_from(f"<{found.size // width}{form}", self.buffer.data, found.start)

    def tables(self, field: int) -> list[Table]:
        """A vector of tables; empty if it is absent."""
        found = self.extent(field, 4)
        if found is None:
            return []
        path = self.name(field)
        self.buffer.spend(4 + found.size, path)
        buffer = self.buffer
        return [
            buffer.table_at(buffer.follow(at, path), f"{path}[{i}]")
            for i, at in enumerate(range(found.start, found.stop, 4))
        ]
