"""A picture on paper: a matplotlib figure, which png and svg write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError
from lowtide.base.units import format_size
from lowtide.outputs.picture.colours import CATEGORIES, colour, printable, short_name, telling_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lowtide.outputs.picture import ArenaView, Band, Picture
    from lowtide.outputs.picture.colours import By, Colouring, Theme
    from lowtide.outputs.picture.ram_bar import RamBar

WIDTH, PANE, ROW = 12.0, 5.2, 0.24
"""Inches: the width of the figure, the height of an arena, and of a row of bands."""
LEFT, RIGHT, ABOVE, BELOW, GAP = 0.8, 0.15, 0.42, 1.15, 0.12
"""Inches: margins, and what lies between two panes."""
RAM_PANE, RAM_HEIGHT = 0.75, 0.24
"""Inches: what the bar of all RAM takes, with its words, and its own height."""

BANDS = {"branch": 2, "condition": 6, "body": 3, "delegate": 5}
MANY = 2000
"""Rectangles beyond which the gaps between them would hide them."""


@dataclass(frozen=True)
class Inks:
    """Colours of all but the buffers."""

    sheet: str
    ink: str
    soft: str
    grid: str
    peak: str
    bound: str


INKS: dict[Theme, Inks] = {
    "light": Inks("#ffffff", "#1a2330", "#5a6776", "#e6eaef", "#d0344f", "#1c7f4f"),
    "dark": Inks("#151b23", "#e3e8ee", "#95a1af", "#252e39", "#ff6d85", "#5fcb96"),
}


def draw(picture: Picture, *, theme: Theme = "light", by: By | None = None) -> Figure:
    """The picture as a matplotlib figure, one pane an arena below the bands of the regions.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise InputError("--png and --svg need matplotlib: pip install 'lowtide[viz]'") from None
    inks, made = INKS[theme], colour(picture, by or telling_way(picture))
    rows = min(picture.depth, 12) if len(picture.bands) > 1 else 0
    heights = [
        *([rows * ROW] if rows else []),
        *(PANE / (1 + 0.4 * (len(picture.arenas) > 1)) for _ in picture.arenas),
    ]
    above = ABOVE + (RAM_PANE if picture.ram is not None else 0)
    height = sum(heights) + GAP * max(0, len(heights) - 1) + above + BELOW
    figure = Figure(figsize=(WIDTH, height), facecolor=inks.sheet)
    if not heights:
        figure.text(0.5, 0.5, "no buffers", color=inks.soft, ha="center")
        return figure
    grid = figure.subplots(len(heights), 1, squeeze=False, sharex=True, height_ratios=heights)
    figure.subplots_adjust(
        left=LEFT / WIDTH,
        right=1 - RIGHT / WIDTH,
        top=1 - above / height,
        bottom=BELOW / height,
        hspace=GAP * len(heights) / sum(heights),
    )
    axes: list[Axes] = list(grid[:, 0])
    figure.text(
        0.012, 1 - 0.1 / height, _headline(picture), color=inks.ink, fontsize=11, va="top", weight="bold"
    )
    if picture.ram is not None:
        _draw_ram(figure, picture.ram, height, theme)
    if rows:
        _draw_bands(axes.pop(0), picture, rows, theme)
    for pane, arena in zip(axes, picture.arenas, strict=True):
        _draw_arena(pane, picture, arena, made, theme)
        pane.tick_params(labelbottom=pane is axes[-1])
    axes[-1].set_xlabel("step", color=inks.soft)
    axes[-1].set_xlim(picture.start, max(picture.stop, picture.start + 1))
    _draw_legend(figure, made, theme)
    return figure


def _draw_ram(figure: Figure, bar: RamBar, height: float, theme: Theme) -> None:
    """All RAM as a bar above the panes, with a name on every share that is wide enough for it."""
    inks, wide = INKS[theme], WIDTH - LEFT - RIGHT
    bottom = height - ABOVE - RAM_PANE + 0.25
    axes = figure.add_axes((LEFT / WIDTH, bottom / height, wide / WIDTH, RAM_HEIGHT / height))
    axes.set_axis_off()
    axes.set_xlim(0, max(bar.bytes, 1))
    figure.text(LEFT / WIDTH, (bottom + RAM_HEIGHT + 0.05) / height, bar.title, color=inks.soft, fontsize=8)
    start = 0
    for (name, size), shade in zip(bar.shares, CATEGORIES[theme], strict=False):
        (drawn,) = axes.barh(0, size, left=start, color=shade, edgecolor=inks.sheet, linewidth=0.7)
        drawn.set_gid(f"ram-{name.replace(' ', '-')}")
        label = f"{name} {format_size(size)}"
        if size * wide * 72 > bar.bytes * (4.4 * len(label) + 8):
            axes.text(start + size / 2, 0, label, ha="center", va="center", fontsize=7, color="#10161d")
        start += size


def _headline(picture: Picture) -> str:
    plan = picture.plan
    verdict = "optimal" if plan.is_optimal else f"lower bound {format_size(plan.lower_bound_bytes)}"
    title = picture.title if len(picture.title) <= 60 else f"{picture.title[:59]}…"
    # A dollar sign would begin a formula.
    return f"{title}:  {format_size(plan.arena_bytes)}, {verdict}".replace("$", r"\$")


def _corners(spans: Iterator[tuple[float, float, float, float]]) -> list[list[tuple[float, float]]]:
    return [[(x0, y0), (x1, y0), (x1, y1), (x0, y1)] for x0, x1, y0, y1 in spans]


def _plain(axes: Axes, inks: Inks) -> None:
    axes.set_facecolor(inks.sheet)
    axes.tick_params(colors=inks.soft, length=0, labelsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(inks.soft)


def _draw_arena(axes: Axes, picture: Picture, arena: ArenaView, made: Colouring, theme: Theme) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    inks = INKS[theme]
    _plain(axes, inks)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=inks.grid, linewidth=0.8)
    axes.set_ylim(0, arena.top * 1.06)
    axes.yaxis.set_major_locator(MultipleLocator(2 ** max(0, (arena.top // 6).bit_length())))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda size, _: format_size(round(size)).replace(".0 ", " "))
    )
    colours = made.colours(theme)
    shown = [rectangle for rectangle in arena.rectangles if rectangle.size]
    boxes = PolyCollection(
        _corners((r.start, r.stop, r.offset, r.offset + r.size) for r in shown),
        facecolors=[colours[made.groups[r.buffer]] for r in shown],
        edgecolors=inks.sheet if len(shown) <= MANY else "face",
        linewidths=0.7 if len(shown) <= MANY else 0.2,
    )
    boxes.set_gid(f"buffers-{arena.id}")
    axes.add_collection(boxes)
    if arena.reserved:
        axes.axhspan(0, arena.reserved, facecolor=inks.grid, edgecolor=inks.soft, hatch="///", linewidth=0)
    _draw_labels(axes, picture, arena)
    start, stop, most = arena.peak
    if most > arena.reserved:
        wide = 4 * (stop - start) > picture.stop - picture.start
        axes.axvspan(start, stop, color=inks.peak, alpha=0.06 if wide else 0.16, linewidth=0)
    inside = [
        (t, size) for t, size in zip(arena.live.ticks, arena.live.bytes, strict=True) if t < picture.stop
    ]
    if inside:
        if inside[0][0] > picture.start:
            inside.insert(0, (picture.start, arena.reserved))
        inside.append((picture.stop, inside[-1][1]))
        (line,) = axes.step(*zip(*inside, strict=True), where="post", color=inks.ink, linewidth=1.3)
        line.set_gid(f"live-{arena.id}")
    _draw_lines(axes, arena, inks)


def _draw_lines(axes: Axes, arena: ArenaView, inks: Inks) -> None:
    """Arena, bound and capacity, with the peak; what is equal shares a label."""
    use = arena.use
    axes.axhline(use.bytes, color=inks.ink, linewidth=1.2)
    axes.axhline(use.lower_bound_bytes, color=inks.bound, linewidth=1.2, linestyle=(0, (5, 3)))
    labels = {use.bytes: arena.label}
    for size, label in (
        (use.lower_bound_bytes, "lower bound"),
        (arena.peak[2], "live peak"),
        (arena.capacity, "capacity"),
    ):
        if size is not None:
            labels[size] = f"{labels[size]} = {label}" if size in labels else label
    if arena.capacity is not None:
        axes.axhline(arena.capacity, color=inks.peak, linewidth=1.2, linestyle=(0, (1, 2)))
    below = float("inf")
    for size, label in sorted(labels.items(), reverse=True):
        at = min(size + arena.top * 0.012, below)
        below = at - arena.top * 0.042
        axes.annotate(
            f"{label} {format_size(size)}",
            (1, at),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color=inks.ink,
            bbox={"facecolor": inks.sheet, "edgecolor": "none", "alpha": 0.85, "pad": 1.5},
        )


def _draw_labels(axes: Axes, picture: Picture, arena: ArenaView) -> None:
    """Names of the buffers that are large enough to hold them."""
    wide = (WIDTH - LEFT - RIGHT) * 72 / max(1, picture.stop - picture.start)  # points a tick
    tall = PANE * 72 / (arena.top * 1.06)
    for r in arena.rectangles:
        name = short_name(picture.plan.problem.buffers[r.buffer].label)
        if (r.stop - r.start) * wide > 4.4 * len(name) + 8 and r.size * tall > 11:
            axes.annotate(
                name.replace("$", r"\$"),
                (r.start, r.offset + r.size),
                xytext=(3, -2),
                textcoords="offset points",
                va="top",
                fontsize=7,
                color="#10161d",
            )


def _draw_bands(axes: Axes, picture: Picture, rows: int, theme: Theme) -> None:
    from matplotlib.collections import PolyCollection

    inks = INKS[theme]
    _plain(axes, inks)
    axes.spines["bottom"].set_visible(False)
    axes.set_yticks([])
    axes.set_ylim(rows, 0)
    axes.tick_params(labelbottom=False)
    shown = [band for band in picture.bands if band.depth < rows]
    boxes = PolyCollection(
        _corners((band.start, band.stop, band.depth + 0.06, band.depth + 0.94) for band in shown),
        facecolors=[_band_colour(band, theme) for band in shown],
        edgecolors=inks.sheet,
        linewidths=1,
        alpha=0.45,
    )
    boxes.set_gid("regions")
    axes.add_collection(boxes)
    wide = (WIDTH - LEFT - RIGHT) * 72 / max(1, picture.stop - picture.start)
    for band in shown:
        name, kind = short_name(band.region), printable(band.kind)
        for text in (f"{kind} · {name}" if name != kind else name, name, kind):
            if (band.stop - band.start) * wide > 4.6 * len(text) + 8:
                axes.annotate(
                    text.replace("$", r"\$"),
                    (band.start, band.depth + 0.5),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=7.5,
                    color=inks.ink,
                )
                break


def _band_colour(band: Band, theme: Theme) -> str:
    return INKS[theme].soft if band.kind == "root" else CATEGORIES[theme][BANDS.get(band.kind, 4)]


def _draw_legend(figure: Figure, made: Colouring, theme: Theme) -> None:
    from matplotlib.patches import Patch

    inks = INKS[theme]
    handles: list[Any] = [
        Patch(facecolor=shade, label=_shortened(label))
        for label, shade in zip(made.labels, made.colours(theme), strict=True)
    ]
    figure.legend(
        handles=handles,
        loc="lower center",
        ncols=5,
        frameon=False,
        fontsize=8,
        labelcolor=inks.soft,
        handlelength=1,
        handleheight=1,
        columnspacing=1.6,
    )


def _shortened(label: str) -> str:
    text = label if len(label) <= 34 else f"…{label[-33:]}"
    return text.replace("$", r"\$")
