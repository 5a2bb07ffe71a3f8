"""Programs of PyTorch: ``.pt2`` files, exported programs, graph modules, and what was imported of them."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError
from lowtide.frontends.front_end import FormatOption, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.front_end import Opened
    from lowtide.frontends.torch_export.bindings import Imported
    from lowtide.ir.request import Request

_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")


class TorchExportFrontEnd:
    """Reads what ``torch.export.save`` wrote; PyTorch is imported once there is such a thing."""

    name = "pt2"
    options: tuple[FormatOption, ...] = ()

    def sniff(self, head: bytes, suffix: str) -> float:
        """A zip archive."""
        return 1.0 if head.startswith(_ZIP_MAGIC) else 0.5 if suffix == ".pt2" else 0.0

    def takes(self, value: object) -> bool:
        """Objects of PyTorch's; nobody has one who has not imported PyTorch."""
        if "torch" not in sys.modules:
            return False
        from torch import fx
        from torch.export import ExportedProgram

        from lowtide.frontends.torch_export.bindings import Imported

        return isinstance(value, (ExportedProgram, fx.GraphModule, Imported))

    def read(self, file: Opened, request: Request) -> Any:
        """The exported program in a file."""
        if not file.head.startswith(_ZIP_MAGIC):
            raise InputError(f"{file.name}: is no zip archive, or cut short: write it with torch.export.save")
        try:
            from lowtide.frontends.torch_export.pt2 import load
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "torch":
                raise
            raise InputError(
                f"{file.name}: is a PyTorch program, and torch is not installed: pip install 'lowtide[torch]'"
            ) from None
        return load(file.path if file.path is not None else io.BytesIO(file.content()), file.name)

    def load(self, value: Any, request: Request) -> Sequence[Source]:
        """The program, imported."""
        from lowtide.frontends.programs import source_of_program
        from lowtide.frontends.torch_export.bindings import Imported
        from lowtide.frontends.torch_export.importing import import_program

        imported = value if isinstance(value, Imported) else import_program(value, request)
        return (source_of_program(imported.program, request, origin=imported, blobs=_blobs(imported)),)

    def graph_of(self, value: Any) -> Any:
        """An exported program or a graph module as it is; what was imported is fixed."""
        from lowtide.frontends.programs import fixed
        from lowtide.frontends.torch_export.bindings import Imported

        if isinstance(value, Imported):
            raise fixed(value)
        return value


def _blobs(imported: Imported) -> tuple[int, ...]:
    """Bytes of what delegates that were lowered already hold, each once."""
    sizes: dict[int, int] = {}
    for module in imported.graph_module.modules():
        blob = getattr(module, "processed_bytes", None)
        if isinstance(blob, bytes):
            sizes.setdefault(id(module), len(blob))
    return tuple(sizes.values())


FRONT_END = TorchExportFrontEnd()
