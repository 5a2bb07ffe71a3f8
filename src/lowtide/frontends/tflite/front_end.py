"""Models of TensorFlow Lite Micro: ``.tflite`` files, planned, judged and written again."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import UnsupportedError
from lowtide.frontends.front_end import FormatOption, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.front_end import Opened
    from lowtide.frontends.tflite.auditing import Audit
    from lowtide.frontends.tflite.model import Model
    from lowtide.frontends.tflite.repacking import Repacked
    from lowtide.ir.request import Request
    from lowtide.pack.registry import Options

_IDENTIFIER = b"TFL3"
"""At byte 4; four bytes later where a file has its size in front, which is refused when it is read."""

_LIMIT = 2**31


class TfliteFrontEnd:
    """Reads, judges and rewrites ``.tflite`` files."""

    name = "tflite"
    options = (
        FormatOption(
            "scratch_log", "What a .tflite's target prints with TF_LITE_SHOW_MEMORY_USE.", metavar="LOG"
        ),
        FormatOption("keep_offsets", "Leave every tensor of a .tflite that has an offset where it is."),
        FormatOption("probe_scratch", "Ask tflite-micro for the scratch of a .tflite's reference kernels."),
        FormatOption("probe_arena", "Ask tflite-micro for the least arena in which a .tflite starts here."),
    )

    def sniff(self, head: bytes, suffix: str) -> float:
        """A flatbuffer with TensorFlow Lite's identifier, or one with its size in front."""
        if _IDENTIFIER in (head[4:8], head[8:12]):
            return 1.0
        return 0.5 if suffix == ".tflite" else 0.0

    def takes(self, value: object) -> bool:
        """Files that were parsed already."""
        if "lowtide.frontends.tflite.model" not in sys.modules:
            return False
        from lowtide.frontends.tflite.model import Model

        return isinstance(value, Model)

    def read(self, file: Opened, request: Request) -> Model:
        """The parsed file."""
        from lowtide.frontends.tflite.reading import read_model

        if file.path is not None and os.path.isfile(file.path) and os.path.getsize(file.path) >= _LIMIT:
            raise UnsupportedError(f"{file.name}: has 2 GiB or more: no interpreter reads that")
        return read_model(file.content(), file.name)

    def load(self, value: Model, request: Request) -> Sequence[Source]:
        """The model, whose subgraphs share one arena."""
        from lowtide.frontends.tflite.sources import load_model

        return (load_model(value, request),)

    def judge(self, value: Model, *, alignment: int) -> Audit:
        """Whether the file's own offsets are right, on every path."""
        from lowtide.frontends.tflite.auditing import audit_model

        return audit_model(value, alignment=alignment)

    def rewrite(
        self, value: Model, request: Request, *, alignment: int | None, packer: str, options: Options
    ) -> Repacked:
        """The file with other offsets, and nothing else changed."""
        from lowtide.frontends.tflite.repacking import repack_model

        return repack_model(value, request, alignment=alignment, packer=packer, options=options)


FRONT_END: Any = TfliteFrontEnd()
