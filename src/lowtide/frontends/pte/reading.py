"""Bytes of a ``.pte`` <-> ExecuTorch's own Program object, with the segments beside it.

Parsing and writing are ExecuTorch's (``executorch.exir._serialize``); this module decides whether the
bytes may be given to it, and puts header, program and segments together again without touching a segment.
"""

from __future__ import annotations

import importlib.resources
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

from lowtide.errors import InputError, UnsupportedError
from lowtide.frontends.pte.checking import check_program
from lowtide.frontends.pte.flatbuffer import (
    DamagedError,
    Schema,
    UnknownFieldError,
    check,
    parse_schema,
)

_HEADER_AT = 8
_HEADER_MAGIC = b"eh00"
_SHORTEST_HEADER = 24
_PACKAGE = "executorch.exir._serialize"


@dataclass(frozen=True)
class PteFile:
    """A ``.pte`` in memory.

    Args:
        name: for messages.
        data: all of its bytes.
        program: ExecuTorch's Program; treat it as read-only.
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


def read_pte(data: bytes, name: str) -> PteFile:
    """Parse a ``.pte``.

    Args:
        data: the whole file.
        name: what messages call it.

    Raises:
        InputError: it is damaged, cut short, or something else.
        UnsupportedError: ExecuTorch is missing or another version, or the file needs a newer one.
    """
    from lowtide.executorch.version import require_supported

    require_supported()
    schema = program_schema()
    if len(data) < 8 or data[4:6] != b"ET":
        raise InputError(f"{name}: is no ExecuTorch program, or cut short: export it again")
    if data[4:8] != schema.identifier.encode():
        found = data[4:8].decode("ascii", "replace")
        raise UnsupportedError(
            f"{name}: has schema {found!r} and the installed executorch reads {schema.identifier!r}: "
            "use the version that wrote it"
        )
    program_bytes, base = _layout(data, name)
    flatbuffer = data[:program_bytes]
    try:
        check(flatbuffer, schema, "Program")
    except UnknownFieldError as error:
        raise UnsupportedError(
            f"{name}: {error}: it was written by a newer ExecuTorch, or is damaged: use that version"
        ) from None
    except DamagedError as error:
        raise InputError(f"{name}: is damaged or cut short: {error}: export it again") from None
    program = _parse(flatbuffer, name)
    _check_version(program, name)
    check_program(program, len(data) - base if base else 0, name)
    return PteFile(name, data, program, program_bytes, base)


@cache
def program_schema() -> Schema:
    """The schema of programs that the installed ExecuTorch has."""
    return schema_of(_PACKAGE, "program.fbs", "scalar_type.fbs")


def schema_of(package: str, *names: str) -> Schema:
    """The schema in files of a package, which is not imported beyond its folder."""
    folder = importlib.resources.files(package)
    return parse_schema(*(folder.joinpath(name).read_text() for name in names))


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


def _parse(flatbuffer: bytes, name: str) -> Any:
    from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program

    try:
        return _flatbuffer_to_program(flatbuffer)
    except Exception as error:  # the parser checks nothing itself: whatever it trips over is in the bytes
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{name}: is damaged: {type(error).__name__}: {reason}: export it again") from None


def _check_version(program: Any, name: str) -> None:
    from executorch.exir.version import EXECUTORCH_SCHEMA_VERSION

    if program.version > EXECUTORCH_SCHEMA_VERSION:
        raise UnsupportedError(
            f"{name}: has schema version {program.version} and the installed executorch reads "
            f"{EXECUTORCH_SCHEMA_VERSION}: use the version that wrote it"
        )
