"""Is what was emitted what was planned? The bytes of a lowered program against the plans of its methods.

A pass ends before the emitter begins, and what the emitter does with specs is no documented interface. So
the file itself is read: audited as any other, and every tensor's place and every arena's size held against
the plan.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError, VerificationError, Violation
from lowtide.base.files import show_name
from lowtide.executorch.planning_pass import MemoryPlanningPass
from lowtide.executorch.spec_writing import XNNPACK_PADDING
from lowtide.frontends.pte import analyse, open_pte
from lowtide.frontends.pte.auditing import Audit, audit_file
from lowtide.frontends.pte.delegates import XNNPACK
from lowtide.frontends.pte.faults import violations_of
from lowtide.frontends.pte.methods import Place
from lowtide.ir.problem import align_up

if TYPE_CHECKING:
    from lowtide.frontends.pte.methods import Method, TensorValue
    from lowtide.ir.plan import Plan

_SHARED = 2
"""Memory id of the buffers that methods share, which belong to no plan."""


def verify_program(manager: Any, planning: MemoryPlanningPass | Mapping[str, MemoryPlanningPass]) -> Audit:
    """Prove a program that was lowered with Lowtide's pass, whatever version of ExecuTorch emitted it.

    Three things are looked at. The emitted bytes are audited: no tensor loses its bytes while it is needed,
    on any path. Every arena has the size that was planned. Every planned buffer is a tensor of the program,
    at its offset and in its turn, and no tensor lies anywhere else. Tensors have no names in a file: equal
    ones are told apart by the order in which they are made, and of a view, or of what a cond moves, it is
    only known that it lies where something was planned that has room for it.

    Args:
        manager: what ``to_executorch`` returned.
        planning: the pass that it was given; or passes by method, where methods that are not named are only
            audited.

    Returns:
        What the audit looked at, and its notes.

    Raises:
        VerificationError: the program is unsafe, or not what was planned.
        InputError: a method was not planned by its pass.
    """
    by_method = planning if isinstance(planning, Mapping) else dict.fromkeys(manager.methods, planning)
    file = open_pte(manager.buffer)
    analyses = analyse(file)
    alignment = min((chosen.alignment for chosen in by_method.values()), default=1)
    audit = audit_file(file, analyses, alignment=alignment)
    faults = violations_of(audit.findings)
    for analysis in analyses:
        name = analysis.method.name
        if name in by_method:
            plan = _plan_of(manager, name, by_method[name])
            faults += _compare(analysis.method, plan, by_method[name])
    if faults:
        raise VerificationError(faults)
    return audit


def _plan_of(manager: Any, name: str, planning: MemoryPlanningPass) -> Plan:
    plan = planning.plan_of(manager.exported_program(name).graph_module)
    if plan is None:
        raise InputError(
            f"method {show_name(name)!r} was not planned by this pass, or the pass has planned another "
            "program since: verify a program before its pass is used again"
        )
    return plan


def _compare(method: Method, plan: Plan, planning: MemoryPlanningPass) -> Iterator[Violation]:
    """Where a method is not what was planned."""
    name = show_name(method.name)
    shared = _SHARED if planning.share_mutable_buffers else None
    delegates = {delegate.id for delegate in method.plan.delegates or ()}
    padding = XNNPACK_PADDING if XNNPACK in delegates else 0
    for memory in sorted((plan.arenas.keys() | method.arenas.keys()) - {shared}):
        planned = plan.arenas.get(memory, 0)
        wanted, found = planned + padding if planned else 0, method.arenas.get(memory, 0)
        if wanted != found:
            yield Violation(
                "totals",
                f"{name}: arena {memory} was planned with {wanted} bytes, and has {found} in the program",
            )
    emitted = [tensor for tensor in method.planned if tensor.place and tensor.place.memory != shared]
    yield from _strays(name, plan, emitted)
    yield from _missing(name, plan, emitted, planning.alignment)


def _strays(method: str, plan: Plan, emitted: list[TensorValue]) -> Iterator[Violation]:
    """Tensors where nothing was planned. A view, and what a cond moves, begin where another does."""
    room: dict[tuple[int, int], int] = {}
    for buffer, offset in zip(plan.problem.buffers, plan.offsets, strict=True):
        room[buffer.arena, offset] = max(room.get((buffer.arena, offset), 0), buffer.size)
    for tensor in emitted:
        assert tensor.place is not None
        size = room.get((tensor.place.memory, tensor.place.start))
        if size is None or tensor.size > size:
            yield Violation("misfit", f"{method}: tensor {tensor} is where none was planned")


def _missing(method: str, plan: Plan, emitted: list[TensorValue], alignment: int) -> Iterator[Violation]:
    """Buffers that are nowhere in the program, or out of turn: plan and program have one order."""
    turns: dict[Place, list[int]] = defaultdict(list)
    for turn, tensor in enumerate(emitted):
        assert tensor.place is not None
        memory, start = tensor.place.memory, tensor.place.start
        turns[Place(memory, start, start + align_up(tensor.size, alignment))].append(turn)
    last = -1
    for buffer, offset in zip(plan.problem.buffers, plan.offsets, strict=True):
        place = Place(buffer.arena, offset, offset + buffer.size)
        later = turns.get(place, [])
        if buffer.kind == "scratch" and later:
            continue  # made before the results of its step, and planned after them: it has no turn
        next_turn = bisect_right(later, last)
        if next_turn < len(later):
            last = later[next_turn]
        else:
            yield Violation(
                "unplaced",
                f"{method}: {show_name(buffer.label)} was planned at {place}, "
                "and no tensor is there in its turn",
                (buffer.id,),
            )
