"""The same ``.pte`` with a better plan: offsets and arena sizes change, and nothing else.

The original decides what may change: every arena ends up no larger than it was, if it was safe; what backends
may read beyond an arena's last tensor stays; arenas that several methods may share are left alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.base.errors import UnsupportedError, VerificationError
from lowtide.frontends.front_end import RewrittenArena
from lowtide.frontends.pte.analysis import Analysis, analyse
from lowtide.frontends.pte.auditing import ALIGNMENT, Audit, audit_file, check_places
from lowtide.frontends.pte.delegates import XNNPACK
from lowtide.frontends.pte.faults import Finding, violations_of
from lowtide.frontends.pte.flow import layout_of
from lowtide.frontends.pte.methods import Place, alignment_in
from lowtide.frontends.pte.reading import PteFile
from lowtide.frontends.pte.writing import rewrite
from lowtide.ir.problem import Arena, Buffer, align_up
from lowtide.pack.techniques import plan_layouts

if TYPE_CHECKING:
    from lowtide.frontends.pte.flow import Layout
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Problem
    from lowtide.pack.registry import Options
    from lowtide.pack.techniques import Techniques

_XNNPACK_PADDING = 64
"""Bytes that its kernels may read past the end of an arena (``XNN_EXTRA_BYTES``)."""


@dataclass(frozen=True, slots=True)
class Repacked:
    """What ``repack`` made.

    Args:
        data: the new file; the input itself if nothing could be improved.
        before, after: audits of the input and of the output.
        arenas: every arena of every method.
        seconds: time that it took.
    """

    data: bytes
    before: Audit
    after: Audit
    arenas: tuple[RewrittenArena, ...]
    seconds: float

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
    file: PteFile, techniques: Techniques, *, alignment: int | None, packer: str, options: Options
) -> Repacked:
    """Plan the memory of an existing ``.pte`` anew.

    Args:
        file: as it was read.
        techniques: what the new plan may make use of besides lifetimes.
        alignment: bytes that offsets are to be multiples of; None for 16, and for more in an arena that looks
            as if it had been planned with more.
        packer, options: how it is searched; the time is for each method.

    Raises:
        UnsupportedError: no plan can be right for sure.
        VerificationError: the new file did not pass the audit; nothing is returned.
    """
    began = time.perf_counter()
    analyses = analyse(file)
    asked = alignment or ALIGNMENT
    before = audit_file(file, analyses, alignment=asked)
    shared = _shared_arenas(analyses)
    offsets: dict[str, dict[int, int]] = {}
    sizes: dict[str, dict[int, int]] = {}
    changes: list[RewrittenArena] = []
    for analysis in analyses:
        method = analysis.method
        if not any(True for _ in method.planned):
            continue
        unsafe = any(finding.method == method.name for finding in before.findings)
        mover = _Mover(analysis, alignment, unsafe, shared, _state_of_others(analysis, analyses))
        offsets[method.name], sizes[method.name], done = mover.run(packer, options, techniques)
        changes += done
    if all(change.reason for change in changes):
        return Repacked(file.data, before, before, tuple(changes), time.perf_counter() - began)
    fresh = rewrite(file, offsets, sizes)
    after = audit_file(fresh, analyse(fresh), alignment=asked)
    if after.findings:
        raise refusal(after.findings)
    return Repacked(fresh.data, before, after, tuple(changes), time.perf_counter() - began)


def refusal(findings: tuple[Finding, ...]) -> VerificationError:
    """The error that a plan with findings ends in."""
    return VerificationError(violations_of(findings))


def _shared_arenas(analyses: tuple[Analysis, ...]) -> frozenset[int]:
    """Memory ids other than the default that several methods have and one keeps state in.

    Whoever runs the methods may give them one block of memory for such an arena, so that state is shared;
    the file does not say. Its tensors stay where they are in all methods.
    """
    used: dict[int, int] = {}
    stateful: set[int] = set()
    for analysis in analyses:
        for memory in analysis.method.arenas:
            used[memory] = used.get(memory, 0) + 1
        for value in analysis.views.state:
            place = analysis.method.tensors[value].place
            if place is not None:
                stateful.add(place.memory)
    return frozenset(memory for memory in stateful if memory > 1 and used.get(memory, 0) > 1)


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


class _Mover:
    """Decides about one method."""

    def __init__(
        self,
        analysis: Analysis,
        alignment: int | None,
        unsafe: bool,
        shared: frozenset[int],
        others: list[Place] | None,
    ) -> None:
        self.analysis, self.method = analysis, analysis.method
        self.unsafe, self.shared, self.others = unsafe, shared, others
        self.old = {t.index: t.place for t in self.method.planned if t.place is not None}
        self.memories = sorted({place.memory for place in self.old.values()})
        nowhere = [memory for memory in self.memories if memory not in self.method.arenas]
        if nowhere:
            raise UnsupportedError(
                f"method {self.method.name!r} has tensors in arena {nowhere[0]}, which does not exist: "
                "export the model again"
            )
        self.asked = alignment or ALIGNMENT
        self.unit = {
            memory: self.asked
            if alignment
            else alignment_in(self.method, memory, least=self.asked, slack=self.slack(memory))
            for memory in self.memories
        }

    def run(
        self, packer: str, options: Options, techniques: Techniques
    ) -> tuple[dict[int, int], dict[int, int], list[RewrittenArena]]:
        """New offsets by tensor, new sizes by arena, and what is to be said of each arena."""
        plan, places = self.plan(packer, options, techniques)
        bounds = {use.id: use.lower_bound_bytes for use in plan.uses}
        sizes: dict[int, int] = dict(self.method.arenas)
        changes = []
        for memory in self.memories:
            old_size = self.method.arenas.get(memory, 0)
            slack = self.slack(memory)
            end = max((p.stop for p in places.values() if p.memory == memory), default=0)
            size = align_up(end, self.unit[memory]) + slack
            bound = bounds.get(memory, 0) + slack
            reason = ""
            if memory in self.shared:
                reason = "methods may share it"
            elif not self.unsafe and size >= old_size:
                reason = "no plan is smaller" if old_size <= bound else "no smaller plan was found"
            if reason:
                places.update({v: p for v, p in self.old.items() if p.memory == memory})
                size = old_size
            sizes[memory] = size
            changes.append(
                RewrittenArena(self.method.name, memory, old_size, size, min(bound, size), slack, reason)
            )
        findings = check_places(self.analysis, places, sizes, self.asked)
        if findings:
            raise refusal(tuple(findings))
        return {value: place.start for value, place in places.items()}, sizes, changes

    def plan(self, packer: str, options: Options, techniques: Techniques) -> tuple[Plan, dict[int, Place]]:
        """The smallest plan that the techniques, or some of them, allow, and where it puts every tensor."""
        made: dict[int, Layout] = {}

        def layouts(choice: Techniques) -> tuple[Problem, FlowGraph]:
            layout = layout_of(
                self.analysis, self.unit, in_place=choice.in_place, elide_copies=choice.elide_copies
            )
            problem = replace(self.pinned(layout), arenas=tuple(Arena(memory) for memory in self.memories))
            made[id(problem)] = layout
            return problem, layout.flow

        plan = plan_layouts(layouts, techniques, packer=packer, options=options)
        layout = made[id(plan.problem)]
        places = {}
        for value, old in self.old.items():
            position = layout.buffer.get(value)
            start = 0 if position is None else plan.offsets[position]
            places[value] = Place(old.memory, start, start + old.stop - old.start)
        return plan, places

    def pinned(self, layout: Layout) -> Problem:
        """The problem, with state where it was if other methods must find it there, or leave it in peace."""
        problem = layout.problem
        if self.others is None:
            return problem
        buffers = list(problem.buffers)
        for value in self.analysis.views.state:
            position, place = layout.buffer.get(value), self.old.get(value)
            if position is not None and place is not None:
                unit = (place.start & -place.start) or 1
                kept = min(buffers[position].alignment, unit) if place.start else buffers[position].alignment
                buffers[position] = replace(buffers[position], offset=place.start, alignment=kept)
        always = ((0, len(layout.flow.points)),)
        buffers += [
            Buffer(f"state of other methods {i}", p.stop - p.start, always, arena=p.memory, offset=p.start)
            for i, p in enumerate(self.others)
        ]
        return replace(problem, buffers=tuple(buffers))

    def slack(self, memory: int) -> int:
        """Bytes at the end of an arena that a backend may count on."""
        backends = {delegate.id for delegate in self.method.plan.delegates or ()}
        if not backends:
            return 0
        end = max((p.stop for p in self.old.values() if p.memory == memory), default=0)
        behind = max(self.method.arenas.get(memory, 0) - align_up(end, ALIGNMENT), 0)
        return min(behind, _XNNPACK_PADDING) if backends == {XNNPACK} else behind
