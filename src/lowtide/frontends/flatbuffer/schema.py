"""The schema of a flatbuffer format, read off the ``.fbs`` text that the format's authors publish.

Only the part of the schema language that such files use is understood: tables of scalars, strings, vectors,
tables, enums and unions (https://flatbuffers.dev/schema).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lowtide.frontends.flatbuffer.tables import Scalar

SCALARS: dict[str, Scalar] = {
    "bool": "?",
    **dict.fromkeys(("byte", "int8"), "b"),
    **dict.fromkeys(("ubyte", "uint8"), "B"),
    **dict.fromkeys(("short", "int16"), "h"),
    **dict.fromkeys(("ushort", "uint16"), "H"),
    **dict.fromkeys(("int", "int32"), "i"),
    **dict.fromkeys(("uint", "uint32"), "I"),
    **dict.fromkeys(("long", "int64"), "q"),
    **dict.fromkeys(("ulong", "uint64"), "Q"),
    **dict.fromkeys(("float", "float32"), "f"),
    **dict.fromkeys(("double", "float64"), "d"),
}
"""Scalar types of the schema language, as ``struct`` names them."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One entry of a table's vtable.

    Args:
        name: of the field; a union has two slots, the first of which is its type.
        type: a scalar, ``string``, a table, an enum or a union; of an element for a vector.
        vector: whether it is a vector of such.
        default: of a scalar or an enum that is absent.
    """

    name: str
    type: str
    vector: bool = False
    default: int | float = 0


@dataclass(frozen=True)
class Schema:
    """Tables, enums and unions by name.

    Args:
        tables: the slots of each table, in the order of its vtable.
        enums: the scalar type of each enum.
        names: of each enum, the name of each number.
        unions: the tables that each union may hold, in the order of their numbers from 1 on.
        identifier: what stands at byte 4 of every file.
    """

    tables: dict[str, tuple[Slot, ...]] = field(default_factory=dict)
    enums: dict[str, str] = field(default_factory=dict)
    names: dict[str, dict[int, str]] = field(default_factory=dict)
    unions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    identifier: str = ""

    def scalar(self, type: str) -> Scalar | None:
        """The scalar that a scalar type or enum is stored as; None for what is reached by an offset."""
        return SCALARS.get(self.enums.get(type, type))


def parse_schema(*texts: str) -> Schema:
    """The schema that some ``.fbs`` files describe together."""
    schema = "".join(re.sub(r"//[^\n]*", "", text) for text in texts)
    enums, names = {}, {}
    for name, base, body in re.findall(r"\benum\s+(\w+)\s*:\s*(\w+)\s*(?:\([^)]*\)\s*)?\{([^}]*)\}", schema):
        enums[name], names[name] = base, _numbered(body)
    unions = {
        name: tuple(part.split(":")[-1].strip() for part in body.split(",") if part.strip())
        for name, body in re.findall(r"\bunion\s+(\w+)\s*\{([^}]*)\}", schema)
    }
    numbers = {name: {label: number for number, label in found.items()} for name, found in names.items()}
    tables = {
        name: tuple(_slots(body, unions, numbers))
        for name, body in re.findall(r"\btable\s+(\w+)\s*\{([^}]*)\}", schema)
    }
    identifier = re.search(r'\bfile_identifier\s+"([^"]*)"', schema)
    return Schema(tables, enums, names, unions, identifier.group(1) if identifier else "")


def _numbered(body: str) -> dict[int, str]:
    """The names of an enum by number; one without a number follows the one before it."""
    found: dict[int, str] = {}
    number = -1
    for part in filter(None, map(str.strip, body.split(","))):
        label, _, value = (piece.strip() for piece in part.partition("="))
        number = int(value, 0) if value else number + 1
        found[number] = label
    return found


def _slots(body: str, unions: dict[str, tuple[str, ...]], numbers: dict[str, dict[str, int]]) -> list[Slot]:
    slots: list[Slot] = []
    pattern = r"(\w+)\s*:\s*(\[)?\s*(\w+)\s*\]?\s*(?:=\s*([\w.+-]+))?"
    for label, vector, type, default in re.findall(pattern, re.sub(r"\([^)]*\)", "", body)):
        if type in unions and not vector:
            slots.append(Slot(f"{label}_type", "ubyte"))
        slots.append(Slot(label, type, bool(vector), _default(default, numbers.get(type, {}))))
    return slots


def _default(text: str, names: dict[str, int]) -> int | float:
    """A default as a number; nought if none is given."""
    if text in names:
        return names[text]
    if text in ("", "true", "false"):
        return int(text == "true")
    return float(text) if re.search(r"^[+-]?\d*\.|^[+-]?\d+e|inf|nan", text) else int(text, 0)
