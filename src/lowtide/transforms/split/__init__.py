"""Steps run in parts: below what the graph allows, with the bits that it gives whole.

rules/     for each operator and axis: which slice of each operand a slice of the result needs
segments   connected steps with one axis through all of them, and their parts
tape       the calls that run instead of a segment
live, work what a tape costs: bytes alive, and multiply-adds
search     which segments, axes, numbers of parts
writing    a tape made into nodes
fitting    all of it, with the packed arena as the judge
"""

from __future__ import annotations

from lowtide.transforms.split.fitting import Fitting, SplitStep, split_to_fit
from lowtide.transforms.split.writing import Dialect

__all__ = ["Dialect", "Fitting", "SplitStep", "split_to_fit"]
