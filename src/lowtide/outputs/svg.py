"""A plan as an SVG drawing."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from lowtide.outputs.picture.figure import draw

if TYPE_CHECKING:
    from lowtide.outputs.picture import Picture
    from lowtide.outputs.picture.colours import By, Theme


def picture_to_svg(picture: Picture, *, theme: Theme = "light", by: By | None = None) -> str:
    """The drawing as text: the same picture gives the same text.

    The rectangles of arena *i* are the paths of the group ``buffers-i``, in the order of the buffers;
    text stays text, so that it can be searched and copied.

    Raises:
        InputError: matplotlib is not installed.
    """
    figure = draw(picture, theme=theme, by=by)
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.hashsalt": "lowtide", "svg.fonttype": "none"}):
        figure.savefig(
            file, format="svg", metadata={"Title": picture.title, "Creator": "Lowtide", "Date": None}
        )
    return file.getvalue()
