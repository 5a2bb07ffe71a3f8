"""The packed arena of a program that is not lowered: what ``lowtide plan -O2`` finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.frontends.torch_export.importing import import_program
from lowtide.ir.request import Request
from lowtide.pack.registry import Options
from lowtide.pack.techniques import Techniques, plan_program

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_PACKER = "first-fit"
"""Deterministic and quick."""


def planned_arena(program: ExportedProgram) -> int:
    """Bytes of the arena with outputs over inputs and copies in their places.

    Raises:
        UnsupportedError: the program holds something that cannot be planned.
    """
    imported = import_program(program, Request(in_place=True, elide_copies=True))
    plan = plan_program(
        imported.program, Techniques(True, True), packer=_PACKER, options=Options(timeout=None)
    )
    return plan.arena_bytes
