"""What audits of all formats have in common: faults, notes and a verdict, for people and for machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from lowtide.base.units import many

if TYPE_CHECKING:
    from collections.abc import Iterator

F = TypeVar("F")
"""What a format calls a fault."""


@dataclass(frozen=True)
class AuditOf(Generic[F]):
    """What an audit found; each format adds what it looked at.

    Args:
        name: of the file.
        findings: faults, in the order of the program.
        notes: what had to be assumed.
    """

    name: str
    findings: tuple[F, ...]
    notes: tuple[str, ...]

    @property
    def safe(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def to_json(self) -> str:
        """All of it as JSON text."""
        import json

        return json.dumps({**asdict(self), "safe": self.safe}, indent=2) + "\n"

    def lines(self) -> Iterator[str]:
        """All of it for people: a fault a line, what had to be assumed, then the verdict."""
        for finding in self.findings:
            yield f"  {self.sentence(finding)}"
        for note in self.notes:
            yield f"  note: {note}"
        if self.safe:
            looked = "; ".join(filter(None, (self.looked(), self.sizes())))
            yield f"{self.name}: safe: no two tensors share bytes while both are needed; {looked}"
        else:
            yield f"{self.name}: NOT SAFE: {many(len(self.findings), 'fault')}; {self.looked()}"

    def sentence(self, finding: F) -> str:
        """One fault, for people."""
        raise NotImplementedError

    def looked(self) -> str:
        """How much was looked at, for people."""
        raise NotImplementedError

    def sizes(self) -> str:
        """What a safe file takes, for people, if the audit tells."""
        return ""
