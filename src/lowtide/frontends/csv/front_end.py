"""Lists of buffers in CSV: whatever no other front end knows is taken for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.frontends.front_end import FormatOption, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.front_end import Opened
    from lowtide.ir.problem import Problem
    from lowtide.ir.request import Request


class CsvFrontEnd:
    """Reads CSV. A Problem in memory is taken by the JSON front end, which has both."""

    name = "csv"
    options = (FormatOption("pins", "Read a CSV's offset column as fixed offsets."),)

    def sniff(self, head: bytes, suffix: str) -> float:
        """Nothing tells a CSV but that nobody else knows it."""
        return 0.1

    def takes(self, value: object) -> bool:
        """None."""
        return False

    def read(self, file: Opened, request: Request) -> Problem:
        """The problem that a CSV describes."""
        from lowtide.base.files import read_rest
        from lowtide.formats.csv.reading import problem_from_csv

        pins = bool(request.format_options.get("pins"))
        return problem_from_csv(read_rest(file.rest, file.head, file.name), file.name, pins=pins)

    def load(self, value: Problem, request: Request) -> Sequence[Source]:
        """The problem, as it is."""
        return (Source(value),)


FRONT_END = CsvFrontEnd()
