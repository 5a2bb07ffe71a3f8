"""Is the memory plan of an existing ``.pte`` safe? Every fault with the path that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.base.files import show_name
from lowtide.base.units import many
from lowtide.frontends.audits import AuditOf
from lowtide.frontends.pte.analysis import Analysis, analyse
from lowtide.frontends.pte.faults import Finding, find_lost
from lowtide.frontends.pte.pointers import Pointers
from lowtide.frontends.pte.reading import PteFile, open_pte

if TYPE_CHECKING:
    from lowtide.base.files import StrPath
    from lowtide.frontends.pte.methods import Place

ALIGNMENT = 16
"""Bytes: ExecuTorch's own planners keep it, and kernels may rely on it; its runtime does not check."""


@dataclass(frozen=True)
class Audit(AuditOf[Finding]):
    """What an audit found; ``instructions`` and ``path`` of a finding are debug handles.

    Args:
        methods: names of the methods looked at.
        tensors: how many tensors have a place, in all.
    """

    methods: tuple[str, ...]
    tensors: int

    def sentence(self, finding: Finding) -> str:
        """One fault, for people."""
        assumed = " (assuming the worst of an unknown operator)" if finding.assumed else ""
        return f"{show_name(finding.method)}: {finding.kind}: {finding.message}{assumed}"

    def looked(self) -> str:
        """How much was looked at, for people."""
        return f"{many(len(self.methods), 'method')}, {many(self.tensors, 'planned tensor')}"


def audit(source: StrPath | bytes | PteFile, *, alignment: int = ALIGNMENT) -> Audit:
    """Look for tensors that share bytes while both are needed, in every method, on every path.

    Args:
        source: the path of a ``.pte``, its bytes, or what ``open_pte`` made of them.
        alignment: bytes that every offset must be a multiple of.

    Raises:
        InputError: the file is damaged or no ``.pte``.
        UnsupportedError: ExecuTorch is missing, or it needs another version.
    """
    file = open_pte(source)
    return audit_file(file, analyse(file), alignment=alignment)


def audit_file(file: PteFile, analyses: tuple[Analysis, ...], *, alignment: int = ALIGNMENT) -> Audit:
    """As ``audit``, of a file that was parsed and analysed."""
    findings: list[Finding] = []
    notes: list[str] = []
    for analysis in analyses:
        places = {t.index: t.place for t in analysis.method.planned if t.place is not None}
        findings += check_places(analysis, places, analysis.method.arenas, alignment)
        notes += _notes(analysis)
        notes += [note for other in analyses if other is not analysis for note in _trampled(analysis, other)]
    return Audit(
        file.name,
        tuple(findings),
        tuple(notes),
        tuple(analysis.method.name for analysis in analyses),
        sum(1 for analysis in analyses for _ in analysis.method.planned),
    )


def check_places(
    analysis: Analysis, places: Mapping[int, Place], arenas: Mapping[int, int], alignment: int
) -> list[Finding]:
    """Faults of one method's plan.

    Args:
        analysis: the method.
        places: the bytes of every planned tensor.
        arenas: bytes of each arena by memory id.
        alignment: bytes.
    """
    static = list(_misplaced(analysis, places, arenas, alignment))
    return [*static, *_moved_outputs(analysis), *find_lost(analysis, Pointers(analysis, places))]


def _misplaced(
    analysis: Analysis, places: Mapping[int, Place], arenas: Mapping[int, int], alignment: int
) -> Iterator[Finding]:
    method = analysis.method
    for value, place in places.items():
        tensor, size = method.tensors[value], arenas.get(place.memory)
        if size is None:
            yield Finding(
                "outside", method.name, f"{tensor} is in arena {place.memory}, which does not exist", (value,)
            )
        elif place.stop > size:
            yield Finding(
                "outside", method.name, f"{tensor} ends beyond its arena, which has {size} bytes", (value,)
            )
        if place.start % alignment and place.stop > place.start:
            yield Finding(
                "misaligned", method.name, f"{tensor} is not at a multiple of {alignment} bytes", (value,)
            )


def _moved_outputs(analysis: Analysis) -> Iterator[Finding]:
    """Outputs in memory that the caller provides: a move points them elsewhere and leaves it as it was."""
    method = analysis.method
    for value in dict.fromkeys(method.outputs):
        tensor = method.tensors[value]
        if value in analysis.views.targets and tensor.place is None:
            moves = [
                at for at, effect in enumerate(analysis.effects) if any(to == value for to, _ in effect.moves)
            ]
            yield Finding(
                "output",
                method.name,
                f"output {tensor} is to be in the caller's memory, but {method.instructions[moves[0]]} "
                "points it elsewhere: the next run writes through a stale pointer",
                (value,),
                tuple(moves),
            )


def _notes(analysis: Analysis) -> Iterator[str]:
    method = analysis.method
    for at in analysis.unknown:
        yield (
            f"{show_name(method.name)}: {method.instructions[at]} is not known: it is taken to read and "
            "write all that it is given"
        )
    for view in sorted(analysis.views.guessed):
        base = analysis.views.base[view]
        yield (
            f"{show_name(method.name)}: {method.tensors[view]} is taken for a view of "
            f"{method.tensors[base]}, the only tensor that can be meant"
        )


def _trampled(analysis: Analysis, other: Analysis) -> Iterator[str]:
    """What a method does to another's state, if a runtime gives both of them one block of memory."""
    mine = {t.place for t in analysis.method.planned if t.index not in analysis.views.state}
    for value in sorted(other.views.state):
        place = other.method.tensors[value].place
        if place is not None and any(place.overlaps(own) for own in mine if own is not None):
            yield (
                f"{show_name(analysis.method.name)}: has tensors where {show_name(other.method.name)} keeps "
                f"state, {other.method.tensors[value]}: give each method memory of its own"
            )
