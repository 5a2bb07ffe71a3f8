"""Programs as values: what a compiler of yours builds with ``ProgramBuilder``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError
from lowtide.frontends.front_end import FormatOption, Source
from lowtide.ir.program import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.front_end import Opened
    from lowtide.ir.request import Request


class ProgramFrontEnd:
    """Takes Programs; they have no file format of their own."""

    name = "program"
    options: tuple[FormatOption, ...] = ()

    def sniff(self, head: bytes, suffix: str) -> float:
        """No file is one."""
        return 0.0

    def takes(self, value: object) -> bool:
        """Programs."""
        return isinstance(value, Program)

    def read(self, file: Opened, request: Request) -> Program:
        """Never called, since no file is one."""
        raise InputError("a Program has no file format: write its plan as JSON")

    def load(self, value: Program, request: Request) -> Sequence[Source]:
        """The program."""
        from lowtide.frontends.programs import source_of_program

        return (source_of_program(value, request),)

    def graph_of(self, value: Program) -> Any:
        """None: a Program is fixed."""
        from lowtide.frontends.programs import fixed

        raise fixed(value)


FRONT_END = ProgramFrontEnd()
