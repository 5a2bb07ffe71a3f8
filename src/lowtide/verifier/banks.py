"""Whether a plan is right about the banks of a memory map: what is in them, its cost, and what was pinned.

That a bank's buffers keep its capacity, and never share bytes while both are alive, is checked of its arena;
buffers of different banks have no bytes in common, since every bank is an arena of its own.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_ARENA
from lowtide.base.errors import VerificationError, Violation
from lowtide.pack.banks.pins import placed_banks, with_readers
from lowtide.verifier.describe import describe_buffer

if TYPE_CHECKING:
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.memory_map import MemoryMap
    from lowtide.ir.plan import Plan


def check_banks(plan: Plan) -> list[Violation]:
    """Whether what a plan says of its banks follows from its buffers."""
    if not plan.banks:
        return []
    found = []
    for what in ("name", "mem_id"):
        values = [getattr(bank, what) for bank in plan.banks]
        if len(set(values)) < len(values):
            found.append(Violation("totals", f"two banks have the same {what}: {values}"))
    reads: dict[int, int] = defaultdict(int)
    writes: dict[int, int] = defaultdict(int)
    alignment = {bank.mem_id: bank.alignment for bank in plan.banks}
    for i, buffer in enumerate(plan.problem.buffers):
        read, written = buffer.accesses
        reads[buffer.arena] += read
        writes[buffer.arena] += written
        if buffer.size and plan.offsets[i] % alignment.get(buffer.arena, 1):
            message = f"{describe_buffer(plan, i)} is not at a multiple of its bank's alignment"
            found.append(Violation("alignment", message, (buffer.label,)))
    for bank in plan.banks:
        said, due = (bank.read_bytes, bank.written_bytes), (reads[bank.mem_id], writes[bank.mem_id])
        if bank.mem_id not in plan.arenas:
            found.append(Violation("totals", f"bank {bank.name!r} has no arena {bank.mem_id}"))
        if said != due:
            found.append(
                Violation(
                    "totals",
                    f"bank {bank.name!r} is said to have {said[0]} bytes read and {said[1]} written, "
                    f"not {due[0]} and {due[1]}",
                )
            )
    if plan.cost_bound is None or plan.cost is None or plan.cost_bound > plan.cost:
        message = f"accesses cost {plan.cost}, and are said to cost at least {plan.cost_bound}"
        found.append(Violation("totals", message))
    return found


def may_move(plan: Plan, asked: int, answered: int) -> bool:
    """Whether what was asked for in one arena may be in another: the same, or one of the banks."""
    if asked == answered:
        return True
    banks = {bank.mem_id for bank in plan.banks}
    return answered in banks and (asked == DEFAULT_ARENA or asked in banks)


def check_map(plan: Plan, memory: MemoryMap, flow: FlowGraph | None = None) -> None:
    """Check that a plan is of a memory map, and that what the map pins is where it says.

    Args:
        plan: the plan.
        memory: the map.
        flow: program points of what was planned, if they are known; they tell which step reads what.

    Raises:
        VerificationError: it is of another, or a buffer is in another bank than the map says.
    """
    capacity = {arena.id: (arena.capacity, arena.reserved) for arena in plan.problem.arenas}
    told = [
        (b.name, b.mem_id, b.alignment, b.read_cost, b.write_cost, *capacity[b.mem_id]) for b in plan.banks
    ]
    asked = [
        (b.name, b.mem_id, b.alignment, b.read_cost, b.write_cost, b.size, b.reserved) for b in memory.banks
    ]
    if flow is not None:
        memory = with_readers(memory, flow)
    found = []
    if told != asked:
        found.append(Violation("misfit", "the plan is of another memory map: plan with this one again"))
    for i, bank in placed_banks(plan.problem, memory).items():
        if plan.problem.buffers[i].arena != bank.mem_id:
            message = f"{describe_buffer(plan, i)} is not in bank {bank.name!r}, where it is placed"
            found.append(Violation("pin", message, (plan.problem.buffers[i].label,)))
    if found:
        raise VerificationError(found)
