"""Front end for ``torch.export``: exported programs, ``.pt2`` files and graph modules.

``import_program`` is all that most callers need; what it returns tells an interpreter how the Program maps
back to the graph.
"""

from __future__ import annotations

from lowtide.frontends.torch_export.bindings import Imported, Input, Position, RegionBinding
from lowtide.frontends.torch_export.calls import CallSignature, signature
from lowtide.frontends.torch_export.importing import import_program
from lowtide.frontends.torch_export.loading import load
from lowtide.ir.options import Options

__all__ = [
    "CallSignature",
    "Imported",
    "Input",
    "Options",
    "Position",
    "RegionBinding",
    "import_program",
    "load",
    "signature",
]
