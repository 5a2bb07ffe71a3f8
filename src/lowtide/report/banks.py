"""Banks in an explanation: what each costs, and what would move up if a bank had more bytes.

Each answer was tried: the map is made larger on a copy, and the whole is planned anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from lowtide.api import plan_source
from lowtide.base.errors import InfeasibleError
from lowtide.report.findings import BankShare, MoreRoom

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lowtide.frontends.front_end import Source
    from lowtide.ir.memory_map import Bank, MemoryMap
    from lowtide.ir.plan import Plan
    from lowtide.pack.hierarchy import Hierarchy
    from lowtide.pack.registry import Options

_STEPS = (8, 4, 2, 1)
"""A bank is tried with so much of its size more: an eighth, a quarter, a half, the whole."""


def bank_shares(plan: Plan) -> tuple[BankShare, ...]:
    """What each bank of a plan holds and costs."""
    total = plan.cost or 0.0
    found = []
    for bank in plan.banks:
        cost = float(bank.cost)
        size = plan.problem.arena(bank.mem_id).capacity or 0
        count = sum(buffer.arena == bank.mem_id for buffer in plan.problem.buffers)
        found.append(
            BankShare(
                bank.name,
                bank.mem_id,
                plan.arenas[bank.mem_id],
                size,
                count,
                bank.accessed_bytes,
                cost,
                cost / total if total else 0.0,
            )
        )
    return tuple(found)


def more_room(source: Source, plan: Plan, memory: MemoryMap, options: Options) -> Iterator[MoreRoom]:
    """What each bank but the last would win with more bytes; of what wins the same, the least."""
    for bank in memory.banks[:-1]:
        best = plan.cost or 0.0
        for part in _STEPS:
            more = -(-bank.size // part)
            larger = _planned(source, _with(memory, bank, more), plan, options)
            if larger is None or larger.cost is None or larger.cost >= best:
                continue
            best = larger.cost
            yield MoreRoom(bank.name, more, (plan.cost or 0.0) - best, _moved_up(plan, larger, memory, bank))


def _with(memory: MemoryMap, bank: Bank, more: int) -> MemoryMap:
    banks = tuple(replace(b, size=b.size + more) if b is bank else b for b in memory.banks)
    return replace(memory, banks=banks)


def _planned(source: Source, memory: MemoryMap, plan: Plan, options: Options) -> Plan | None:
    """A plan with another map, made as ``plan`` was; None if none was found."""
    larger = replace(source, request=replace(source.request, memory_map=memory))
    hierarchy = cast("Hierarchy", plan.hierarchy)
    try:
        return plan_source(larger, packer=plan.packer, hierarchy=hierarchy, options=options)
    except InfeasibleError:
        return None


def _moved_up(plan: Plan, larger: Plan, memory: MemoryMap, bank: Bank) -> tuple[str, ...]:
    """Buffers that the larger bank holds and that were in a slower one, the largest first."""
    rank = {b.mem_id: i for i, b in enumerate(memory.banks)}
    found = []
    for buffer in larger.problem.buffers:
        before = plan.names.get(buffer.id)
        if buffer.arena != bank.mem_id or before is None:
            continue
        if rank.get(plan.problem.buffers[before].arena, -1) > rank[bank.mem_id]:
            found.append((-buffer.size, buffer.name or buffer.id))
    return tuple(name for _, name in sorted(found))
