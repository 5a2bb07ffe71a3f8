"""Where a method's tensors go, in arenas that stay apart as they are and become no larger."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.base.errors import UnsupportedError, VerificationError
from lowtide.frontends.front_end import RewrittenArena
from lowtide.frontends.pte.auditing import ALIGNMENT, check_places
from lowtide.frontends.pte.delegates import XNNPACK
from lowtide.frontends.pte.faults import Finding, violations_of
from lowtide.frontends.pte.flow import layout_of
from lowtide.frontends.pte.methods import Place, alignment_in
from lowtide.ir.problem import Buffer, align_up
from lowtide.pack.techniques import plan_layouts

if TYPE_CHECKING:
    from lowtide.frontends.pte.analysis import Analysis
    from lowtide.frontends.pte.flow import Layout
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.memory_map import MemoryMap
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Problem
    from lowtide.pack.registry import Options
    from lowtide.pack.techniques import Techniques

_XNNPACK_PADDING = 64
"""Bytes that its kernels may read past the end of an arena (``XNN_EXTRA_BYTES``)."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What becomes of one method.

    Args:
        places: of every planned tensor.
        sizes: bytes by memory id.
        arenas: what is to be said of each arena.
        plan: the plan behind it, if that has banks and was taken.
    """

    places: dict[int, Place]
    sizes: dict[int, int]
    arenas: tuple[RewrittenArena, ...]
    plan: Plan | None = None


def refusal(findings: tuple[Finding, ...]) -> VerificationError:
    """The error that a plan with findings ends in."""
    return VerificationError(violations_of(findings))


class Mover:
    """Decides about one method: every tensor stays in its arena."""

    memory_map: MemoryMap | None = None

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

    def run(self, packer: str, options: Options, techniques: Techniques) -> Moved:
        """New places and sizes, checked.

        Raises:
            VerificationError: they are wrong.
        """
        plan, places = self.plan(packer, options, techniques)
        moved = self.settle(plan, places)
        findings = check_places(self.analysis, moved.places, moved.sizes, self.asked)
        if findings:
            raise refusal(tuple(findings))
        return moved

    def settle(self, plan: Plan, places: dict[int, Place]) -> Moved:
        """Sizes for the arenas; where one would not become smaller, it is left as it was."""
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
        return Moved(places, sizes, tuple(changes))

    def plan(self, packer: str, options: Options, techniques: Techniques) -> tuple[Plan, dict[int, Place]]:
        """The best plan that the techniques, or some of them, allow, and where it puts every tensor."""
        made: dict[object, Layout] = {}

        def layouts(choice: Techniques) -> tuple[Problem, FlowGraph]:
            layout = self.layout(choice)
            problem = self.pinned(layout)
            made[_members(problem)] = layout
            return problem, layout.flow

        plan = plan_layouts(layouts, techniques, packer=packer, options=options, memory=self.memory_map)
        layout = made[_members(plan.problem)]
        places = {}
        for value, old in self.old.items():
            position = layout.buffer.get(value)
            if position is not None:
                start, memory = plan.offsets[position], plan.problem.buffers[position].arena
                places[value] = Place(memory, start, start + old.stop - old.start)
            else:
                places[value] = self.idle(old)
        return plan, places

    def layout(self, choice: Techniques) -> Layout:
        """The method's buffers, in the arenas of the file."""
        return layout_of(self.analysis, self.unit, in_place=choice.in_place, elide_copies=choice.elide_copies)

    def idle(self, old: Place) -> Place:
        """Where a tensor goes that nothing ever touches: to the bottom of its arena."""
        return Place(old.memory, 0, old.stop - old.start)

    def pinned(self, layout: Layout) -> Problem:
        """The problem, with state where it was if other methods must find it there, or leave it in peace."""
        problem = replace(layout.problem, arenas=())
        if self.others is None:
            return problem
        buffers = list(problem.buffers)
        for value in self.analysis.views.state:
            position, place = layout.buffer.get(value), self.old.get(value)
            if position is not None and place is not None:
                unit = (place.start & -place.start) or 1
                kept = min(buffers[position].alignment, unit) if place.start else buffers[position].alignment
                buffers[position] = replace(
                    buffers[position], arena=place.memory, offset=place.start, alignment=kept
                )
        always = ((0, len(layout.flow.points)),)
        buffers += [
            Buffer(
                f"state of other methods {i}",
                p.stop - p.start,
                always,
                arena=p.memory,
                offset=p.start,
                kind="state",
                reads=0,
                writes=0,
            )
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


def _members(problem: Problem) -> object:
    """What tells the buffers of one layout from those of another, whatever arenas they are in."""
    return tuple((buffer.id, buffer.members) for buffer in problem.buffers)
