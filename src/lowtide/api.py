"""What users call: plan and verify, audit and repack, for whatever a user has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lowtide.base.constants import DEFAULT_TIMEOUT
from lowtide.base.errors import UnsupportedError
from lowtide.frontends.front_end import Judge, Rewriter
from lowtide.ir.program import Program
from lowtide.lifetimes.accesses import with_accesses
from lowtide.pack import registry
from lowtide.pack.banks.pins import with_readers
from lowtide.pack.banks.planning import plan_in_banks
from lowtide.pack.planner import plan_problem
from lowtide.pack.techniques import Techniques, plan_layouts
from lowtide.sources import load, make_request, open_source, with_capacity
from lowtide.verifier.banks import check_map
from lowtide.verifier.checks import Report
from lowtide.verifier.checks import verify as verify_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from lowtide.frontends.front_end import Findings, FrontEnd, Rewritten, Source
    from lowtide.ir.plan import Plan, Progress
    from lowtide.pack.hierarchy import Hierarchy


def plan(
    source: Any,
    *,
    packer: str = "auto",
    hierarchy: Hierarchy = "joint",
    timeout: float | None = DEFAULT_TIMEOUT,
    seed: int = 0,
    threads: int = 0,
    progress: Callable[[Progress, int], None] | None = None,
    **request: Any,
) -> Plan:
    """Plan the memory of a program: a fixed offset for every buffer, in as small an arena as can be.

    Args:
        source: a ``torch.export.ExportedProgram``, an ``fx.GraphModule`` whose nodes carry fake tensors, a
            Program, a Problem, a Plan (to plan its problem again), or the path of a file that holds one.
        packer: name of the algorithm; ``lowtide.pack.names()`` lists them.
        hierarchy: which memory regions may share: ``joint``, ``block``, ``stacked`` or ``sum``.
        timeout: seconds that search may take; None for as long as it needs.
        seed: of every random choice.
        threads: workers; 0 for one a processor.
        progress: called now and then with the best so far and the number of search nodes.
        request: see ``Request``: alignment, plan_inputs, plan_outputs, plan_state, reset_state, scratch,
            in_place, elide_copies, fold_constants, fold_limit, reorder, pins, capacity, memory_map (a
            MemoryMap, the path of a ``.toml``, or an object with ``banks``), method.

    Raises:
        InputError: the source, or an option, cannot be used.
        UnsupportedError: the program holds something that cannot be planned; the message names it.
        InfeasibleError: no plan fits the capacity, or none was found.
    """
    options = registry.Options(timeout=timeout, seed=seed, threads=threads, progress=progress)
    return plan_source(
        load(source, make_request(request)), packer=packer, hierarchy=hierarchy, options=options
    )


def plan_source(source: Source, *, packer: str, hierarchy: Hierarchy, options: registry.Options) -> Plan:
    """Plan a Source with the techniques that its request allows.

    Raises:
        InfeasibleError: no plan fits the capacity, or none was found.
        UnsupportedError: the packer, or the hierarchy, cannot honour something in the problem.
    """
    request = source.request
    memory = request.memory_map
    techniques = Techniques(request.in_place, request.elide_copies)
    if source.planner is not None:
        found = source.planner(source, packer=packer, hierarchy=hierarchy, options=options)
    elif memory is not None and source.layouts is None:
        problem = source.problem
        if source.flow is not None:
            problem, memory = with_accesses(problem, source.flow), with_readers(memory, source.flow)
        found = plan_in_banks(problem, memory, packer=packer, hierarchy=hierarchy, options=options)
    elif source.layouts is None or (memory is None and techniques == Techniques()):
        found = plan_problem(source.problem, packer=packer, hierarchy=hierarchy, options=options)
    else:
        found = plan_layouts(
            source.layouts,
            techniques,
            packer=packer,
            hierarchy=hierarchy,
            options=options,
            limit=lambda problem: with_capacity(problem, request.capacity),
            memory=memory,
        )
    return replace(found, applied=(*source.applied, *found.applied), extra={**source.extra, **found.extra})


def verify(plan: Plan, source: Any = None, **request: Any) -> Report:
    """Check a plan. With what it was made from, also follow every byte through the program.

    Args:
        plan: the plan.
        source: as for ``plan``; None to check lifetimes against offsets only.
        request: the options that the plan was made with, as for ``plan``.

    Raises:
        VerificationError: the plan is wrong, or is of something else.
    """
    if source is None:
        return verify_plan(plan)
    asked = make_request(request)
    memory = asked.memory_map
    if memory is None and isinstance(source, Program) and not (asked.fold_constants or asked.reorder):
        return verify_plan(plan, source)  # its problem is of no use here, and takes longer than the check
    found = load(source, asked)
    if memory is not None:
        check_map(plan, memory, found.points)
    return verify_plan(plan, found.runs if found.runs is not None else found.problem)


def audit(source: Any, *, alignment: int = 16) -> Findings:
    """Judge the memory plan that a file holds: does anything lose its bytes before it is read, on any path?

    Args:
        source: the path of a ``.pte``, or another file whose format has plans.
        alignment: bytes that every offset must be a multiple of.

    Raises:
        InputError: the file is damaged.
        UnsupportedError: its format holds no plan to judge.
    """
    value, front_end = open_source(source)
    return judge_of(front_end).judge(value, alignment=alignment)


def repack(
    source: Any,
    *,
    alignment: int | None = None,
    packer: str = "auto",
    timeout: float | None = DEFAULT_TIMEOUT,
    seed: int = 0,
    threads: int = 0,
    progress: Callable[[Progress, int], None] | None = None,
    **request: Any,
) -> Rewritten:
    """Plan the memory of an existing file anew: the same file with other places, and nothing else changed.

    Args:
        source: the path of a ``.pte``, or another file whose format can be written again.
        alignment: bytes that offsets are to be multiples of; None for 16, and for more where the file's own
            plan shows more.
        packer, timeout, seed, threads, progress: as for ``plan``; the time is for each program in the file.
        request: what is planned, as for ``plan``. With a memory_map tensors of a ``.pte`` go to banks, and
            memory ids change; what accesses cost counts then, and not how large the arenas are.

    Raises:
        InfeasibleError: the tensors do not fit in the banks of the map.
        InputError: the file is damaged, or an option cannot be used.
        UnsupportedError: its format cannot be written again, or no plan can be right for sure.
        VerificationError: the new file did not pass the audit; nothing is returned.
    """
    asked = make_request(request)
    value, front_end = open_source(source, asked)
    options = registry.Options(timeout=timeout, seed=seed, threads=threads, progress=progress)
    return rewriter_of(front_end).rewrite(value, asked, alignment=alignment, packer=packer, options=options)


def judge_of(front_end: FrontEnd) -> Judge:
    """The front end, if its files hold plans.

    Raises:
        UnsupportedError: they do not.
    """
    if isinstance(front_end, Judge):
        return front_end
    raise UnsupportedError(f"a {front_end.name} file holds no plan of a runtime to audit: try lowtide verify")


def rewriter_of(front_end: FrontEnd) -> Rewriter:
    """The front end, if it can write its files again.

    Raises:
        UnsupportedError: it cannot.
    """
    if isinstance(front_end, Rewriter):
        return front_end
    raise UnsupportedError(f"a {front_end.name} file has no plan of a runtime to replace: try lowtide plan")
