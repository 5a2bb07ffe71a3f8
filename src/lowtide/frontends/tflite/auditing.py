"""Are the offsets that a model carries right?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.base.errors import Violation
from lowtide.base.units import amount, many
from lowtide.frontends.audits import AuditOf
from lowtide.frontends.tflite.interpreter import simulate
from lowtide.frontends.tflite.judging import judge, must_stay_online
from lowtide.frontends.tflite.metadata import ONLINE, offsets_in
from lowtide.frontends.tflite.programs import program_of
from lowtide.frontends.tflite.requests import check_alignment

if TYPE_CHECKING:
    from lowtide.frontends.tflite.model import Model


@dataclass(frozen=True)
class Audit(AuditOf[Violation]):
    """What an audit found.

    Args:
        tensors: how many tensors have a place in the arena.
        fixed: how many of them carry an offset.
        head_bytes: of the arena, without scratch.
        stock_bytes: the same if the file had no offsets.
    """

    tensors: int
    fixed: int
    head_bytes: int
    stock_bytes: int

    def sentence(self, finding: Violation) -> str:
        """One fault, for people."""
        return f"{finding.kind}: {finding.message}"

    def looked(self) -> str:
        """How much was looked at, for people."""
        return f"{many(self.tensors, 'tensor')}, {self.fixed:,} with an offset"

    def sizes(self) -> str:
        """The head with and without the offsets, for people."""
        return f"a head of {amount(self.head_bytes)}, {amount(self.stock_bytes)} without offsets"


def audit_model(model: Model, *, alignment: int) -> Audit:
    """Look for tensors that share bytes while both are needed, on every path.

    Args:
        model: as read.
        alignment: bytes; the interpreter has its own.

    Raises:
        InputError: the offsets in the file cannot be read.
        UnsupportedError: it cannot be followed, or another alignment is asked for.
    """
    check_alignment(model, alignment)
    imported = program_of(model, apart=must_stay_online(model))
    offsets = offsets_in(model)
    arena = simulate(model, offsets)
    notes = ["scratch of kernels is not in the file: the interpreter places it apart from all of this"]
    if offsets is None:
        notes.insert(0, "the file has no offsets: the interpreter places everything by itself")
    return Audit(
        name=model.name,
        findings=tuple(judge(model, imported, offsets)),
        notes=tuple(notes),
        tensors=len(arena.tensors),
        fixed=0 if offsets is None else sum(offsets[i] != ONLINE for i in arena.tensors),
        head_bytes=arena.head,
        stock_bytes=simulate(model).head,
    )
