"""ExecuTorch programs (``.pte``): methods with program points of their own.

``reading`` parses, ``analysis`` says what the instructions of each method mean, ``loading`` makes of each a
Source to plan; ``auditing`` judges the plan in a file, and ``repacking`` writes it again with a better one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.lazy import lazy

if TYPE_CHECKING:
    from lowtide.frontends.pte.analysis import Analysis, analyse
    from lowtide.frontends.pte.reading import PteFile, open_pte, read_pte

__all__ = ["Analysis", "PteFile", "analyse", "open_pte", "read_pte"]

__getattr__ = lazy(
    __name__,
    {
        **dict.fromkeys(("Analysis", "analyse"), "lowtide.frontends.pte.analysis"),
        **dict.fromkeys(("PteFile", "open_pte", "read_pte"), "lowtide.frontends.pte.reading"),
    },
)
