"""A plan in the terminal: Unicode blocks, two rows of bytes a line, in colour or in shades.

Lines are ``rich`` texts of exactly known width, so the caller decides where they go.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from lowtide.base.units import format_size
from lowtide.outputs.picture.colours import CATEGORIES, colour, printable, short_name, telling_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from lowtide.outputs.picture import ArenaView, Picture
    from lowtide.outputs.picture.colours import By, Colouring
    from lowtide.outputs.picture.ram_bar import RamBar

LEAST_WIDTH = 24
"""Columns: below this there is no room for a picture beside its numbers."""

_GUTTER = 10
_SHADES = "█▓▒░▚▤▥▦▧▨"
"""What stands for the groups where there is no colour."""
_LEVELS = " ▁▂▃▄▅▆▇█"
_BAND_INKS = {
    "root": "#8a94a0",
    "branch": CATEGORIES["dark"][2],
    "condition": CATEGORIES["dark"][6],
    "body": CATEGORIES["dark"][3],
}

Grid = list[list[int]]
"""Rows from the top; a group in each cell, or -1 where no buffer is."""


@dataclass(frozen=True)
class Canvas:
    """How ticks fall on columns."""

    start: int
    stop: int
    columns: int

    def cells(self, start: int, stop: int) -> tuple[int, int]:
        """Columns ``[first, last)`` of some ticks; one at the least."""
        span = max(1, self.stop - self.start)
        first = min(self.columns - 1, (start - self.start) * self.columns // span)
        last = (stop - self.start) * self.columns // span
        return first, max(first + 1, min(last, self.columns))


def picture_to_lines(
    picture: Picture, *, width: int, height: int = 20, in_colour: bool = True, by: By | None = None
) -> list[Text]:
    """The picture as lines, none wider than ``width``.

    Args:
        width: columns; taken for 24 if less.
        height: lines for the rectangles of all arenas together.
        in_colour: otherwise the texts carry no style, and shades stand for the colours.
        by: what colours mean; None for the first way that tells buffers apart.
    """
    from rich.text import Text

    width = max(width, LEAST_WIDTH)
    made = colour(picture, by or telling_way(picture))
    frame = Canvas(picture.start, picture.stop, width - _GUTTER - 1)
    lines = [*_bands(picture, frame, in_colour)]
    each = max(4, height // max(1, len(picture.arenas)))
    for arena in picture.arenas:
        lines += _wrapped(_facts(arena), width)
        lines += _rectangles(arena, made, frame, each, in_colour)
        lines.append(_live(arena, frame, in_colour))
        lines.append(_peak(arena, frame, in_colour))
    lines.append(_axis(picture, frame))
    lines += _legend(made.labels, made.dark, width, in_colour)
    if picture.ram is not None:
        lines += _ram(picture.ram, width, in_colour)
    if not in_colour:
        return [Text(line.plain.rstrip(), no_wrap=True) for line in lines]
    return lines


def _ram(bar: RamBar, width: int, in_colour: bool) -> list[Text]:
    """All RAM as one line of blocks, and what its shares are."""
    from rich.text import Text

    line, inks = Text(no_wrap=True), CATEGORIES["dark"]
    end, before = 0, 0
    for i, (_, size) in enumerate(bar.shares):
        end += size
        columns = end * width // bar.bytes - before
        before += columns
        line.append(("█" if in_colour else _SHADES[i]) * columns, inks[i] if in_colour else "")
    labels = [f"{name} {format_size(size)}" for name, size in bar.shares]
    return [*_wrapped(bar.title, width), line, *_legend(labels, inks, width, in_colour)]


def _facts(arena: ArenaView) -> str:
    use = arena.use
    equal = "=" if use.bytes == use.lower_bound_bytes else "≥"
    bound = "" if equal == "=" else f" {format_size(use.lower_bound_bytes)}"
    live = f"live peak {format_size(arena.peak[2])} at step {arena.peak[0]}"
    return f"{arena.label} {format_size(use.bytes)} {equal} lower bound{bound}, {live}"


def _wrapped(text: str, width: int) -> list[Text]:
    """Lines that end between words, but never between a number and its unit."""
    import re
    import textwrap

    from rich.text import Text

    joined = re.sub(r"([0-9]) (?=[KMGTP]?i?B)|step (?=[0-9])", lambda m: m[0].replace(" ", "\xa0"), text)
    lines = textwrap.wrap(joined, width, subsequent_indent="  ")
    return [Text(line.replace("\xa0", " "), no_wrap=True) for line in lines]


def _rectangles(arena: ArenaView, made: Colouring, frame: Canvas, height: int, in_colour: bool) -> list[Text]:
    from rich.text import Text

    rows = 2 * height if in_colour else height
    grid = _grid(arena, made, frame, rows)
    colours = made.dark
    lines = []
    for line in range(height):
        text = Text(_byte_label(arena, line, height), style="dim" if in_colour else "", no_wrap=True, end="")
        if not in_colour:
            text.append("".join(" " if group < 0 else _SHADES[group % len(_SHADES)] for group in grid[line]))
        else:
            halves = zip(grid[2 * line], grid[2 * line + 1], strict=True)
            for (upper, lower), run in groupby(halves):
                _append_half_blocks(text, upper, lower, len(list(run)), colours)
        lines.append(text)
    return lines


def _append_half_blocks(text: Text, upper: int, lower: int, count: int, colours: Sequence[str]) -> None:
    """Some equal cells: the upper half in one colour, the lower in another."""
    if upper < 0 and lower < 0:
        text.append(" " * count, "not dim")
    elif upper == lower:
        text.append("█" * count, f"not dim {colours[upper]}")
    elif upper < 0:
        text.append("▄" * count, f"not dim {colours[lower]}")
    elif lower < 0:
        text.append("▀" * count, f"not dim {colours[upper]}")
    else:
        text.append("▀" * count, f"not dim {colours[upper]} on {colours[lower]}")


def _grid(arena: ArenaView, made: Colouring, frame: Canvas, rows: int) -> Grid:
    grid = [[-1] * frame.columns for _ in range(rows)]
    for r in sorted(arena.rectangles, key=lambda r: -r.size):  # small ones last, or they would not be seen
        if not r.size:
            continue
        first, last = frame.cells(r.start, r.stop)
        low = min(rows - 1, r.offset * rows // arena.top)
        high = max(low + 1, min(rows, (r.offset + r.size) * rows // arena.top))
        for row in range(low, high):
            grid[rows - 1 - row][first:last] = [made.groups[r.buffer]] * (last - first)
    return grid


def _byte_label(arena: ArenaView, line: int, height: int) -> str:
    """Bytes at the top of a line, on every fourth, and 0 on the lowest."""
    text = ""
    if line == height - 1:
        text = "0 B"
    elif line % 4 == 0 and line < height - 2:
        text = format_size(arena.top * (height - line) // height)
    return f"{text:>{_GUTTER - 1}} "


def _live(arena: ArenaView, frame: Canvas, in_colour: bool) -> Text:
    """Most live bytes in each column, in eighths of the live peak."""
    from rich.text import Text

    most = [0] * frame.columns
    ticks, values = arena.live.ticks, arena.live.bytes
    for i, value in enumerate(values):
        stop = ticks[i + 1] if i + 1 < len(ticks) else frame.stop
        if stop > ticks[i]:
            first, last = frame.cells(ticks[i], stop)
            most[first:last] = [max(known, value) for known in most[first:last]]
    peak = max(arena.peak[2], 1)
    line = Text(f"{'live':>{_GUTTER - 1}} ", style="dim" if in_colour else "", no_wrap=True, end="")
    line.append("".join(_LEVELS[-(-value * 8 // peak)] for value in most), "not dim" if in_colour else "")
    return line


def _peak(arena: ArenaView, frame: Canvas, in_colour: bool) -> Text:
    from rich.text import Text

    line = Text(" " * _GUTTER, no_wrap=True, end="")
    if arena.peak[2] > arena.reserved:
        first, _ = frame.cells(*arena.peak[:2])
        before = first + 6 > frame.columns  # no room on the right
        line.append(" " * (first - 5 if before else first))
        line.append("peak ▲" if before else "▲ peak", CATEGORIES["dark"][7] if in_colour else "")
    return line


def _axis(picture: Picture, frame: Canvas) -> Text:
    from rich.text import Text

    first, last = str(picture.start), str(max(picture.start, picture.stop - 1))
    room = max(1, frame.columns - len(first) - len(last))
    middle = " step " if room >= 12 else " "
    return Text(f"{'':{_GUTTER}}{first}{middle:^{room}}{last}", no_wrap=True, end="")


def _bands(picture: Picture, frame: Canvas, in_colour: bool) -> list[Text]:
    """One line for each level of regions, the outermost left out; six at the most."""
    from rich.cells import set_cell_size
    from rich.text import Text

    lines = []
    for depth in range(1, min(picture.depth, 7)):
        cells = [" "] * frame.columns
        styles = [""] * frame.columns
        for band in (band for band in picture.bands if band.depth == depth):
            first, last = frame.cells(band.start, band.stop)
            room = last - first
            label = next(
                (
                    t
                    for t in (short_name(band.region), printable(band.kind))
                    if t.isascii() and len(t) + 3 <= room
                ),
                "",
            )
            drawn = f"┣{label:━<{room - 2}}┫" if room > 1 else "┃"
            cells[first:last] = list(set_cell_size(drawn, room))
            styles[first:last] = [_BAND_INKS.get(band.kind, CATEGORIES["dark"][4])] * room
        line = Text(" " * _GUTTER, no_wrap=True, end="")
        for style, run in groupby(zip(cells, styles, strict=True), itemgetter(1)):
            line.append("".join(cell for cell, _ in run), style if in_colour else "")
        lines.append(line)
    return lines


def _legend(labels: Sequence[str], inks: Sequence[str], width: int, in_colour: bool) -> list[Text]:
    """As many entries a line as fit."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    lines: list[Text] = [Text(no_wrap=True)]
    for group, label in enumerate(labels):
        fitted = label if cell_len(label) <= width - 4 else f"{set_cell_size(label, width - 5)}…"
        if lines[-1].cell_len and lines[-1].cell_len + cell_len(fitted) + 4 > width:
            lines.append(Text(no_wrap=True))
        entry = Text("  " if lines[-1].cell_len else "")
        entry.append("█" if in_colour else _SHADES[group % len(_SHADES)], inks[group] if in_colour else "")
        entry.append(f" {fitted}")
        lines[-1].append_text(entry)
    return lines
