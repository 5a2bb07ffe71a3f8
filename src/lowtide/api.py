"""plan and verify for whatever a user has: an export, a graph module, a problem, or a path."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lowtide.base.constants import DEFAULT_ARENA, DEFAULT_TIMEOUT
from lowtide.base.errors import InputError
from lowtide.base.units import parse_size
from lowtide.ir.options import Options
from lowtide.ir.plan import Plan
from lowtide.ir.problem import Arena, Problem
from lowtide.ir.program import Program
from lowtide.lifetimes.lowering import POINT_LIMIT, lower
from lowtide.lifetimes.timeline import Timeline
from lowtide.pack import registry
from lowtide.pack.planner import plan_problem
from lowtide.pack.techniques import Techniques, plan_program
from lowtide.verifier.checks import Report
from lowtide.verifier.checks import verify as verify_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch.export import ExportedProgram
    from torch.fx import GraphModule

    from lowtide.frontends.pte import LoadedMethod
    from lowtide.frontends.torch_export import Imported
    from lowtide.ir.contents import Contents
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.plan import Applied, Progress
    from lowtide.pack.hierarchy import Hierarchy
    from lowtide.verifier.checks import Follow


Capacity = int | str


@dataclass(frozen=True)
class Request(Options):
    """What is planned, of a program or of a file: the options of programs, and some of single formats.

    Args:
        fold_constants: whether what depends on an exported program's parameters and constants alone is
            computed ahead of time.
        fold_limit: bytes by which the constants may grow for it; None for as much as it takes.
        reorder: whether independent steps of an exported program may move, so that fewer bytes are alive.
        pins: read the ``offset`` column of a CSV as fixed offsets.
        capacity: bytes that a plan may take, as a number or such as ``"256KiB"``: of the only arena, or by
            memory id.
        method: which method of a ``.pte``; None for the only one that plans memory.
    """

    fold_constants: bool = False
    fold_limit: int | None = None
    reorder: bool = False
    pins: bool = False
    method: str | None = None
    capacity: Capacity | Mapping[int, Capacity] | None = None


@dataclass(frozen=True)
class Loaded:
    """Something to plan, the program that it came from, and the plan that it came with, if any.

    ``timeline`` is the program's. ``follow`` is there instead of a program where a front end has program
    points of its own: it follows the bytes of a plan through them; ``flow`` are the points that ``plan`` is
    of, ``contents`` what the file has beside its arenas. ``name`` tells apart what one file holds;
    ``remarks`` are for people.
    """

    problem: Problem
    program: Program | None = None
    imported: Imported | None = None
    timeline: Timeline | None = None
    plan: Plan | None = None
    follow: Follow | None = None
    flow: FlowGraph | None = None
    contents: Contents | None = None
    name: str = ""
    remarks: tuple[str, ...] = ()
    applied: tuple[Applied, ...] = ()
    request: Request = field(default_factory=Request)

    @property
    def runs(self) -> Program | Follow | None:
        """What a plan's bytes are followed through, if anything is known of what runs."""
        return self.program if self.program is not None else self.follow


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
            in_place, elide_copies, fold_constants, fold_limit, reorder, pins, capacity, method.

    Raises:
        InputError: the source, or an option, cannot be used.
        UnsupportedError: the program holds something that cannot be planned; the message names it.
        InfeasibleError: no plan fits the capacity, or none was found.
    """
    loaded = load(source, make_request(request))
    options = registry.Options(timeout=timeout, seed=seed, threads=threads, progress=progress)
    return plan_loaded(loaded, packer=packer, hierarchy=hierarchy, options=options)


def plan_loaded(loaded: Loaded, *, packer: str, hierarchy: Hierarchy, options: registry.Options) -> Plan:
    """Plan what was loaded, with the techniques that its request allows.

    Raises:
        InfeasibleError: no plan fits the capacity, or none was found.
        UnsupportedError: the packer, or the hierarchy, cannot honour something in the problem.
    """
    request = loaded.request
    techniques = Techniques(request.in_place, request.elide_copies)
    if loaded.program is None or techniques == Techniques():
        found = plan_problem(loaded.problem, packer=packer, hierarchy=hierarchy, options=options)
    else:
        found = plan_program(
            loaded.program,
            techniques,
            packer=packer,
            hierarchy=hierarchy,
            options=options,
            timeline=loaded.timeline,
            limit=lambda problem: _with_capacity(problem, request.capacity),
        )
    return replace(found, applied=(*loaded.applied, *found.applied)) if loaded.applied else found


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
    if isinstance(source, Program):  # its problem is of no use here, and takes longer than the check
        _refuse_changes(source, asked)
        return verify_plan(plan, source)
    loaded = load(source, asked)
    return verify_plan(plan, loaded.runs if loaded.runs is not None else loaded.problem)


def load(source: Any, request: Request | None = None) -> Loaded:
    """Bring whatever a user has to a Problem.

    Raises:
        InputError: it is nothing that Lowtide reads.
    """
    request = request or Request()
    loaded = _loaded(_opened(source, request), request)
    problem = _with_capacity(loaded.problem, request.capacity)
    return replace(
        loaded, problem=problem, request=request, remarks=(*loaded.remarks, *_idle(loaded, request))
    )


def _idle(loaded: Loaded, request: Request) -> tuple[str, ...]:
    """What was asked for and cannot be had, because nothing is known of what runs."""
    asked = ("in_place", "elide_copies", "fold_constants", "reorder")
    wanted = [name.replace("_", "-") for name in asked if getattr(request, name)]
    if loaded.program is not None or not wanted:
        return ()
    return (f"Without effect, as there is no program to look at: {', '.join(wanted)}.",)


def load_all(source: Any, request: Request | None = None) -> list[Loaded]:
    """As load; of a file with several programs, all that plan memory, unless the request names one.

    Raises:
        InputError: it is nothing that Lowtide reads.
    """
    request = request or Request()
    source = _opened(source, request)
    if _is_pte(source):
        from lowtide.frontends.pte import load_methods

        methods = load_methods(source, request.alignment, request.method)
        if len(methods) > 1:
            return [
                replace(loaded, problem=_with_capacity(loaded.problem, request.capacity), request=request)
                for loaded in map(_of_method, methods)
            ]
    return [load(source, request)]


def _opened(source: Any, request: Request) -> Any:
    if not isinstance(source, (str, os.PathLike)):
        return source
    from lowtide.frontends import load as load_file

    return load_file(source, pins=request.pins)


def _is_pte(source: Any) -> bool:
    if "lowtide.frontends.pte" not in sys.modules:
        return False
    from lowtide.frontends.pte import PteFile

    return isinstance(source, PteFile)


def _of_method(method: LoadedMethod) -> Loaded:
    return Loaded(
        method.problem,
        plan=method.plan,
        follow=method.follow,
        flow=method.flow,
        contents=method.contents,
        name=method.name,
        remarks=method.remarks,
    )


def _loaded(source: Any, request: Request) -> Loaded:
    if isinstance(source, Problem):
        return Loaded(source)
    if isinstance(source, Plan):
        return Loaded(source.problem, plan=source)
    if isinstance(source, Program):
        _refuse_changes(source, request)
        return _of_program(source, request)
    if _is_pte(source):
        from lowtide.frontends.pte import the_method

        return _of_method(the_method(source, request.alignment, request.method))
    if "torch" in sys.modules:
        from torch import fx
        from torch.export import ExportedProgram

        from lowtide.frontends import torch_export

        if isinstance(source, torch_export.Imported):
            _refuse_changes(source, request)
            return _of_program(source.program, request, source)
        if isinstance(source, (ExportedProgram, fx.GraphModule)):
            return _load_graph(source, request)
    raise InputError(
        f"a {type(source).__name__} cannot be planned: pass an ExportedProgram, an fx.GraphModule, "
        "a Problem, or the path of a .pt2, .pte, .csv or .json file"
    )


def _refuse_changes(source: object, request: Request) -> None:
    if request.fold_constants or request.reorder:
        raise InputError(
            f"a {type(source).__name__} is fixed: fold and reorder the exported program that it is of, "
            "or call lowtide.transforms.reorder.reorder"
        )


def _load_graph(source: ExportedProgram | GraphModule, request: Request) -> Loaded:
    """A program of PyTorch's, changed first if the request wants that."""
    from lowtide.frontends import torch_export

    applied: tuple[Applied, ...] = ()
    remarks: tuple[str, ...] = ()
    if request.fold_constants or request.reorder:
        from lowtide.transforms import transform

        changed = transform(
            source,
            fold_constants=request.fold_constants,
            fold_limit=request.fold_limit,
            reorder=request.reorder,
            options=request,
        )
        source, applied, remarks = changed.program, changed.applied, changed.remarks
    imported = torch_export.import_program(source, request)
    return replace(_of_program(imported.program, request, imported), applied=applied, remarks=remarks)


def _of_program(program: Program, request: Request, imported: Imported | None = None) -> Loaded:
    timeline = Timeline(lower(program, point_limit=POINT_LIMIT))
    problem = timeline.problem(in_place=request.in_place, elide_copies=request.elide_copies)
    return Loaded(problem, program, imported, timeline=timeline)


def make_request(given: Mapping[str, Any]) -> Request:
    """The Request with these fields.

    Raises:
        TypeError: one is not known.
    """
    unknown = sorted(given.keys() - Request.__dataclass_fields__.keys())
    if unknown:
        known = ", ".join(Request.__dataclass_fields__)
        raise TypeError(f"unexpected option {unknown[0]!r}: known are {known}")
    return Request(**given)


def _with_capacity(problem: Problem, capacity: Capacity | Mapping[int, Capacity] | None) -> Problem:
    if capacity is None:
        return problem
    if isinstance(capacity, (int, str)):
        if len(problem.arenas) > 1:
            ids = [arena.id for arena in problem.arenas]
            raise InputError(
                f"there are several arenas, {ids}: say which has the capacity, such as {ids[0]}=64KiB"
            )
        capacity = {problem.arenas[0].id if problem.arenas else DEFAULT_ARENA: capacity}
    known = {arena.id: arena for arena in problem.arenas}
    for id, amount in capacity.items():
        size = parse_size(amount) if isinstance(amount, str) else amount
        known[id] = replace(known.get(id, Arena(id)), capacity=size)
    return replace(problem, arenas=tuple(known.values()))
