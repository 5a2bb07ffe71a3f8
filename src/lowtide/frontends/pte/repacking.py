"""The same ``.pte`` with a better plan: places and arena sizes change, and nothing else.

The original decides what may change: every arena ends up no larger than it was, if it was safe; what backends
may read beyond an arena's last tensor stays; arenas that several methods may share are left alone. With a
memory map tensors go to banks, and what their accesses cost counts in place of the sizes of arenas.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lowtide.frontends.pte.analysis import Analysis, analyse, shared_arenas
from lowtide.frontends.pte.auditing import ALIGNMENT, Audit, audit_file
from lowtide.frontends.pte.banking import BankMover
from lowtide.frontends.pte.flow import own_layout
from lowtide.frontends.pte.moving import Mover, refusal
from lowtide.frontends.pte.reading import PteFile
from lowtide.frontends.pte.writing import Sizes, Spots, rewrite
from lowtide.pack.banks.pins import matching_pins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lowtide.frontends.front_end import RewrittenArena
    from lowtide.frontends.pte.methods import Place
    from lowtide.ir.memory_map import MemoryMap
    from lowtide.ir.plan import Plan
    from lowtide.pack.registry import Options
    from lowtide.pack.techniques import Techniques


@dataclass(frozen=True, slots=True)
class Repacked:
    """What ``repack`` made.

    Args:
        data: the new file; the input itself if nothing could be improved.
        before, after: audits of the input and of the output.
        arenas: every arena of every method.
        seconds: time that it took.
        plans: of each method, where there is a memory map and its tensors have moved.
    """

    data: bytes
    before: Audit
    after: Audit
    arenas: tuple[RewrittenArena, ...]
    seconds: float
    plans: Mapping[str, Plan] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether any tensor has moved."""
        return self.before is not self.after

    @property
    def faults_before(self) -> int:
        """Faults of the plan that the file had."""
        return len(self.before.findings)

    @property
    def notes(self) -> tuple[str, ...]:
        """What had to be assumed of the new file."""
        return self.after.notes


def repack(
    file: PteFile,
    techniques: Techniques,
    *,
    alignment: int | None,
    packer: str,
    options: Options,
    memory: MemoryMap | None = None,
) -> Repacked:
    """Plan the memory of an existing ``.pte`` anew.

    Args:
        file: as it was read.
        techniques: what the new plan may make use of besides lifetimes.
        alignment: bytes that offsets are to be multiples of; None for 16, and for more in an arena that looks
            as if it had been planned with more.
        packer, options: how it is searched; the time is for each method.
        memory: the banks that tensors go to, if there are any.

    Raises:
        InputError: the map contradicts the file.
        InfeasibleError: the tensors do not fit in the banks.
        UnsupportedError: no plan can be right for sure.
        VerificationError: the new file did not pass the audit; nothing is returned.
    """
    began = time.perf_counter()
    analyses = analyse(file)
    asked = alignment or ALIGNMENT
    before = audit_file(file, analyses, alignment=asked)
    planning = [analysis for analysis in analyses if any(True for _ in analysis.method.planned)]
    maps = {} if memory is None else _maps(planning, memory)
    shared = shared_arenas(analyses)
    spots: Spots = {}
    sizes: Sizes = {}
    changes: list[RewrittenArena] = []
    plans: dict[str, Plan] = {}
    for analysis in planning:
        name = analysis.method.name
        unsafe = any(finding.method == name for finding in before.findings)
        given = analysis, alignment, unsafe, shared, _state_of_others(analysis, analyses)
        mover = BankMover(*given, maps[name]) if name in maps else Mover(*given)
        moved = mover.run(packer, options, techniques)
        spots[name] = {value: (place.memory, place.start) for value, place in moved.places.items()}
        sizes[name] = moved.sizes
        changes += moved.arenas
        if moved.plan is not None:
            plans[name] = moved.plan
    if all(change.reason for change in changes):
        return Repacked(file.data, before, before, tuple(changes), time.perf_counter() - began)
    fresh = rewrite(file, spots, sizes)
    after = audit_file(fresh, analyse(fresh), alignment=asked)
    if after.findings:
        raise refusal(after.findings)
    return Repacked(fresh.data, before, after, tuple(changes), time.perf_counter() - began, plans)


def _maps(analyses: list[Analysis], memory: MemoryMap) -> dict[str, MemoryMap]:
    """The map for each method by name: without pins that only other methods have anything for."""
    if len(analyses) == 1:
        return {analyses[0].method.name: memory}
    layouts = {a.method.name: own_layout(a, dict.fromkeys(a.method.arenas, 1)) for a in analyses}
    found = {name: matching_pins(layout.problem, memory, layout.flow) for name, layout in layouts.items()}
    anywhere = frozenset().union(*found.values())
    return {
        name: replace(memory, pins=tuple(pin for pin in memory.pins if pin in pins or pin not in anywhere))
        for name, pins in found.items()
    }


def _state_of_others(analysis: Analysis, analyses: tuple[Analysis, ...]) -> list[Place] | None:
    """Bytes in a method's arenas that other methods keep state in, and that the method has left alone so far.

    A runtime may load the methods of a file into one block of memory, as ExecuTorch's Python runtime does.
    None if no method has any state, or there is one method only.
    """
    planning = [other for other in analyses if any(True for _ in other.method.planned)]
    if len(planning) < 2 or not any(other.views.state for other in planning):
        return None
    mine = [tensor.place for tensor in analysis.method.planned if tensor.place is not None]
    found: dict[Place, None] = {}
    for other in planning:
        for value in sorted(other.views.state) if other is not analysis else ():
            place = other.method.tensors[value].place
            if place is None or place.stop > analysis.method.arenas.get(place.memory, 0):
                continue
            if not any(place.overlaps(own) for own in mine) and not any(place.overlaps(p) for p in found):
                found[place] = None
    return list(found)
