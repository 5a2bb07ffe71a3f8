"""Rewrites: what takes more memory than it needs, said in a way that takes less.

rule       what a rule is, and what it gives back
rules      all of them by name
driving    which of them are used: those that make the packed arena smaller
judging    the arena of a program that is not lowered
dialect, editing, constants    what they are written with

pads       explicit pads that a convolution or pooling can do by itself
borders    pads that it cannot, dissolved
fills      tensors of one number
equal      equal computations of constants
products   weights that are transposed only to be multiplied
pools      pooling whose indices nobody reads
means      means over whole maps (may round differently)
"""

from __future__ import annotations

from lowtide.transforms.rewrites.dialect import Dialect, dialect_of
from lowtide.transforms.rewrites.driving import Rewriting, Win, rewrite
from lowtide.transforms.rewrites.rule import Change, Rewritten, Rule
from lowtide.transforms.rewrites.rules import EVERY, NAMES

__all__ = [
    "EVERY",
    "NAMES",
    "Change",
    "Dialect",
    "Rewriting",
    "Rewritten",
    "Rule",
    "Win",
    "dialect_of",
    "rewrite",
]
