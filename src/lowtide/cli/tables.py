"""Tables that stay readable on a narrow terminal: text folds, numbers are never cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

LEAST_TEXT = 18
"""Characters that a column of text must have; with less room, rows are listed one below the other."""

_PER_COLUMN = 3
"""Characters between two columns, at most."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Args:
        title: its head; may be empty.
        text: whether its cells may be folded: names and sentences may, numbers may not.
    """

    title: str
    text: bool = False


def show_table(out: Console, columns: Sequence[Column], *choices: Sequence[Sequence[str]]) -> None:
    """Print a table; where not even the last choice of its rows fits, list the rows one below the other.

    Args:
        out: where to.
        columns: its columns.
        choices: the same rows in ever shorter words; cells are markup.
    """
    for rows in choices:
        if _width(columns, rows) <= out.width:
            _print(out, columns, rows)
            return
    _list(out, columns, choices[0])


def _width(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    """Characters that the table needs at the least."""
    needed = 0
    for i, column in enumerate(columns):
        widest = max((_length(row[i]) for row in rows), default=0)
        if column.text:
            widest = min(widest, LEAST_TEXT)
        needed += max(widest, len(column.title)) + _PER_COLUMN
    return needed


def _length(cell: str) -> int:
    from rich.text import Text

    return max((len(line) for line in Text.from_markup(cell).plain.splitlines()), default=0)


def _print(out: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        if column.text:
            made.add_column(column.title, overflow="fold")
        else:
            made.add_column(column.title, justify="right", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    out.print(made)


def _list(out: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Each row as a few lines: the first text as its head, then the other cells with their titles."""
    head = next((i for i, column in enumerate(columns) if column.text), 0)
    for row in rows:
        name = row[head] if columns[head].text else f"{columns[head].title} {row[head]}"
        out.print(f"\n[bold]{name}[/]", overflow="fold")
        for i, column in enumerate(columns):
            if i != head and row[i]:
                title = f"{column.title} " if column.title else ""
                out.print(f"  [dim]{title}[/]{row[i]}", overflow="fold")
    out.print()
