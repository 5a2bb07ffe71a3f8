"""The trade of a fit as a picture: bytes up, multiply-adds across."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from lowtide.base.errors import InputError
from lowtide.base.units import format_size
from lowtide.outputs.picture.colours import CATEGORIES
from lowtide.outputs.picture.figure import INKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lowtide.fitting import Fitted
    from lowtide.outputs.picture.colours import Theme

SIZE = (8.0, 4.6)
"""Inches."""
DPI = 140
"""Pixels an inch."""


def front_to_png(found: Fitted, *, theme: Theme = "light") -> bytes:
    """The image file.

    Raises:
        InputError: matplotlib is not installed.
    """
    figure, file = draw_front(found, theme), io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Title": _TITLE, "Software": "Lowtide"})
    return file.getvalue()


def front_to_svg(found: Fitted, *, theme: Theme = "light") -> str:
    """The drawing as text: the same fit gives the same text.

    Raises:
        InputError: matplotlib is not installed.
    """
    figure = draw_front(found, theme)
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.hashsalt": "lowtide", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Title": _TITLE, "Creator": "Lowtide", "Date": None})
    return file.getvalue()


_TITLE = "Bytes against multiply-adds"


def draw_front(found: Fitted, theme: Theme = "light") -> Figure:
    """The trade as a matplotlib figure.

    What the search has seen is a staircase of live bytes; the arenas before and after are points, and the
    floor and the budget are lines.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise InputError("a picture needs matplotlib: pip install 'lowtide[viz]'") from None
    inks, shades = INKS[theme], CATEGORIES[theme]
    figure = Figure(figsize=SIZE, facecolor=inks.sheet, layout="tight")
    axes = figure.subplots()
    axes.set_facecolor(inks.sheet)
    whole = max(found.macs_before, 1)
    points = sorted((macs / whole, size) for size, macs in found.front)
    if points:
        across, up = zip(*points, strict=True)
        axes.step(
            across, up, where="post", color=shades[0], marker="o", label="live bytes, seen by the search"
        )
    axes.plot([1], [found.arena_before], "s", color=inks.soft, label="arena before")
    axes.plot([found.work], [found.arena_bytes], "D", color=inks.peak, label="arena after")
    axes.axhline(found.floor.bytes, color=inks.bound, linestyle="--", linewidth=1, label="floor")
    if found.limits.max_arena is not None:
        axes.axhline(found.limits.max_arena, color=inks.ink, linestyle=":", linewidth=1, label="budget")
    sizes = FuncFormatter(lambda size, _: format_size(round(size)))
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(sizes)
    axes.set_xlabel("multiply-adds, over the program's", color=inks.ink)
    axes.tick_params(colors=inks.soft)
    axes.grid(color=inks.grid)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_color(inks.grid)
    axes.legend(facecolor=inks.sheet, edgecolor=inks.grid, labelcolor=inks.ink, fontsize=8)
    return figure
