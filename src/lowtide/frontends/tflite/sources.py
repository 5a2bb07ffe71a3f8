"""A model as the rest of Lowtide takes it: a program, its problem, a planner that knows the interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.base.errors import InfeasibleError, UnsupportedError
from lowtide.base.units import amount, many
from lowtide.frontends.front_end import Source
from lowtide.frontends.tflite.arena_plans import arena_layouts, own_plan
from lowtide.frontends.tflite.interpreter import simulate
from lowtide.frontends.tflite.judging import judge, must_stay_online
from lowtide.frontends.tflite.kernels import LIBRARY
from lowtide.frontends.tflite.metadata import offsets_in
from lowtide.frontends.tflite.on_device import memory_of, tail_remarks
from lowtide.frontends.tflite.planning import plan_model
from lowtide.frontends.tflite.programs import program_of
from lowtide.frontends.tflite.requests import check_request, pins_in, scratch_in
from lowtide.frontends.tflite.scratch import probed_arena
from lowtide.ir.contents import Contents
from lowtide.pack.techniques import Techniques, plan_layouts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.base.errors import Violation
    from lowtide.frontends.front_end import Planner
    from lowtide.frontends.tflite.interpreter import Scratch, Simulation
    from lowtide.frontends.tflite.model import Model
    from lowtide.ir.plan import Plan
    from lowtide.ir.request import Request
    from lowtide.pack.hierarchy import Hierarchy
    from lowtide.pack.registry import Options
    from lowtide.pack.techniques import Layouts


def load_model(model: Model, request: Request) -> Source:
    """A model as a Source; the offsets that it carries are its plan.

    Raises:
        InputError: scratch that was told does not fit it, or its own offsets cannot be read.
        UnsupportedError: it cannot be planned, or not as the request wants it.
    """
    check_request(model, request)
    scratch, given = scratch_in(model, request), offsets_in(model)
    imported = program_of(model, scratch, apart=must_stay_online(model))
    before = simulate(model, given, scratch)
    faults = () if given is None else tuple(judge(model, imported, given, scratch))
    layouts = arena_layouts(imported)
    problem, _ = layouts(Techniques(request.in_place, request.elide_copies))
    # Faults that name no buffers are of variables, or outside the arena: no plan says that.
    unsayable = tuple(fault for fault in faults if not fault.buffers)
    has_plan = given is not None and not unsayable
    return Source(
        problem,
        imported.program,
        layouts=layouts,
        planner=planner_of(model, scratch, layouts),
        asked=(
            *(imported.tensors[i] for i in sorted(model.arena_tensors)),
            *(name or "" for name in imported.scratch),
        ),
        plan=own_plan(imported, before, faults) if has_plan else None,
        faults=unsayable,
        contents=Contents(_constant_bytes(model)),
        device_memory=memory_of(model, before, given, scratch, request),
        origin=model,
        file=model.name,
        remarks=(
            *_arena_remarks(model, given, before, scratch, faults),
            *arena_as_probed(model.data, model.name, request),
            *remarks_on_plans(model, scratch, request),
        ),
        moves_interface=False,
    )


def planner_of(model: Model, scratch: Sequence[Scratch], layouts: Layouts) -> Planner:
    """Plans what the interpreter will make of offsets, or, with a memory map, what a planner of its own will.

    Args:
        model: what is planned.
        scratch: what its kernels ask for.
        layouts: what its arena must hold.
    """

    def plan(source: Source, *, packer: str, hierarchy: Hierarchy, options: Options) -> Plan:
        if hierarchy != "joint":
            raise UnsupportedError(
                f"{model.name}: all subgraphs lie in the interpreter's one arena: {hierarchy} is not for it"
            )
        request = source.request
        techniques = Techniques(request.in_place, request.elide_copies)
        if request.memory_map is not None:
            return plan_layouts(
                layouts, techniques, packer=packer, options=options, memory=request.memory_map
            )
        pins = pins_in(model, request)
        found = plan_model(
            model, scratch, techniques=techniques, pins=pins, packer=packer, options=options
        ).plan
        capacity = next((arena.capacity for arena in source.problem.arenas), None)
        check_capacity(found, capacity)
        arenas = tuple(replace(arena, capacity=capacity) for arena in found.problem.arenas)
        return replace(found, problem=replace(found.problem, arenas=arenas))

    return plan


def check_capacity(plan: Plan, capacity: int | None) -> None:
    """Refuse a plan that is larger than it may be.

    Raises:
        InfeasibleError: it is.
    """
    if capacity is None or plan.arena_bytes <= capacity:
        return
    what = f"the best plan found takes {amount(plan.arena_bytes)}"
    if plan.lower_bound_bytes > capacity:
        what = f"no plan takes less than {amount(plan.lower_bound_bytes)}"
    raise InfeasibleError(f"the arena's head has a capacity of {amount(capacity)}, but {what}")


def arena_as_probed(data: bytes, name: str, request: Request) -> Iterator[str]:
    """What the interpreter of this machine says of a file's arena, if the request wants that, for people.

    Raises:
        InputError: it cannot be asked.
    """
    if request.format_options.get("probe_arena"):
        least = probed_arena(data, name)
        yield f"As it is, {name} starts in an arena of {amount(least)} on this machine, and in none smaller."


def remarks_on_plans(model: Model, scratch: Sequence[Scratch], request: Request) -> Iterator[str]:
    """What a plan of a model takes for granted, for people."""
    if scratch:
        most = max(found.size for found in scratch)
        yield f"Scratch of kernels: {many(len(scratch), 'request')}, the largest of {amount(most)}."
    elif {"scratch_log", "probe_scratch"} & {name for name, value in request.format_options.items() if value}:
        yield "Scratch of kernels: none was asked for."
    elif any(graph.operators for graph in model.subgraphs):
        yield (
            "No scratch is known: if the target's kernels ask for any, the head is larger than shown, and "
            "may be larger than without offsets; see --scratch, --scratch-log and --probe-scratch."
        )
    if request.in_place or request.elide_copies:
        yield f"Outputs over inputs are right with {LIBRARY}; other kernels were not tried."


def _arena_remarks(
    model: Model,
    given: Sequence[int] | None,
    before: Simulation,
    scratch: Sequence[Scratch],
    faults: Sequence[Violation],
) -> Iterator[str]:
    """What the interpreter makes of the model as it is, and what its arena holds besides, for people."""
    stock = before if given is None else simulate(model, None, scratch)
    yield f"The interpreter's own plan: a head of {amount(stock.head)}."
    if faults:
        yield f"The offsets in the file are wrong ({many(len(faults), 'fault')}): see lowtide audit."
    elif given is not None:
        yield f"With the offsets in the file: a head of {amount(before.head)}."
    yield from tail_remarks(model, before, given, scratch)


def _constant_bytes(model: Model) -> int:
    used = {tensor.buffer for tensor in model.tensors if tensor.constant}
    return sum(len(model.content(buffer)) for buffer in used)
