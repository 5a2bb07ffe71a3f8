"""A plan as one HTML page that needs nothing else: no network, no library.

The page is a template with a style sheet, scripts and the plan's numbers put in. Drawing is done on a
canvas by the scripts beside this file: of the charting libraries that can be put into a page, none drew
20,000 rectangles anew while panning (``docs/pictures.md`` has the measurements).
"""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import UnsupportedError
from lowtide.base.units import amount, format_size
from lowtide.outputs.picture.colours import CATEGORIES, WAYS, colour, telling_way

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lowtide.outputs.picture import ArenaView, Picture
    from lowtide.outputs.picture.colours import By
    from lowtide.outputs.picture.ram_bar import RamBar

EXACT = 2**53
"""Numbers in a page are floating point: above this they would no longer be exact."""

SCRIPTS = ("data.js", "view.js", "ink.js", "axes.js", "paint.js", "panel.js", "main.js")
"""In the order in which they build on each other."""


def picture_to_html(picture: Picture, by: By | None = None) -> str:
    """The page.

    Args:
        by: what it colours by when it opens; None for the first way that tells buffers apart.

    Raises:
        UnsupportedError: a number is too large to be shown exactly.
    """
    largest = max((arena.top for arena in picture.arenas), default=0)
    if max(largest, picture.stop) >= EXACT:
        raise UnsupportedError(
            f"{picture.title}: a page cannot show numbers of 2^53 and more exactly: use --svg or --png"
        )
    parts = {
        "title": _text(f"{picture.title} · Lowtide"),
        "style": _asset("style.css"),
        "ram": "" if picture.ram is None else _ram(picture.ram),
        "data": _embedded(page_data(picture, by)),
        "script": "\n".join(_asset(name) for name in SCRIPTS),
    }
    page = _asset("page.html")
    head, *pieces = page.split("{{")
    out = [head]
    for piece in pieces:
        name, _, rest = piece.partition("}}")
        out += [parts[name], rest]
    return "".join(out)


def page_data(picture: Picture, by: By | None = None) -> dict[str, Any]:
    """What the page knows, as a JSON value: columns instead of records, and each text once."""
    plan, buffers = picture.plan, picture.plan.problem.buffers
    texts = _Texts()
    return {
        "title": picture.title,
        "packer": plan.packer,
        "hierarchy": plan.hierarchy,
        "start": picture.start,
        "stop": picture.stop,
        "arenas": [_arena(arena) for arena in picture.arenas],
        "steps": {
            "start": [step.start for step in picture.steps],
            "name": texts.of(step.name for step in picture.steps),
        },
        "bands": [[band.region, band.kind, band.start, band.stop, band.depth] for band in picture.bands],
        "buffers": {
            "name": texts.of(buffer.label for buffer in buffers),
            "size": [buffer.size for buffer in buffers],
            "alignment": [buffer.alignment for buffer in buffers],
            "kind": texts.of(buffer.kind for buffer in buffers),
            "region": texts.of(buffer.region for buffer in buffers),
            "dtype": texts.of(buffer.dtype or "" for buffer in buffers),
            "shape": texts.of(_shape(buffer.shape) for buffer in buffers),
            "operator": texts.of(buffer.operator or "" for buffer in buffers),
            "source": texts.of(buffer.source or "" for buffer in buffers),
        },
        "colourings": [
            {
                "by": made.by,
                "labels": made.labels,
                "groups": made.groups,
                "light": made.light,
                "dark": made.dark,
            }
            for made in (colour(picture, way) for way in WAYS)
        ],
        "colouring": WAYS.index(by or telling_way(picture)),
        "palette": {theme: CATEGORIES[theme] for theme in ("light", "dark")},
        "texts": texts.all,
    }


class _Texts:
    """A table of texts: names, regions and source lines recur thousands of times."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._positions: dict[str, int] = {}

    def of(self, texts: Iterable[str]) -> list[int]:
        """Positions of these texts in the table."""
        found = []
        for text in texts:
            position = self._positions.setdefault(text, len(self.all))
            if position == len(self.all):
                self.all.append(text)
            found.append(position)
        return found


def _arena(arena: ArenaView) -> dict[str, Any]:
    rectangles = arena.rectangles
    return {
        "id": arena.id,
        "name": str(arena.id) if arena.bank is None else arena.bank,
        "label": arena.label,
        "bytes": arena.use.bytes,
        "live_peak": arena.peak[2],
        "lower_bound": arena.use.lower_bound_bytes,
        "capacity": arena.capacity,
        "reserved": arena.reserved,
        "top": arena.top,
        "peak": arena.peak,
        "live": {"tick": arena.live.ticks, "bytes": arena.live.bytes},
        "rectangles": {
            "buffer": [rectangle.buffer for rectangle in rectangles],
            "start": [rectangle.start for rectangle in rectangles],
            "stop": [rectangle.stop for rectangle in rectangles],
            "offset": [rectangle.offset for rectangle in rectangles],
        },
    }


def _ram(bar: RamBar) -> str:
    """The bar of all RAM: a share is as wide as its bytes."""
    shares = "".join(
        f'<li style="flex-grow:{size}" title="{name}: {amount(size)}"><b>{name}</b> {format_size(size)}</li>'
        for name, size in bar.shares
    )
    return f'<figure class="ram"><figcaption>{_text(bar.title)}</figcaption><ul>{shares}</ul></figure>\n'


def _shape(shape: tuple[int | str, ...] | None) -> str:
    return "" if shape is None else f"[{', '.join(map(str, shape))}]"


def _embedded(value: object) -> str:
    """JSON inside a script element: nothing in it may look like the element's end or like a comment."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _asset(name: str) -> str:
    return (resources.files("lowtide.outputs.html") / name).read_text(encoding="utf-8")
