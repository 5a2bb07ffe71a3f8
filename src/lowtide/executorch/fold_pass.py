"""Constant folding, as a pass over edge programs: memory planning sees no weights and comes too late."""

from __future__ import annotations

from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from torch.export import ExportedProgram

from lowtide.transforms.folding import Folded, fold_constants


class FoldConstants(ExportedProgramPassBase):  # type: ignore[misc]
    """Computes what depends on weights and constants alone, bit for bit as the runtime would.

    ::

        fold = FoldConstants(limit=64 * 1024)
        edge = edge.transform(ExportedProgramPassManager([fold]))

    Args:
        limit: bytes by which a method may grow in the file; None for as much as it takes.

    ``folded`` holds what was done, one entry a method.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.folded: list[Folded] = []

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """The program with its constants computed."""
        found = fold_constants(exported_program, limit=self.limit)
        self.folded.append(found)
        return ExportedProgramPassResult(found.program, bool(found.constants))
