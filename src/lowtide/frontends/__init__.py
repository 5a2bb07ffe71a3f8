"""Front ends: one input format a file, told apart by content first and by suffix where content does not tell.

Importing this package imports none of them: a format's reader, and the library that it may need,
is imported when a file of that format is loaded.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from lowtide.base.errors import InputError
from lowtide.base.files import HEAD_BYTES, open_for_reading, read_rest, show_path

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from lowtide.base.files import StrPath
    from lowtide.frontends.pte import PteFile
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Problem

Format = Literal["pt2", "pte", "json", "csv"]
"""An exported PyTorch program; an ExecuTorch program; a problem or plan; a problem."""

_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_PTE_MAGIC = b"ET"
"""At byte 4 of a ``.pte``, followed by two digits of a version."""

_MADE_BY = {
    "pt2": "no zip archive, or cut short: write it with torch.export.save",
    "pte": "no ExecuTorch program, or cut short: export it again",
}


def detect(path: StrPath) -> Format:
    """The format of a file: its content decides, then its suffix; what tells nothing is taken for CSV.

    Raises:
        InputError: it cannot be read, or has the suffix of a binary format but not its content.
    """
    with open_for_reading(path) as file:
        return _format_of(file.read(HEAD_BYTES), path)


def load(path: StrPath, *, pins: bool = False) -> Problem | Plan | ExportedProgram | PteFile:
    """What a file holds. The file is opened once, so a pipe will do for JSON and CSV.

    Args:
        pins: read the ``offset`` column of a CSV file as offsets that buffers must have.

    Raises:
        InputError: it cannot be read, or is damaged, or a library that it needs is not installed.
        UnsupportedError: it is sound, but cannot be planned.
    """
    text, data = "", b""
    with open_for_reading(path) as file:
        head = file.read(HEAD_BYTES)
        format = _format_of(head, path)
        if format in ("json", "csv"):
            text = read_rest(file, head, show_path(path))
        elif format == "pte":
            data = head + file.read()
    if format == "json":
        from lowtide.formats.json.reading import from_json

        return from_json(text, show_path(path))
    if format == "csv":
        from lowtide.formats.csv.reading import problem_from_csv

        return problem_from_csv(text, show_path(path), pins=pins)
    if format == "pte":
        from lowtide.frontends.pte import read_pte

        return read_pte(data, show_path(path))
    return _load_exported(path)


def _load_exported(path: StrPath) -> ExportedProgram:
    try:
        from lowtide.frontends.torch_export import load as load_pt2
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise InputError(
            f"{show_path(path)}: is a PyTorch program, and torch is not installed: "
            "pip install 'lowtide[torch]'"
        ) from None
    return load_pt2(path)


def _format_of(head: bytes, path: StrPath) -> Format:
    if head.startswith(_ZIP_MAGIC):
        return "pt2"
    if head[4:6] == _PTE_MAGIC and head[6:8].isdigit():
        return "pte"
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    for binary in ("pt2", "pte"):
        if suffix == f".{binary}":
            raise InputError(f"{show_path(path)}: is {_MADE_BY[binary]}")
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith((b"{", b"[")) or suffix == ".json":
        return "json"
    return "csv"
