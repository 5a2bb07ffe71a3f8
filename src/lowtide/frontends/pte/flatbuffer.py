"""Is a buffer a sound flatbuffer of a schema? Asked before any parser trusts its offsets.

Python's flatbuffer reader follows whatever offset and count it is given: a damaged file makes it read
elsewhere, or read one table a billion times. Here every table, vector and string is checked to lie inside
the buffer, every field to be one that the schema knows, and the whole to be no larger than the buffer
itself, so that whoever parses it afterwards needs time and memory linear in its length.

The schema is read from the ``.fbs`` file that the format's own package ships (the grammar of flatbuffers'
schema language, as far as such files use it).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

SCALARS = {
    "bool": 1,
    "byte": 1,
    "ubyte": 1,
    "int8": 1,
    "uint8": 1,
    "short": 2,
    "ushort": 2,
    "int16": 2,
    "uint16": 2,
    "int": 4,
    "uint": 4,
    "int32": 4,
    "uint32": 4,
    "float": 4,
    "float32": 4,
    "long": 8,
    "ulong": 8,
    "int64": 8,
    "uint64": 8,
    "double": 8,
    "float64": 8,
}
"""Bytes of each scalar type of the schema language."""

_MOST_NESTED = 32


class DamagedError(Exception):
    """The buffer is not what its schema says; the message says where, for the caller to put in context."""


class UnknownFieldError(DamagedError):
    """The buffer is sound as far as can be told, but has fields that the schema does not know."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One entry of a table's vtable.

    Args:
        name: of the field; a union has two slots, the first of which is its type.
        type: a scalar, ``string``, a table, an enum's base, a union; of an element for a vector.
        vector: whether it is a vector of such.
    """

    name: str
    type: str
    vector: bool = False


@dataclass(frozen=True)
class Schema:
    """Tables, enums and unions by name."""

    tables: dict[str, tuple[Slot, ...]] = field(default_factory=dict)
    enums: dict[str, str] = field(default_factory=dict)
    unions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    identifier: str = ""

    def width(self, type: str) -> int | None:
        """Bytes of a scalar or enum; None for what is reached by an offset."""
        return SCALARS.get(self.enums.get(type, type))


def parse_schema(*texts: str) -> Schema:
    """The schema that some ``.fbs`` files describe together."""
    schema = ""
    for text in texts:
        schema += re.sub(r"//[^\n]*", "", text)
    enums = dict(re.findall(r"\benum\s+(\w+)\s*:\s*(\w+)", schema))
    unions = {
        name: tuple(part.split(":")[-1].strip() for part in body.split(",") if part.strip())
        for name, body in re.findall(r"\bunion\s+(\w+)\s*\{([^}]*)\}", schema)
    }
    tables = {}
    for name, body in re.findall(r"\btable\s+(\w+)\s*\{([^}]*)\}", schema):
        slots: list[Slot] = []
        for label, vector, type in re.findall(r"(\w+)\s*:\s*(\[)?\s*(\w+)", re.sub(r"\([^)]*\)", "", body)):
            if type in unions and not vector:
                slots.append(Slot(f"{label}_type", "ubyte"))
            slots.append(Slot(label, type, bool(vector)))
        tables[name] = tuple(slots)
    identifier = re.search(r'\bfile_identifier\s+"([^"]*)"', schema)
    return Schema(tables, enums, unions, identifier.group(1) if identifier else "")


def check(data: bytes | memoryview, schema: Schema, root: str, start: int = 0) -> None:
    """Check a whole buffer.

    Args:
        data: the buffer; offsets are relative to ``start``.
        schema: what it should be.
        root: name of the root table.
        start: where the offset of the root table is.

    Raises:
        UnknownFieldError: it has fields that the schema does not know.
        DamagedError: an offset or a count leads outside, or tables share bytes.
    """
    checker = _Checker(data, schema)
    checker.table(checker.offset(start), root, 0)


def count_in_root(data: bytes | memoryview, schema: Schema, root: str, name: str) -> int:
    """How many elements a vector field of the root table has; 0 if it is absent. Checks the buffer first."""
    check(data, schema, root)
    position = struct.unpack_from("<I", data, 0)[0]
    vtable = position - struct.unpack_from("<i", data, position)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    slot = next(i for i, slot in enumerate(schema.tables[root]) if slot.name == name)
    at = 4 + 2 * slot
    inside = struct.unpack_from("<H", data, vtable + at)[0] if at < size else 0
    if not inside:
        return 0
    vector = position + inside + struct.unpack_from("<I", data, position + inside)[0]
    return int(struct.unpack_from("<I", data, vector)[0])


class _Checker:
    def __init__(self, data: bytes | memoryview, schema: Schema) -> None:
        self.data, self.schema, self.size = data, schema, len(data)
        # Writers share vtables and may share strings. Nothing else is written once and used twice, so
        # what a walk meets cannot be much more than what there is.
        self.left = 4 * self.size + 1024

    def number(self, form: str, at: int, width: int) -> int:
        if not 0 <= at <= self.size - width:
            raise DamagedError(f"byte {at} is outside of its {self.size} bytes")
        return int(struct.unpack_from(form, self.data, at)[0])

    def offset(self, at: int) -> int:
        """Where an offset that lies at ``at`` leads."""
        found = at + self.number("<I", at, 4)
        if found == at or found > self.size - 4:
            raise DamagedError(f"the offset at byte {at} leads to byte {found} of {self.size}")
        return found

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise DamagedError("its tables overlap")

    def table(self, at: int, name: str, depth: int) -> None:
        if depth > _MOST_NESTED:
            raise DamagedError("its tables nest too deep")
        vtable = at - self.number("<i", at, 4)
        length, size = self.number("<H", vtable, 2), self.number("<H", vtable + 2, 2)
        if length < 4 or length % 2 or vtable + length > self.size or size < 4 or at + size > self.size:
            raise DamagedError(f"the table at byte {at} ({name}) has a broken vtable")
        self.spend(size + length)
        slots = self.schema.tables[name]
        found: dict[str, int] = {}
        for i in range((length - 4) // 2):
            inside = self.number("<H", vtable + 4 + 2 * i, 2)
            if not inside:
                continue
            if i >= len(slots):
                raise UnknownFieldError(f"{name} has a field that this schema does not know")
            slot = slots[i]
            width = 4 if slot.vector else self.schema.width(slot.type) or 4
            if inside < 4 or inside + width > size:
                raise DamagedError(f"{name}.{slot.name} lies outside of its table at byte {at}")
            self.field(slot, at + inside, found, name, depth)

    def field(self, slot: Slot, at: int, found: dict[str, int], table: str, depth: int) -> None:
        if slot.vector:
            self.vector(slot, self.offset(at), depth)
        elif self.schema.width(slot.type) is not None:
            if slot.type == "ubyte":
                found[slot.name] = self.number("<B", at, 1)
        elif slot.type == "string":
            self.string(self.offset(at))
        elif slot.type in self.schema.unions:
            choice = found.get(f"{slot.name}_type", 0)
            members = self.schema.unions[slot.type]
            if choice > len(members):
                raise UnknownFieldError(f"{table}.{slot.name} is of a kind that this schema does not know")
            if choice:
                self.table(self.offset(at), members[choice - 1], depth + 1)
        else:
            self.table(self.offset(at), slot.type, depth + 1)

    def vector(self, slot: Slot, at: int, depth: int) -> None:
        count = self.number("<I", at, 4)
        width = self.schema.width(slot.type) or 4
        if count * width > self.size - at - 4:
            raise DamagedError(f"{slot.name} at byte {at} should have {count} elements and is cut off")
        self.spend(4 + count * width)
        if self.schema.width(slot.type) is not None:
            return
        for i in range(count):
            element = self.offset(at + 4 + 4 * i)
            if slot.type == "string":
                self.string(element)
            else:
                self.table(element, slot.type, depth + 1)

    def string(self, at: int) -> None:
        length = self.number("<I", at, 4)
        if length > self.size - at - 4:
            raise DamagedError(f"a string at byte {at} should have {length} characters and is cut off")
        self.spend(4 + length)
        try:
            bytes(self.data[at + 4 : at + 4 + length]).decode("utf-8")
        except UnicodeDecodeError:
            raise DamagedError(f"the string at byte {at} is not UTF-8") from None
