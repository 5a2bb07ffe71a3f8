"""explain: where the memory goes, and what would lower the peak."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lowtide.api import plan_source
from lowtide.base.constants import DEFAULT_TIMEOUT
from lowtide.base.errors import InfeasibleError
from lowtide.lifetimes.lowering import lower
from lowtide.pack.banks.judging import in_banks
from lowtide.pack.registry import Options
from lowtide.pack.techniques import Techniques
from lowtide.report.advice import Adviser
from lowtide.report.banks import bank_shares, more_room
from lowtide.report.findings import Explanation, MoreRoom
from lowtide.report.peaks import find_peaks
from lowtide.report.ram import told_memory
from lowtide.report.shares import shares
from lowtide.sources import load, make_request

if TYPE_CHECKING:
    from lowtide.frontends.front_end import Source
    from lowtide.ir.plan import Plan
    from lowtide.pack.hierarchy import Hierarchy


def explain(
    source: Any,
    *,
    name: str | None = None,
    packer: str = "auto",
    hierarchy: Hierarchy = "joint",
    timeout: float | None = DEFAULT_TIMEOUT,
    seed: int = 0,
    threads: int = 0,
    **request: Any,
) -> Explanation:
    """Say where the memory goes: the peak, the buffers alive at it, and what would lower it.

    The peak is that of the live bytes, which no plan can beat. Each piece of advice was tried: the change
    is made to a copy of the program, and the peak computed anew.

    Args:
        source: as for ``lowtide.plan``; of a plan, its arena is compared with its bound too.
        name: what the explanation calls it; a path's own name if not given.
        packer, hierarchy, timeout, seed, threads: as for ``lowtide.plan``, of the plan that is made where the
            source has none.
        request: what is planned, as for ``lowtide.plan``.

    Raises:
        InputError: the source, or an option, cannot be used.
        UnsupportedError: the program holds something that cannot be planned; the message names it.
    """
    if name is None:
        name = os.path.basename(source) if isinstance(source, (str, os.PathLike)) else type(source).__name__
    options = Options(timeout=timeout, seed=seed, threads=threads)
    return explain_source(
        load(source, make_request(request)), name, packer=packer, hierarchy=hierarchy, options=options
    )


def explain_source(
    source: Source,
    name: str,
    *,
    packer: str = "auto",
    hierarchy: Hierarchy = "joint",
    options: Options | None = None,
) -> Explanation:
    """As explain, for what was loaded.

    With a memory map peaks are those of the whole as if there were one bank: what is alive does not depend on
    where it lies.

    Raises:
        InputError: the request names a device, and the source does not tell what it takes there.
    """
    program, plan, flow, memory = source.program, source.plan, source.flow, source.request.memory_map
    options = options or Options()
    if plan is not None and memory is not None and not plan.banks:
        plan = in_banks(plan, memory, source.points)
    made = plan or _plan(source, packer, hierarchy, options)
    room: tuple[MoreRoom, ...] = ()
    if made is not None and plan is None and memory is not None:  # a plan that there was is taken as it is
        room = tuple(more_room(source, made, memory, options))
    problem = source.problem if plan is None else plan.problem
    if program is not None:
        flow = lower(program)
    peaks = find_peaks(problem, flow, plan)
    allowed = Techniques(source.request.in_place, source.request.elide_copies)
    adviser = Adviser(problem, program, flow, peaks, allowed, source.moves_interface)
    advice = adviser.run(plan, source.contents)
    exported = getattr(source.origin, "exported", None)
    if exported is not None and plan is None and memory is None:
        from lowtide.report.splits import split_advice

        parts = split_advice(exported, source.request, adviser.before)
        advice = tuple(sorted((*advice, *filter(None, [parts])), key=lambda one: -one.wins))
    return Explanation(
        name=str(name),
        buffers=len(problem.buffers),
        followed=flow is not None,
        peaks=peaks,
        advice=advice,
        memory=shares(source),
        banks=() if made is None else bank_shares(made),
        more_room=room,
        arena_bytes=None if made is None else made.arena_bytes,
        lower_bound_bytes=None if made is None else made.lower_bound_bytes,
        ram=told_memory(source, made),
    )


def _plan(source: Source, packer: str, hierarchy: Hierarchy, options: Options) -> Plan | None:
    """A plan of the source; None if none fits the capacity."""
    try:
        return plan_source(source, packer=packer, hierarchy=hierarchy, options=options)
    except InfeasibleError:
        return None
