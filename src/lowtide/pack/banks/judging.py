"""Plan without banks -> the same plan under a memory map, with what it costs there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.base.errors import InputError
from lowtide.ir.problem import Arena
from lowtide.lifetimes.accesses import with_accesses
from lowtide.pack.banks.choice import Choices
from lowtide.pack.banks.pins import with_readers
from lowtide.pack.banks.planning import bank_uses
from lowtide.pack.planner import plan_at

if TYPE_CHECKING:
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.memory_map import MemoryMap
    from lowtide.ir.plan import Plan

_BOUND_SECONDS = 2.0


def in_banks(plan: Plan, memory: MemoryMap, flow: FlowGraph | None = None) -> Plan:
    """A plan that was made without a memory map, with every arena in the bank of its memory id.

    Nothing moves. Whether the arenas keep the banks' sizes and the map's pins is for the verifier to say.

    Args:
        plan: without banks.
        memory: the map.
        flow: program points of what was planned, if they are known; they tell what is accessed.

    Raises:
        InfeasibleError: no plan at all keeps the map.
        InputError: an arena is no bank of the map, or the map contradicts the problem.
    """
    problem = plan.problem
    if flow is not None:
        problem, memory = with_accesses(problem, flow), with_readers(memory, flow)
    choices = Choices(problem, memory)
    kept = {problem.buffers[i].arena for i in choices.outside}
    for arena in sorted({buffer.arena for buffer in problem.buffers} - kept - memory.by_id.keys()):
        raise InputError(
            f"the plan has an arena {arena}, which is the mem_id of no bank in the map: give a bank this "
            "mem_id, or plan with the map"
        )
    arenas = [Arena(bank.mem_id, bank.size, bank.reserved) for bank in memory.banks]
    arenas += [arena for arena in problem.arenas if arena.id in kept]
    problem = replace(problem, arenas=tuple(arenas))
    bound = choices.choose([], seconds=_BOUND_SECONDS, seed=0).bound
    uses = plan_at(problem, plan.offsets).uses
    found = replace(plan, problem=problem, uses=uses, banks=bank_uses(problem, memory))
    # What is beyond a bank's size may cost less than anything that keeps it.
    return replace(found, cost_bound=min(float(choices.cost(bound)), found.cost or 0.0))
