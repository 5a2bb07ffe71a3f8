"""Bytes of a ``.pte`` <-> ExecuTorch's own Program object, with the segments beside it.

Parsing and writing are ExecuTorch's (``executorch.exir._serialize``); this module decides whether the
bytes may be given to it, and puts header, program and segments together again without touching a segment.
"""

from __future__ import annotations

import importlib.util
import logging
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError, UnsupportedError
from lowtide.base.files import show_name
from lowtide.frontends.pte.checking import check_program
from lowtide.frontends.pte.flatbuffer import (
    DamagedError,
    Schema,
    UnknownFieldError,
    check,
    parse_schema,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lowtide.base.files import StrPath

_HEADER_AT = 8
_HEADER_MAGIC = b"eh00"
_SHORTEST_HEADER = 24


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


def open_pte(source: StrPath | bytes | PteFile) -> PteFile:
    """A ``.pte`` from its path or its bytes; as it is if it was read already.

    Raises:
        InputError, UnsupportedError: as for ``read_pte``, or the file cannot be read.
    """
    if isinstance(source, PteFile):
        return source
    if isinstance(source, (bytes, bytearray, memoryview)):
        return read_pte(bytes(source), "the program")
    from lowtide.base.files import open_for_reading, show_path

    with open_for_reading(source) as file:
        return read_pte(file.read(), show_path(source))


def read_pte(data: bytes, name: str) -> PteFile:
    """Parse a ``.pte``.

    Args:
        data: the whole file.
        name: what messages call it.

    Raises:
        InputError: it is damaged, cut short, or something else.
        UnsupportedError: ExecuTorch is missing or another version, or the file needs a newer one.
    """
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
    with quiet_imports():
        from lowtide.executorch.version import require_supported

        require_supported()
    program = _parse(flatbuffer, name)
    _check_version(program, name)
    check_program(program, len(data) - base if base else 0, name)
    return PteFile(name, data, program, program_bytes, base)


@cache
def program_schema() -> Schema:
    """The schema of programs that the installed ExecuTorch has.

    Raises:
        UnsupportedError: it is not installed.
    """
    found = schema_of("exir/_serialize", "program.fbs", "scalar_type.fbs")
    if found is None:
        raise UnsupportedError(
            "to read a .pte takes ExecuTorch, which is not installed: pip install '.[executorch]'"
        )
    return found


def schema_of(folder: str, *names: str) -> Schema | None:
    """The schema in files of ExecuTorch's package, which is not imported for it; None if they are missing."""
    spec = importlib.util.find_spec("executorch")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        paths = [Path(place) / folder / name for name in names]
        if all(path.is_file() for path in paths):
            return parse_schema(*(path.read_text(encoding="utf-8") for path in paths))
    return None


@contextmanager
def quiet_imports() -> Iterator[None]:
    """Keep what ExecuTorch's dependencies log while they are imported from whoever reads our errors."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


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
        reason = show_name(" ".join(str(error).split())[:120])
        raise InputError(f"{name}: is damaged: {type(error).__name__}: {reason}: export it again") from None


def _check_version(program: Any, name: str) -> None:
    from executorch.exir.version import EXECUTORCH_SCHEMA_VERSION

    if program.version > EXECUTORCH_SCHEMA_VERSION:
        raise UnsupportedError(
            f"{name}: has schema version {program.version} and the installed executorch reads "
            f"{EXECUTORCH_SCHEMA_VERSION}: use the version that wrote it"
        )
