"""The same model with better offsets, and nothing else changed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_ARENA
from lowtide.base.errors import LowtideError, UnsupportedError, VerificationError
from lowtide.base.units import amount
from lowtide.frontends.front_end import RewrittenArena
from lowtide.frontends.tflite.interpreter import simulate
from lowtide.frontends.tflite.judging import judge, must_stay_online
from lowtide.frontends.tflite.metadata import offsets_in
from lowtide.frontends.tflite.planning import plan_model
from lowtide.frontends.tflite.programs import program_of
from lowtide.frontends.tflite.requests import (
    capacity_in,
    check_alignment,
    check_request,
    pins_in,
    scratch_in,
)
from lowtide.frontends.tflite.sources import arena_as_probed, check_capacity, remarks_on_plans
from lowtide.frontends.tflite.tail import tail_of
from lowtide.frontends.tflite.targets import CORTEX_M, HOST
from lowtide.frontends.tflite.writing import with_offsets
from lowtide.pack.techniques import Techniques

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lowtide.frontends.tflite.interpreter import Scratch
    from lowtide.frontends.tflite.model import Model
    from lowtide.frontends.tflite.planning import Planned
    from lowtide.ir.plan import Plan
    from lowtide.ir.request import Request
    from lowtide.pack.registry import Options


@dataclass(frozen=True, slots=True)
class Repacked:
    """What ``repack_model`` made.

    Args:
        data: the new file; the input itself if nothing could be improved.
        changed: whether it is another.
        arenas: the head of the interpreter's arena.
        faults_before: faults of the offsets that the file had.
        notes: what the new file takes for granted.
        seconds: time that it took.
        plans: none, as there are no banks.
    """

    data: bytes
    changed: bool
    arenas: tuple[RewrittenArena, ...]
    faults_before: int
    notes: tuple[str, ...]
    seconds: float
    plans: Mapping[str, Plan] = field(default_factory=dict)


def repack_model(
    model: Model, request: Request, *, alignment: int | None, packer: str, options: Options
) -> Repacked:
    """Write offsets into a model under which the interpreter needs a smaller arena.

    Args:
        model: as read.
        request: what the plan may make use of, and what is known of scratch.
        alignment: bytes; the interpreter has its own.
        packer, options: how it is searched.

    Raises:
        InputError: scratch that was told does not fit the model, or its own offsets cannot be read.
        UnsupportedError: it cannot be planned, or not as the request wants it.
        InfeasibleError: no plan fits the capacity, or none was found.
        VerificationError: what was written is not right; nothing is returned.
    """
    began = time.perf_counter()
    if request.memory_map is not None:
        raise UnsupportedError(
            f"{model.name}: offsets in a model are of one arena: plan it with the memory map, and write the "
            "planner that places tensors in banks (lowtide plan --planner)"
        )
    check_alignment(model, alignment)
    check_request(model, request)
    scratch = scratch_in(model, request)
    techniques = Techniques(request.in_place, request.elide_copies)
    pins = pins_in(model, request)
    found = plan_model(model, scratch, techniques=techniques, pins=pins, packer=packer, options=options)
    check_capacity(found.plan, capacity_in(request))
    data = model.data if found.offsets is None else _written(found, scratch)
    return Repacked(
        data=data,
        changed=found.offsets is not None,
        arenas=(_arena(found),),
        faults_before=len(found.faults),
        notes=(
            *remarks_on_plans(model, scratch, request),
            *_hidden(found, offsets_in(model), scratch),
            *arena_as_probed(data, model.name, request),
        ),
        seconds=time.perf_counter() - began,
    )


def _written(found: Planned, scratch: Sequence[Scratch]) -> bytes:
    """The model with its new offsets, read back and judged as if it came from somebody else."""
    assert found.offsets is not None
    fresh = with_offsets(found.model, found.offsets)
    offsets = offsets_in(fresh)
    imported = program_of(fresh, scratch, apart=must_stay_online(fresh))
    faults = judge(fresh, imported, offsets, scratch)
    if faults:
        raise VerificationError(faults)
    if simulate(fresh, offsets, scratch) != found.after:
        raise LowtideError(f"{fresh.name}: its arena would be another than planned: nothing was written")
    return fresh.data


def _arena(found: Planned) -> RewrittenArena:
    before, after = found.before.head, found.after.head
    reason = ""
    if found.offsets is None:
        reason = "no plan is smaller" if before <= found.bound else "no smaller plan was found"
    return RewrittenArena("", DEFAULT_ARENA, before, after, min(found.bound, after), reason=reason)


def _hidden(found: Planned, given: Sequence[int] | None, scratch: Sequence[Scratch]) -> list[str]:
    """Says so where what the interpreter needs while it plans hides some of the gain."""
    if found.offsets is None:
        return []
    notes = []
    for target, called in ((CORTEX_M, "a Cortex-M"), (HOST, "a 64-bit host")):
        before = tail_of(found.model, found.before, given, scratch, target).arena(found.before.head)
        after = tail_of(found.model, found.after, found.offsets, scratch, target).arena(found.after.head)
        if before - after < found.before.head - found.after.head:
            what = (
                f"is {amount(after)}, and was {amount(before)}"
                if after < before
                else f"stays at {amount(after)}"
            )
            notes.append(
                f"The interpreter's tables while it plans hide a gain: on {called} the least arena {what}."
            )
    return notes
