"""ExecuTorch programs (``.pte``): methods with program points of their own.

``read_pte`` parses, ``analyse`` says what the instructions of each method mean, ``flow_of`` makes the
program points that liveness and packers work on.
"""

from __future__ import annotations

from lowtide.frontends.pte.analysis import Analysis, analyse
from lowtide.frontends.pte.reading import PteFile, read_pte

__all__ = ["Analysis", "PteFile", "analyse", "read_pte"]
