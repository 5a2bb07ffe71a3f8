"""A plan as a PNG image."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from lowtide.outputs.picture.figure import draw

if TYPE_CHECKING:
    from lowtide.outputs.picture import Picture
    from lowtide.outputs.picture.colours import By, Theme

DPI = 140
"""Pixels an inch: a picture is 1680 pixels wide."""


def picture_to_png(picture: Picture, *, theme: Theme = "light", by: By | None = None) -> bytes:
    """The image file.

    Raises:
        InputError: matplotlib is not installed.
    """
    figure, file = draw(picture, theme=theme, by=by), io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Title": picture.title, "Software": "Lowtide"})
    return file.getvalue()
