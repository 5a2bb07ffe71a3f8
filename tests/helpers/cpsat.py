"""The smallest arena as CP-SAT of OR-tools finds it: a second opinion with every feature of a problem."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from lowtide.ir.problem import Buffer, Problem
from tiny_problems import roof


def smallest_by_cpsat(part: Problem) -> int | None:
    """Bytes of the best plan of a problem with one arena, capacity aside; None if there is no plan.

    Two buffers that are alive together lie one above the other, or at one offset if they may.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    limit, reserved = roof(part), part.arenas[0].reserved
    arena = model.new_int_var(reserved, limit, "arena")
    offset: dict[str, Any] = {}
    for buffer in part.buffers:
        multiple = model.new_int_var(0, limit // buffer.alignment, buffer.id)
        at = offset[buffer.id] = buffer.alignment * multiple
        if buffer.size or buffer.offset is not None:
            model.add(at + buffer.size <= arena)
        if buffer.size:
            model.add(at >= reserved)
        if buffer.offset is not None:
            model.add(at == buffer.offset)
    for placement in part.placements:
        model.add(offset[placement.inner] == offset[placement.outer] + placement.distance)
    may_coincide = {frozenset(pair) for pair in part.may_coincide}
    inside = _inside(part)
    for a, b in combinations([buffer for buffer in part.buffers if buffer.size], 2):
        if not _meet(a, b) or b.id in inside[a.id] or a.id in inside[b.id]:
            continue
        below, above = model.new_bool_var(""), model.new_bool_var("")
        model.add(offset[a.id] + a.size <= offset[b.id]).only_enforce_if(below)
        model.add(offset[b.id] + b.size <= offset[a.id]).only_enforce_if(above)
        choices = [below, above]
        if {a.id, b.id} in may_coincide:
            same = model.new_bool_var("")
            model.add(offset[a.id] == offset[b.id]).only_enforce_if(same)
            choices.append(same)
        model.add_bool_or(choices)
    model.minimize(arena)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    assert status == cp_model.OPTIMAL, solver.status_name(status)
    return round(solver.objective_value)


def _inside(part: Problem) -> dict[str, set[str]]:
    """For each buffer all those that it lies in."""
    outer = {placement.inner: placement.outer for placement in part.placements}
    found: dict[str, set[str]] = {}
    for buffer in part.buffers:
        at, found[buffer.id] = buffer.id, set()
        while at in outer:
            at = outer[at]
            found[buffer.id].add(at)
    return found


def _meet(a: Buffer, b: Buffer) -> bool:
    return any(s < q and p < t for s, t in a.lifetime for p, q in b.lifetime)
