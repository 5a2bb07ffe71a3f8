"""ExecuTorch programs: ``.pte`` files, planned, judged and written again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError
from lowtide.frontends.front_end import FormatOption, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.front_end import Opened
    from lowtide.frontends.pte.auditing import Audit
    from lowtide.frontends.pte.reading import PteFile
    from lowtide.frontends.pte.repacking import Repacked
    from lowtide.ir.request import Request
    from lowtide.pack.registry import Options

_MAGIC = b"ET"
"""At byte 4, followed by two digits of a version."""

_TELL_RAM = ("explain", "check", "show", "plan")
"""Commands that tell all RAM of a device."""


class PteFrontEnd:
    """Reads, judges and rewrites ``.pte`` files."""

    name = "pte"
    options = (
        FormatOption("method", "Which method of a .pte.", metavar="NAME"),
        FormatOption(
            "device",
            "Count all RAM of a .pte or .tflite on cortex-m or host.",
            metavar="NAME",
            commands=_TELL_RAM,
        ),
        FormatOption(
            "runtime", "Version of ExecuTorch on the device.", metavar="VERSION", commands=_TELL_RAM
        ),
        FormatOption(
            "temp_pool",
            "Size of the device's pool for temporary memory, or none; all kernels find room if not given.",
            metavar="SIZE",
            commands=_TELL_RAM,
        ),
        FormatOption("copied", "The device's loader copies the file into RAM.", commands=_TELL_RAM),
        FormatOption(
            "all_methods", "All methods of the file are loaded at the same time.", commands=_TELL_RAM
        ),
    )

    def sniff(self, head: bytes, suffix: str) -> float:
        """A flatbuffer with ExecuTorch's identifier."""
        return 1.0 if _is_pte(head) else 0.5 if suffix == ".pte" else 0.0

    def takes(self, value: object) -> bool:
        """Files that were parsed already."""
        if "lowtide.frontends.pte.reading" not in sys.modules:
            return False
        from lowtide.frontends.pte.reading import PteFile

        return isinstance(value, PteFile)

    def read(self, file: Opened, request: Request) -> PteFile:
        """The parsed file."""
        from lowtide.frontends.pte.reading import read_pte

        if not _is_pte(file.head):
            raise InputError(f"{file.name}: is no ExecuTorch program, or cut short: export it again")
        return read_pte(file.content(), file.name)

    def load(self, value: PteFile, request: Request) -> Sequence[Source]:
        """The methods that plan memory, or the one that the request names."""
        from lowtide.frontends.pte.on_device import loading_of
        from lowtide.frontends.pte.sources import load_methods

        options = request.format_options
        return load_methods(
            value, request.alignment, options.get("method"), loading_of(options), request.memory_map
        )

    def judge(self, value: PteFile, *, alignment: int) -> Audit:
        """Whether the file's own plan is safe, on every path of every method."""
        from lowtide.frontends.pte.auditing import audit

        return audit(value, alignment=alignment)

    def rewrite(
        self, value: PteFile, request: Request, *, alignment: int | None, packer: str, options: Options
    ) -> Repacked:
        """The file with other places and arena sizes, and nothing else changed."""
        from lowtide.frontends.pte.repacking import repack
        from lowtide.pack.techniques import Techniques

        techniques = Techniques(request.in_place, request.elide_copies)
        return repack(
            value,
            techniques,
            alignment=alignment,
            packer=packer,
            options=options,
            memory=request.memory_map,
        )


def _is_pte(head: bytes) -> bool:
    return head[4:6] == _MAGIC and head[6:8].isdigit()


FRONT_END: Any = PteFrontEnd()
