"""An arena that the interpreter laid out, as a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.frontends.coinciding import permit_sharing, sharing_pairs
from lowtide.ir.plan import ArenaUse, Plan
from lowtide.ir.problem import Arena, Buffer, end_of
from lowtide.pack.bounds import live_peak, lower_bound
from lowtide.pack.techniques import Techniques, layouts_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from lowtide.base.errors import Violation
    from lowtide.frontends.tflite.interpreter import Simulation
    from lowtide.frontends.tflite.programs import Imported
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.problem import Problem
    from lowtide.pack.techniques import Layouts

_ARENAS = (Arena(),)
"""There is one, even if nothing is in it."""


def arena_layouts(imported: Imported) -> Layouts:
    """What the arena must hold under each choice of techniques: what runs, and the tensors that nothing uses.

    These are given a tick each after the program's end.
    """
    layouts = layouts_of(imported.program, arenas=_ARENAS)
    storages = {storage.name: storage for storage in imported.program.storages}

    def layout(choice: Techniques) -> tuple[Problem, FlowGraph]:
        problem, flow = layouts(choice)
        end = len(flow.points)
        idle = []
        for tick, name in enumerate(imported.unused, end):
            storage = storages[name]
            assert storage.size is not None
            lifetime, unit = ((tick, tick + 1),), storage.alignment
            idle.append(Buffer(name, storage.size, lifetime, unit, dtype=storage.dtype, shape=storage.shape))
        return (replace(problem, buffers=(*problem.buffers, *idle)) if idle else problem), flow

    return layout


def placed_plan(imported: Imported, arena: Simulation, problem: Problem) -> Plan:
    """A problem's buffers where the interpreter puts them."""
    starts = _starts(imported, arena)
    return _plan(problem, tuple(starts[buffer.id] for buffer in problem.buffers))


def own_plan(imported: Imported, arena: Simulation, faults: Collection[Violation] = ()) -> Plan:
    """An arena as a plan: what shares bytes while it is alive may do so, unless it is at fault.

    Args:
        imported: the program that runs in it.
        arena: as the interpreter laid it out.
        faults: what following the bytes has found.
    """
    problem, _ = arena_layouts(imported)(Techniques())
    starts = _starts(imported, arena)
    offsets = [starts[buffer.id] for buffer in problem.buffers]
    if sharing_pairs(problem, offsets):
        refused = {name for fault in faults for name in fault.buffers}
        problem, offsets = permit_sharing(problem, offsets, refused)
    return _plan(problem, tuple(offsets))


def _starts(imported: Imported, arena: Simulation) -> dict[str, int]:
    """Where each storage lies, by name."""
    starts = {name: arena.tensors[i].offset for i, name in imported.tensors.items()}
    for name, found in zip(imported.scratch, arena.scratch, strict=True):
        if name is not None:
            starts[name] = found.offset
    return starts


def _plan(problem: Problem, offsets: tuple[int, ...]) -> Plan:
    end, peak = end_of(problem.buffers, offsets), live_peak(problem)
    bound = lower_bound(problem, peak=peak)
    return Plan(
        problem, offsets, (ArenaUse(problem.arenas[0].id, end, peak, min(bound, end)),), "interpreter"
    )
