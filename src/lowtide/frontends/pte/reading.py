"""Bytes of a ``.pte`` as the tables of its schema, with the segments beside them.

Neither ExecuTorch nor PyTorch is needed: the schema is ExecuTorch's own and ships with this package. A file
of a newer one is refused, as nothing would tell what its new fields mean.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError, UnsupportedError
from lowtide.base.files import open_for_reading, show_path
from lowtide.frontends.flatbuffer.decoding import Decoder, UnknownFieldError
from lowtide.frontends.flatbuffer.schema import parse_schema
from lowtide.frontends.flatbuffer.tables import DamagedError
from lowtide.frontends.pte.checking import check_program

if TYPE_CHECKING:
    from lowtide.base.files import StrPath

_SCHEMA_VERSION = 0
"""The newest ``version`` of a program whose meaning is known."""

_HEADER_AT = 8
_HEADER_MAGIC = b"eh00"
_SHORTEST_HEADER = 24


@dataclass(frozen=True)
class PteFile:
    """A ``.pte`` in memory.

    Args:
        name: for messages.
        data: all of its bytes.
        program: the table ``Program`` of the schema, a ``Record``; treat it as read-only.
        program_bytes: length of the flatbuffer with the header inside it.
        segment_base: where segment offsets count from; 0 if there are none.
    """

    name: str
    data: bytes
    program: Any
    program_bytes: int
    segment_base: int

    @property
    def segments(self) -> bytes:
        """Everything from the first segment to the end of the file."""
        return self.data[self.segment_base :] if self.segment_base else b""


def open_pte(source: StrPath | bytes | PteFile) -> PteFile:
    """A ``.pte`` from its path or its bytes; as it is if it was read already.

    Raises:
        InputError, UnsupportedError: as for ``read_pte``, or the file cannot be read.
    """
    if isinstance(source, PteFile):
        return source
    if isinstance(source, (bytes, bytearray, memoryview)):
        return read_pte(bytes(source), "the program")
    with open_for_reading(source) as file:
        return read_pte(file.read(), show_path(source))


def read_pte(data: bytes, name: str) -> PteFile:
    """Parse a ``.pte``.

    Args:
        data: the whole file.
        name: what messages call it.

    Raises:
        InputError: it is damaged, cut short, or something else.
        UnsupportedError: it was written by a newer ExecuTorch than is known.
    """
    identifier = program_decoder().schema.identifier
    if len(data) < 8 or data[4:6] != b"ET":
        raise InputError(f"{name}: is no ExecuTorch program, or cut short: export it again")
    if data[4:8] != identifier.encode():
        found = data[4:8].decode("ascii", "replace")
        raise UnsupportedError(
            f"{name}: has schema {found!r} and Lowtide reads {identifier!r}: "
            "export it with another executorch"
        )
    program_bytes, base = _layout(data, name)
    try:
        program = program_decoder().decode(data[:program_bytes], "Program")
    except UnknownFieldError as error:
        raise UnsupportedError(
            f"{name}: {error}: it was written by a newer ExecuTorch than Lowtide knows, or is damaged: "
            "export it again"
        ) from None
    except DamagedError as error:
        raise InputError(f"{name}: is damaged or cut short: {error}: export it again") from None
    if program.version > _SCHEMA_VERSION:
        raise UnsupportedError(
            f"{name}: has schema version {program.version} and Lowtide reads {_SCHEMA_VERSION}: "
            "export it with another executorch"
        )
    check_program(program, len(data) - base if base else 0, name)
    return PteFile(name, data, program, program_bytes, base)


@cache
def program_decoder() -> Decoder:
    """Decodes programs."""
    return shipped_decoder("scalar_type.fbs", "program.fbs")


def shipped_decoder(*names: str) -> Decoder:
    """Decodes what some of the schema files that ship with this package describe together."""
    folder = resources.files("lowtide.frontends.pte") / "schema"
    return Decoder(parse_schema(*((folder / name).read_text(encoding="utf-8") for name in names)))


def _layout(data: bytes, name: str) -> tuple[int, int]:
    """Length of the program and where segments begin, by the extended header if there is one."""
    if data[_HEADER_AT : _HEADER_AT + 4] != _HEADER_MAGIC:
        return len(data), 0
    broken = InputError(f"{name}: is damaged or cut short: its header does not fit it: export it again")
    if len(data) < _HEADER_AT + 32:
        raise broken
    length, program_bytes, base, size = struct.unpack_from("<IQQQ", data, _HEADER_AT + 4)
    if length < _SHORTEST_HEADER:
        raise broken
    if length == _SHORTEST_HEADER:
        size = 0
    if not _HEADER_AT + length <= program_bytes <= len(data):
        raise broken
    if base and (base < program_bytes or base + size > len(data)):
        raise broken
    return program_bytes, base
