"""The cheapest way to make a program fit its memory: one search for every runtime.

values     what is allowed, what was done, and what it won
ladder     the search, from what costs nothing to what costs work
floor      what no execution in parts avoids, and what that consists of
preparing  what can be fitted, and in which operators
sources    where nodes come from, told alike in every run
stamp      what a fitted program says of itself, so that fitting it again changes nothing
"""

from __future__ import annotations

from lowtide.transforms.fit.floor import Floor, floor_of
from lowtide.transforms.fit.ladder import fit_program
from lowtide.transforms.fit.values import Allowed, FitStep, Found, Limits, Packed, Target

__all__ = [
    "Allowed",
    "FitStep",
    "Floor",
    "Found",
    "Limits",
    "Packed",
    "Target",
    "fit_program",
    "floor_of",
]
