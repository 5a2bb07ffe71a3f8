"""Problems and plans: in JSON, or as values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.frontends.front_end import FormatOption, Source
from lowtide.ir.plan import Plan
from lowtide.ir.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.front_end import Opened
    from lowtide.ir.request import Request


class JsonFrontEnd:
    """Reads JSON, and takes the values that it holds."""

    name = "json"
    options: tuple[FormatOption, ...] = ()

    def sniff(self, head: bytes, suffix: str) -> float:
        """A brace or a bracket comes first."""
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return 0.4 if start.startswith((b"{", b"[")) or suffix == ".json" else 0.0

    def takes(self, value: object) -> bool:
        """Problems and plans."""
        return isinstance(value, (Problem, Plan))

    def read(self, file: Opened, request: Request) -> Problem | Plan:
        """The problem or plan that the text holds."""
        from lowtide.base.files import read_rest
        from lowtide.formats.json.reading import from_json

        return from_json(read_rest(file.rest, file.head, file.name), file.name)

    def load(self, value: Problem | Plan, request: Request) -> Sequence[Source]:
        """A problem as it is; of a plan its problem, with the plan beside it."""
        if isinstance(value, Plan):
            return (Source(value.problem, plan=value),)
        return (Source(value),)


FRONT_END = JsonFrontEnd()
