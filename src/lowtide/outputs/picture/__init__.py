"""What every picture of a plan shows, apart from how it is drawn."""

from lowtide.outputs.picture.build import make_picture
from lowtide.outputs.picture.drawing import ArenaView, Band, Picture, PictureStep, Rectangle

__all__ = ["ArenaView", "Band", "Picture", "PictureStep", "Rectangle", "make_picture"]
