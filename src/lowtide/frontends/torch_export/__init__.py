"""Front end for ``torch.export``: exported programs, ``.pt2`` files and graph modules.

``import_program`` is all that most callers need; what it returns tells an interpreter how the Program maps
back to the graph. PyTorch is imported when the first of these names is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.lazy import lazy

if TYPE_CHECKING:
    from lowtide.frontends.torch_export.bindings import Imported, Input, Position, RegionBinding
    from lowtide.frontends.torch_export.calls import CallSignature, signature
    from lowtide.frontends.torch_export.importing import import_program
    from lowtide.frontends.torch_export.pt2 import load

__all__ = [
    "CallSignature",
    "Imported",
    "Input",
    "Position",
    "RegionBinding",
    "import_program",
    "load",
    "signature",
]

__getattr__ = lazy(
    __name__,
    {
        **dict.fromkeys(
            ("Imported", "Input", "Position", "RegionBinding"), "lowtide.frontends.torch_export.bindings"
        ),
        **dict.fromkeys(("CallSignature", "signature"), "lowtide.frontends.torch_export.calls"),
        "import_program": "lowtide.frontends.torch_export.importing",
        "load": "lowtide.frontends.torch_export.pt2",
    },
)
