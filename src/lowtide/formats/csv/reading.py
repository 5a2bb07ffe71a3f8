"""Problems from CSV: one buffer a line, in every dialect that MiniMalloc reads, and a little more.

Columns, in any order: ``id`` (or ``buffer``, ``buffer_id``); ``lower`` (or ``begin``, ``start``),
the first time at which the buffer is alive; ``upper``, the first at which it no longer is, or
``end``, the last at which it is; ``size`` in bytes; and, if wanted, ``alignment``; ``gaps``, times
between at which its bytes do not matter, as ``4-6 9-12``; ``offset``; ``arena``, ``name``, ``kind``
and ``region``; ``accesses``, bytes read and written in a run, of which half count as written.
Gaps count like the lifetime: to ``upper``, exclusive, or to ``end``, inclusive.

An ``offset`` is what some earlier planner chose and not a wish, so it is read as a pin only on
request. A ``hint`` is advice to another solver; it is accepted and ignored. A gap with a *window*
(``4-6@0:32``: within the gap only some bytes are dead) cannot be honoured and is refused.
"""

from __future__ import annotations

import csv
import io
import re
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from lowtide.base.constants import DEFAULT_ARENA, LIMIT, ROOT
from lowtide.base.errors import InputError, UnsupportedError
from lowtide.base.files import read_text, show_path
from lowtide.formats.naming import reading
from lowtide.ir.problem import Buffer, Problem

if TYPE_CHECKING:
    from _csv import Reader
    from collections.abc import Iterable, Sequence

    from lowtide.base.files import StrPath
    from lowtide.ir.problem import Lifetime

_REQUIRED = ("id", "lower", "upper", "size")
_OPTIONAL = ("alignment", "gaps", "offset", "hint", "arena", "name", "kind", "region", "accesses")
_ALIASES = {
    **{name: name for name in (*_REQUIRED, *_OPTIONAL)},
    "buffer": "id",
    "buffer_id": "id",
    "begin": "lower",
    "start": "lower",
    "end": "upper",
}
_KNOWN = (
    "id (or buffer, buffer_id), lower (or begin, start), upper (or end, inclusive), size, "
    "alignment, gaps, offset, hint, arena, name, kind, region, accesses"
)

_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,20}\s*", re.ASCII)
_GAP = re.compile(r"(-?[0-9]{1,20})-(-?[0-9]{1,20})(@.*)?", re.ASCII)
_LONGEST = 40
"""Characters of a bad cell that a message quotes."""


def read_csv(path: StrPath, *, pins: bool = False) -> Problem:
    """The problem in a CSV file.

    Args:
        pins: read the ``offset`` column as offsets that buffers must have; without it, ignore that column.

    Raises:
        InputError: it is no such file; the message names the file, the line and the buffer.
        UnsupportedError: a gap has a window.
    """
    return problem_from_csv(read_text(path), show_path(path), pins=pins)


def problem_from_csv(text: str, name: str = "<csv>", *, pins: bool = False) -> Problem:
    """The problem in CSV text; ``name`` stands for it in messages. Otherwise as :func:`read_csv`."""
    with reading(name):
        return _Table(text).problem(pins)


class _Table:
    """A CSV file column by column, so that the good case is fast; lines are counted only for a message."""

    def __init__(self, text: str) -> None:
        self._text = text
        rows = _read_rows(text)
        if not rows:
            raise InputError("there is no header: the first line names the columns")
        header = rows.pop(0)
        self._columns, self._inclusive = _parse_header(header)
        if set(map(len, rows)) - {len(header)}:
            i, row = next((i, row) for i, row in enumerate(rows) if len(row) != len(header))
            fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
            raise InputError(f"line {self._line(i)}: {fields} where the header has {len(header)} columns")
        self._rows = rows
        self._ids = self._column("id")
        if "" in self._ids:
            raise InputError(f"line {self._line(self._ids.index(''))}: the {self._title('id')} is blank")

    def problem(self, pins: bool) -> Problem:
        buffers = list(
            map(
                Buffer,
                self._ids,
                self._integers("size", None),
                self._lifetimes(),
                self._integers("alignment", 1),
                self._integers("arena", DEFAULT_ARENA),
                self._offsets() if pins else repeat(None),
                self._texts("name", ""),
                self._texts("kind", "temporary"),
                self._texts("region", ROOT),
                *self._accesses(),
            )
        )
        try:
            return Problem(tuple(buffers))
        except InputError as error:
            self._blame(buffers)
            raise error from None

    def _lifetimes(self) -> Iterable[Lifetime]:
        lower = self._integers("lower", None)
        upper = self._integers("upper", None)
        if self._inclusive:
            upper = [last + 1 for last in upper]
        spans = zip(lower, upper, strict=True)
        if "gaps" not in self._columns:
            return zip(spans)
        gaps = self._column("gaps")
        return [self._lifetime(i, span, gaps[i]) for i, span in enumerate(spans)]

    def _lifetime(self, i: int, span: tuple[int, int], cell: str) -> Lifetime:
        start, stop = span
        if start >= stop or not cell or cell.isspace():
            return (span,)
        alive = []
        for first, last in sorted(self._gap(i, span, gap) for gap in cell.split()):
            if first > start:
                alive.append((start, first))
            start = max(start, last)
        if start < stop:
            alive.append((start, stop))
        return tuple(alive)

    def _gap(self, i: int, span: tuple[int, int], text: str) -> tuple[int, int]:
        match = _GAP.fullmatch(text)
        if match is None:
            raise InputError(f"{self._where(i)}: gap {_show(text)} is not of the form 4-6")
        if match[3]:
            raise UnsupportedError(
                f"{self._where(i)}: gap {_show(text)} has a window, but Lowtide keeps all or nothing "
                "of a buffer: remove that gap to keep it all"
            )
        first, last = int(match[1]), int(match[2]) + self._inclusive
        if first >= last:
            raise InputError(f"{self._where(i)}: gap {_show(text)} is empty or inverted")
        if first < span[0] or last > span[1]:
            raise InputError(f"{self._where(i)}: gap {_show(text)} is not within the buffer's lifetime")
        return first, last

    def _accesses(self) -> tuple[Iterable[Any], ...]:
        """Bytes read and bytes written, as the last fields of buffers; none where the file does not tell."""
        if "accesses" not in self._columns:
            return ()
        cells = self._column("accesses")
        counts = [
            self._integer(i, "accesses", cell) if cell.strip() else None for i, cell in enumerate(cells)
        ]
        reads = [None if count is None else count - count // 2 for count in counts]
        writes = [None if count is None else count // 2 for count in counts]
        nothing: Iterable[Any] = (None, None, None, None, ())  # dtype, shape, operator, source, members
        return (*map(repeat, nothing), reads, writes)

    def _offsets(self) -> Iterable[int | None]:
        if "offset" not in self._columns:
            raise InputError("pins are asked for, but there is no column 'offset'")
        cells = self._column("offset")
        return [self._integer(i, "offset", cell) if cell.strip() else None for i, cell in enumerate(cells)]

    def _column(self, key: str) -> Sequence[str]:
        position = self._columns[key][0]
        return [row[position] for row in self._rows]

    def _texts(self, key: str, default: str) -> Iterable[str]:
        if key not in self._columns:
            return repeat(default)
        return [cell or default for cell in self._column(key)]

    def _integers(self, key: str, default: int | None) -> Iterable[int]:
        """A column of whole numbers; a blank cell means ``default``, where there is one."""
        if key not in self._columns:
            assert default is not None
            return repeat(default)
        cells = self._column(key)
        try:
            values = list(map(int, cells))
        except ValueError:
            values = None
        everything = "".join(cells)
        if values is None or "_" in everything or not everything.isascii():  # int() takes 1_000 and ٣
            return [
                default if default is not None and not cell.strip() else self._integer(i, key, cell)
                for i, cell in enumerate(cells)
            ]
        if values and not (min(values) >= -LIMIT and max(values) < LIMIT):
            return [self._integer(i, key, cell) for i, cell in enumerate(cells)]
        return values

    def _integer(self, i: int, key: str, cell: str) -> int:
        if not cell.strip():
            raise InputError(f"{self._where(i)}: the {self._title(key)} is blank")
        if not _INTEGER.fullmatch(cell):
            raise InputError(f"{self._where(i)}: {self._title(key)} {_show(cell)} is not a whole number")
        value = int(cell)
        if not -LIMIT <= value < LIMIT:
            raise InputError(f"{self._where(i)}: {self._title(key)} {_show(cell)} is beyond 64 bits")
        return value

    def _blame(self, buffers: Sequence[Buffer]) -> None:
        """Raise for the first line that is wrong by itself, or repeats an id."""
        seen: dict[str, int] = {}
        for i, buffer in enumerate(buffers):
            if buffer.id in seen:
                first = self._line(seen[buffer.id])
                raise InputError(f"{self._where(i)} is in line {first} already: ids must be unique")
            seen[buffer.id] = i
            try:
                Problem((buffer,))
            except InputError as error:
                raise InputError(f"line {self._line(i)}: {error}") from None

    def _title(self, key: str) -> str:
        """A column by the name that the file gives it."""
        return self._columns[key][1]

    def _where(self, i: int) -> str:
        return f"line {self._line(i)}: buffer {_show(self._ids[i])}"

    def _line(self, i: int) -> int:
        """Line on which row ``i`` below the header ends; quoted cells may hold line ends."""
        reader = _reader(self._text)
        lines = (reader.line_num for record in reader if record)
        return next(islice(lines, i + 1, None))


def _read_rows(text: str) -> list[list[str]]:
    """Every record that is not blank, the header included."""
    reader = _reader(text)
    try:
        return [record for record in reader if record]
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: {error}: check the quotes") from None


def _reader(text: str) -> Reader:
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"line {line}: there is a NUL character: check that this is a text file")
    return csv.reader(io.StringIO(text, newline=""), strict=True)


def _parse_header(header: Sequence[str]) -> tuple[dict[str, tuple[int, str]], bool]:
    """Position and written name of each column, and whether lifetimes end inclusively."""
    columns: dict[str, tuple[int, str]] = {}
    for position, cell in enumerate(header):
        title = cell.strip().lower()
        if title not in _ALIASES:
            raise InputError(f"line 1: unknown column {_show(cell)}: known are {_KNOWN}")
        key = _ALIASES[title]
        if key in columns:
            raise InputError(f"line 1: columns {columns[key][1]!r} and {title!r} mean the same: leave one")
        columns[key] = (position, title)
    missing = [key for key in _REQUIRED if key not in columns]
    if missing:
        raise InputError(f"line 1: there is no column {missing[0]!r}: known are {_KNOWN}")
    return columns, columns["upper"][1] == "end"


def _show(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")
