"""What every picture of a plan shows, apart from how it is drawn."""

from lowtide.outputs.picture.build import make_picture
from lowtide.outputs.picture.model import ArenaView, Band, Picture, Rectangle, Step

__all__ = ["ArenaView", "Band", "Picture", "Rectangle", "Step", "make_picture"]
