"""A whole flatbuffer as objects, by its schema: every field checked, and known, before anyone sees it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, cast

from lowtide.frontends.flatbuffer.schema import Schema, Slot
from lowtide.frontends.flatbuffer.tables import WIDTHS, DamagedError, FlatBuffer, Table

_MOST_NESTED = 32

_KINDS = {form: {"?": bool, "f": float, "d": float}.get(form, int) for form in WIDTHS}
"""What Python reads each scalar as."""


class _Position(int):
    """A field's position in its table, with its name for messages."""

    name: str

    def __new__(cls, position: int, name: str) -> _Position:
        made = super().__new__(cls, position)
        made.name = name
        return made


class UnknownFieldError(DamagedError):
    """The buffer is sound as far as can be told, but has fields that the schema does not know."""


class Record:
    """A table: its fields are attributes, absent vectors, strings and tables are None.

    Each table of a schema has a class of its own, whose name is the table's.
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


def _enum(name: str, numbers: dict[str, int]) -> type[IntEnum]:
    make: Any = IntEnum
    return cast("type[IntEnum]", make(name, numbers))


class Decoder:
    """Decodes buffers of one schema.

    Args:
        schema: of the format.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.records = {name: type(name, (Record,), {}) for name in schema.tables}
        self.enums: dict[str, Callable[[int], IntEnum]] = {
            name: _enum(name, {label: number for number, label in names.items()})
            for name, names in schema.names.items()
        }
        self._slots = {
            name: [(_Position(position, slot.name), slot) for position, slot in enumerate(slots)]
            for name, slots in schema.tables.items()
        }

    def decode(self, data: bytes | memoryview, root: str) -> Any:
        """The root table of a buffer, and all that it holds.

        Raises:
            UnknownFieldError: it has fields, numbers of enums or kinds that the schema does not know.
            DamagedError: an offset or a count leads outside, or tables share bytes.
        """
        return self._record(FlatBuffer(data).root(root), root, 0)

    def _record(self, table: Table, name: str, depth: int) -> Any:
        if depth > _MOST_NESTED:
            raise DamagedError(f"{table.path}: its tables nest too deep")
        slots = self._slots[name]
        if any(table.inside[len(slots) :]):
            raise UnknownFieldError(f"{name} has a field that this schema does not know")
        fields: dict[str, Any] = {}
        for position, slot in slots:
            fields[slot.name] = self._field(table, position, slot, fields, depth)
        return self.records[name](fields)

    def _field(self, table: Table, position: int, slot: Slot, fields: dict[str, Any], depth: int) -> Any:
        form = self.schema.scalar(slot.type)
        if slot.vector:
            return self._vector(table, position, slot, depth)
        if form is not None:
            at = table.place(position, WIDTHS[form])
            found = (
                _KINDS[form](slot.default)
                if at is None
                else table.buffer.scalar(form, at, table.name(position))
            )
            return self._named(slot.type, found, table, slot)
        if slot.type == "string":
            return table.string(position)
        if slot.type in self.schema.unions:
            return self._union(table, position, slot, int(fields[f"{slot.name}_type"]), depth)
        inner = table.table(position)
        return None if inner is None else self._record(inner, slot.type, depth + 1)

    def _union(self, table: Table, position: int, slot: Slot, choice: int, depth: int) -> Any:
        members = self.schema.unions[slot.type]
        if choice > len(members):
            raise UnknownFieldError(f"{table.path}.{slot.name} is of a kind that this schema does not know")
        inner = table.table(position) if choice else None
        return None if inner is None else self._record(inner, members[choice - 1], depth + 1)

    def _vector(self, table: Table, position: int, slot: Slot, depth: int) -> Any:
        form = self.schema.scalar(slot.type)
        if form is None:
            if table.place(position, 4) is None:
                return None
            if slot.type == "string":
                return table.strings(position)
            return [self._record(inner, slot.type, depth + 1) for inner in table.tables(position)]
        extent = table.extent(position, WIDTHS[form])
        if extent is None:
            return None
        table.buffer.spend(4 + extent.size, table.path)
        if form == "B":
            return bytes(table.buffer.data[extent.start : extent.stop])
        count = extent.size // WIDTHS[form]
        numbers = struct.unpack_from(f"<{count}{form}", table.buffer.data, extent.start)
        return [self._named(slot.type, number, table, slot) for number in numbers]

    def _named(self, type: str, number: Any, table: Table, slot: Slot) -> Any:
        """A number of an enum as the enum's own; any other as it is."""
        if type not in self.enums:
            return number
        try:
            return self.enums[type](number)
        except ValueError:
            raise UnknownFieldError(
                f"{table.path}.{slot.name} is {number}, which {type} does not know"
            ) from None
