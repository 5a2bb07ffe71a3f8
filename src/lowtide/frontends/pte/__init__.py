"""ExecuTorch programs (``.pte``): methods with program points of their own.

``read_pte`` parses, ``analyse`` says what the instructions of each method mean, ``load_methods`` makes of
each a problem to plan.
"""

from __future__ import annotations

from lowtide.frontends.pte.analysis import Analysis, analyse
from lowtide.frontends.pte.loading import LoadedMethod, load_methods, the_method
from lowtide.frontends.pte.reading import PteFile, open_pte, read_pte

__all__ = [
    "Analysis",
    "LoadedMethod",
    "PteFile",
    "analyse",
    "load_methods",
    "open_pte",
    "read_pte",
    "the_method",
]
