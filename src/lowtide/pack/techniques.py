"""Program -> Plan with fewer live bytes than lifetimes alone allow, and never more than without.

What the techniques allow is tried with the packer's result as the judge: outputs over inputs that die
(``inplace``), copies that share the bytes of what they copy (``coalesce``, ``nesting``). Permissions can only
help, but a search may find less in what has more of them, and a part that is fixed inside its whole may be in
the way elsewhere: so a combination that its own bound does not exclude is planned as well.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.base.errors import InfeasibleError, LowtideError, UnsupportedError
from lowtide.ir.plan import Applied
from lowtide.lifetimes.accesses import with_accesses
from lowtide.lifetimes.lowering import POINT_LIMIT, lower
from lowtide.lifetimes.timeline import Timeline
from lowtide.pack.banks.pins import with_readers
from lowtide.pack.banks.planning import plan_in_banks
from lowtide.pack.bounds import lower_bound
from lowtide.pack.planner import plan_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from lowtide.ir.flow import FlowGraph, Point
    from lowtide.ir.memory_map import MemoryMap
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Arena, Problem
    from lowtide.ir.program import Program
    from lowtide.pack.hierarchy import Hierarchy
    from lowtide.pack.registry import Options

    Layouts: TypeAlias = Callable[["Techniques"], tuple[Problem, FlowGraph]]

_FIRST_SHARE = 0.6
"""Of the time, for everything that is allowed; what its bound does not settle gets the rest."""


@dataclass(frozen=True)
class Techniques:
    """What a plan may make use of besides lifetimes.

    Args:
        in_place: a step's output may lie exactly over an input that dies there, where its kernel allows it.
        elide_copies: what a step copies may lie where the copy is, if neither is written while the other
            lives.
    """

    in_place: bool = False
    elide_copies: bool = False

    def subsets(self) -> Iterator[Techniques]:
        """These, then what is left when some are not used, most of them first."""
        for in_place, elide_copies in ((True, True), (True, False), (False, True), (False, False)):
            if in_place <= self.in_place and elide_copies <= self.elide_copies:
                yield Techniques(in_place, elide_copies)


def layouts_of(program: Program, *, arenas: Iterable[Arena] = ()) -> Layouts:
    """The packing problem of a program under each choice of techniques, and the program points behind it.

    Args:
        program: what runs; it is laid out on the clock, and its liveness solved, once.
        arenas: capacities and reserved prefixes, where there are any.

    Raises:
        UnsupportedError: its calls unfold into too many program points, or a region calls itself.
    """
    timeline, arenas = Timeline(lower(program, point_limit=POINT_LIMIT)), tuple(arenas)

    def layout(choice: Techniques) -> tuple[Problem, FlowGraph]:
        problem = timeline.problem(arenas=arenas, in_place=choice.in_place, elide_copies=choice.elide_copies)
        return problem, timeline.flow

    return layout


def plan_program(
    program: Program,
    techniques: Techniques,
    *,
    packer: str = "auto",
    hierarchy: Hierarchy = "joint",
    options: Options,
    arenas: Iterable[Arena] = (),
    limit: Callable[[Problem], Problem] | None = None,
    memory: MemoryMap | None = None,
) -> Plan:
    """Plan a program with the techniques allowed, as ``plan_layouts`` does.

    Raises:
        InfeasibleError: no plan fits the capacity, or none was found.
        UnsupportedError: the program cannot be planned, or not by this packer.
    """
    return plan_layouts(
        layouts_of(program, arenas=arenas),
        techniques,
        packer=packer,
        hierarchy=hierarchy,
        options=options,
        limit=limit,
        memory=memory,
    )


def plan_layouts(
    layouts: Layouts,
    techniques: Techniques,
    *,
    packer: str = "auto",
    hierarchy: Hierarchy = "joint",
    options: Options,
    limit: Callable[[Problem], Problem] | None = None,
    memory: MemoryMap | None = None,
) -> Plan:
    """Plan with the techniques allowed, and without each of them where that may be smaller.

    Args:
        layouts: the packing problem under each choice of techniques.
        techniques: what may be used.
        packer, hierarchy, options: as for ``plan_problem``; the time is for all plans together.
        limit: sets capacities once a problem's arenas are known.
        memory: the banks that buffers go to, if there are any; what accesses cost is then what counts first.

    Raises:
        InfeasibleError: no plan fits the capacity, or none was found.
        UnsupportedError: the program cannot be planned, or not by this packer.
    """
    began = time.perf_counter()
    best: Plan | None = None
    behind: FlowGraph | None = None
    floors: list[dict[int, int]] = []
    refusal: LowtideError | None = None
    attempts = list(techniques.subsets())
    for turn, attempt in enumerate(attempts):
        problem, flow = layouts(attempt)
        if limit is not None:
            problem = limit(problem)
        if memory is None and best is not None and sum(_bounds(problem).values()) >= best.arena_bytes:
            continue
        left = _left(options, began, first=turn == 0 and len(attempts) > 1)
        try:
            if memory is None:
                found = plan_problem(problem, packer=packer, hierarchy=hierarchy, options=left)
            else:
                counted, named = with_accesses(problem, flow), with_readers(memory, flow)
                found = plan_in_banks(counted, named, packer=packer, hierarchy=hierarchy, options=left)
        except (InfeasibleError, UnsupportedError) as error:
            # A part inside a whole of another region, say, is out of reach of all policies but one.
            refusal = error
            floors.append(_bounds(problem))
            continue
        floors.append({use.id: use.lower_bound_bytes for use in found.uses})
        if best is None or _rank(found) < _rank(best):
            best, behind = found, flow
        if found.interrupted:
            break
    if best is None or behind is None:
        assert refusal is not None
        raise refusal
    uses = best.uses
    if memory is None:
        # With less allowed, no plan may be smaller than this one; with more, one may be. What is in a bank is
        # another matter with each choice: there the bound of the cost is what counts.
        uses = tuple(replace(use, lower_bound_bytes=min(floor[use.id] for floor in floors)) for use in uses)
    return replace(best, uses=uses, applied=find_applied(behind, best), seconds=time.perf_counter() - began)


def _bounds(problem: Problem) -> dict[int, int]:
    """Bytes below which no plan of each arena is, by memory id."""
    return {arena.id: lower_bound(problem.part(arena)[0]) for arena in problem.arenas}


def _rank(plan: Plan) -> tuple[float, int]:
    """What makes a plan better than another: lower."""
    return plan.cost or 0.0, plan.arena_bytes


def _left(options: Options, began: float, *, first: bool) -> Options:
    if options.timeout is None:
        return options
    left = max(options.timeout - (time.perf_counter() - began), 0.01)
    return replace(options, timeout=_FIRST_SHARE * left if first else left)


def find_applied(flow: FlowGraph, plan: Plan) -> tuple[Applied, ...]:
    """Where a plan makes use of what kernels allow: one entry a step and pair of storages, in clock order."""
    storages = flow.program.storages
    found: dict[Applied, None] = {}

    def start(storage: int) -> tuple[int, int] | None:
        position = plan.names.get(storages[storage].name)
        if position is None:
            return None
        return plan.problem.buffers[position].arena, plan.offsets[position]

    def note(tick: int, technique: str, written: int, read: int, distance: int) -> None:
        """``distance``: bytes from the start of what is read to that of what is written."""
        to, origin = start(written), start(read)
        if to is not None and origin is not None and to == (origin[0], origin[1] + distance):
            found[Applied(flow.describe(tick), technique, storages[written].name, storages[read].name)] = None

    for tick, point in enumerate(flow.points):
        copied = _copied(point)
        for written, read in point.overwrites:
            if (written, read, 0) not in copied:
                note(tick, "in-place", written, read, 0)
        for written, read, distance in copied:
            note(tick, "elided-copy", written, read, distance)
    return tuple(found)


def _copied(point: Point) -> Sequence[tuple[int, int, int]]:
    """What a step copies: ``(written, read, bytes from the start of the one read to the one written)``."""
    written = {*point.writes, *point.partial}
    return [
        (same.inner, same.outer, same.distance)
        if same.inner in written
        else (same.outer, same.inner, -same.distance)
        for same in point.matches
    ]
