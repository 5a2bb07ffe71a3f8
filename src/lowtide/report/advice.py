"""What would lower the peak: each change is made to the program, and the live peak computed anew."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.lifetimes.timeline import build_problem
from lowtide.pack.registry import Options
from lowtide.pack.techniques import Techniques, plan_program
from lowtide.report import changes
from lowtide.report.curve import live_peaks, without_buffers
from lowtide.report.findings import Advice
from lowtide.report.peaks import Touches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lowtide.ir.contents import Contents
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Buffer, Lifetime, Problem
    from lowtide.ir.program import Program
    from lowtide.report.findings import AdviceKind, Peak

TRIALS = 12
"""Changes of one kind that are tried, the largest buffers first: each lays the program out anew."""

SECONDS = 1.0
"""For the search of a plan that makes use of a technique; most meet their bound in milliseconds."""


class Adviser:
    """Tries changes on a problem, and on the program that it came from.

    Args:
        problem: as it is.
        allowed: the techniques that it was made with.
        program, flow: what it came from, if that is known.
        peaks: of the problem, as ``find_peaks`` found them.
        moves_interface: whether inputs and outputs could stay in memory that the caller provides.
    """

    def __init__(
        self,
        problem: Problem,
        program: Program | None,
        flow: FlowGraph | None,
        peaks: Sequence[Peak],
        allowed: Techniques,
        moves_interface: bool = True,
    ) -> None:
        self.problem, self.program, self.flow, self.peaks = problem, program, flow, peaks
        self.allowed, self.moves_interface = allowed, moves_interface
        self.before = live_peaks(problem)
        self.found: list[Advice] = []

    def run(self, plan: Plan | None, contents: Contents | None = None) -> tuple[Advice, ...]:
        """All advice that wins anything, most bytes first."""
        if plan is not None:
            self.packing(plan)
        if self.program is not None and self.flow is not None:
            if self.moves_interface:
                self.interface(self.program)
            self.constants(self.program)
            self.copies(self.program)
            self.waits(self.program, self.flow)
            self.techniques(self.program)
        else:
            for kind, of in (("inputs", "input"), ("outputs", "output")):
                ids = {buffer.id for buffer in self.problem.buffers if buffer.kind == of}
                self.try_problem("inputs" if kind == "inputs" else "outputs", ids)
            if contents is not None:
                self.try_problem("constants", set(contents.computed), costs=contents.computed_bytes)
        return tuple(sorted(self.found, key=lambda advice: -advice.wins))

    def add(
        self,
        kind: AdviceKind,
        subject: Iterable[str],
        after: Mapping[int, int],
        *,
        until: str | None = None,
        costs: int = 0,
        exact: bool = True,
    ) -> int:
        """Keep what wins anything in all arenas together; return what it wins."""
        peaks = {id: after.get(id, 0) for id in self.before}
        wins = sum(self.before.values()) - sum(peaks.values())
        if wins > 0:
            self.found.append(Advice(kind, tuple(subject), wins, peaks, until, costs, exact))
        return wins

    def peaks_of(self, program: Program) -> dict[int, int]:
        """Live peaks of another program in the same arenas."""
        problem = build_problem(
            program,
            arenas=self.problem.arenas,
            in_place=self.allowed.in_place,
            elide_copies=self.allowed.elide_copies,
        )
        return live_peaks(problem)

    def packing(self, plan: Plan) -> None:
        """A plan above its bound: what better packing could win at most."""
        above = {use.id: use.bytes - use.lower_bound_bytes for use in plan.uses}
        wins = sum(above.values())
        if wins > 0:
            subject = tuple(f"arena {id}" for id, size in above.items() if size)
            self.found.append(Advice("packing", subject, wins, dict(self.before), exact=False))

    def try_problem(self, kind: AdviceKind, ids: set[str], costs: int = 0) -> None:
        """What the problem would be without some buffers."""
        gone = [buffer for buffer in self.problem.buffers if buffer.id in ids]
        names = [buffer.label for buffer in sorted(gone, key=lambda buffer: -buffer.size)]
        if names:
            self.add(kind, names, live_peaks(without_buffers(self.problem, ids)), costs=costs)

    def interface(self, program: Program) -> None:
        """Inputs, and outputs, in memory that the caller provides."""
        for kind, change in (("inputs", changes.without_inputs), ("outputs", changes.without_outputs)):
            changed = change(program)
            pairs = zip(program.storages, changed.storages, strict=True)
            names = [old.name for old, new in pairs if old.planned and not new.planned]
            if names:
                self.add("inputs" if kind == "inputs" else "outputs", names, self.peaks_of(changed))

    def constants(self, program: Program) -> None:
        """What depends on constants alone, computed ahead of time."""
        folded = changes.fold_constants(program)
        if folded.steps:
            self.add("constants", folded.storages, self.peaks_of(folded.program), costs=folded.bytes)

    def copies(self, program: Program) -> None:
        """Copies that matter at a peak, one by one and all together."""
        copies = changes.copies_of(program)
        if not copies:
            return
        names = {copy: f"{program.regions[copy.region].name}/{copy.name}" for copy in copies}
        alive = {name for buffer in self.alive() for name in (buffer.members or (buffer.id,))}
        places = changes.storages_of(program)
        sizes = {}
        for copy in copies:
            storages = [
                program.storages[s] for s in {*(places[copy.source] or ()), *(places[copy.target] or ())}
            ]
            at_peak = [storage.size or 0 for storage in storages if storage.name in alive]
            if at_peak:
                sizes[copy] = max(at_peak)
        for copy in sorted(sizes, key=lambda copy: -sizes[copy])[:TRIALS]:
            self.add("copy", [names[copy]], self.peaks_of(changes.drop_copies(program, [copy])))
        if len(copies) > 1:
            self.add("copies", names.values(), self.peaks_of(changes.drop_copies(program, copies)))

    def techniques(self, program: Program) -> None:
        """What the planner itself can do where it may: the arena of such a plan against the live peak."""
        arenas = self.problem.without_capacity().arenas
        for kind, allowed in (
            ("in_place", replace(self.allowed, in_place=True)),
            ("elide_copies", replace(self.allowed, elide_copies=True)),
        ):
            if allowed == self.allowed:
                continue
            options = Options(timeout=SECONDS)
            plan = plan_program(program, allowed, options=options, arenas=arenas)
            steps = dict.fromkeys(applied.step for applied in plan.applied)
            if steps:
                self.add("in_place" if kind == "in_place" else "elide_copies", steps, plan.arenas)

    def waits(self, program: Program, flow: FlowGraph) -> None:
        """Buffers that nobody uses at a peak: made later, or not kept meanwhile."""
        for peak in self.peaks:
            touches = Touches(flow, peak.at.tick)
            idle = [b for b in self.alive(peak) if touches.of(b)[2] and b.kind not in ("input", "state")]
            for buffer in idle[:TRIALS]:
                makers = {at for s in touches.storages(buffer) for at in touches.writes.get(s, ())}
                if len(makers) == 1:
                    later = self.delay(program, flow, touches, makers.pop())
                    self.wait(touches, buffer, later)

    def delay(self, program: Program, flow: FlowGraph, touches: Touches, at: int) -> int:
        """Run the step at this tick just before its result is used; return what it wins."""
        point = flow.points[at]
        if point.kind != "step" or at > touches.tick:
            return 0
        region = flow.activations[point.activation].region
        name = program.regions[region].steps[point.step].name
        moved = changes.delay(program, region, name)
        if moved is None:
            return 0
        changed, until = moved
        where = program.regions[region].name
        return self.add("delay", [f"{where}/{name}"], self.peaks_of(changed), until=f"{where}/{until}")

    def wait(self, touches: Touches, buffer: Buffer, known: int) -> None:
        """Do not keep a buffer between its last use before the peak and its next, if that wins more."""
        last, (_, following, _) = touches.last_use(buffer), touches.of(buffer)
        if last is None or following is None or not last.tick < touches.tick < following.tick:
            return
        lifetime = _cut(buffer.lifetime, last.tick + 1, following.tick)
        kept = tuple(
            replace(other, lifetime=lifetime) if other.id == buffer.id else other
            for other in self.problem.buffers
        )
        after = live_peaks(replace(self.problem, buffers=kept))
        if sum(self.before.values()) - sum(after.values()) > known:
            self.add("wait", [buffer.label], after, until=following.step, exact=False)

    def alive(self, *peaks: Peak) -> list[Buffer]:
        """The problem's buffers that are alive at these peaks, or at any, largest first."""
        found = []
        for peak in peaks or self.peaks:
            tick = peak.at.tick
            found += [
                b
                for b in self.problem.buffers
                if b.arena == peak.arena and any(start <= tick < stop for start, stop in b.lifetime)
            ]
        return sorted(found, key=lambda buffer: -buffer.size)


def _cut(lifetime: Lifetime, start: int, stop: int) -> Lifetime:
    """A lifetime without the ticks from ``start`` to ``stop``."""
    kept: list[tuple[int, int]] = []
    for begin, end in lifetime:
        kept += [(begin, min(end, start)), (max(begin, stop), end)]
    return tuple((begin, end) for begin, end in kept if begin < end)
