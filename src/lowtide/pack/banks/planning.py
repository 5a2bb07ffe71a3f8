"""Problem and memory map -> Plan: the cheapest choice of banks that can be laid out, and what is proved.

The kernel's choice disregards where buffers lie in a bank, so its cost is a lower bound. A choice that cannot
be laid out is cut off, as the few items to blame where that is proved, and the next is taken. Where that
leads nowhere, banks are filled one after the other, and the plan says how far from the bound it is.
"""

from __future__ import annotations

import time
from dataclasses import replace
from math import lcm
from typing import TYPE_CHECKING

from lowtide.base.errors import InfeasibleError, InputError
from lowtide.ir.plan import BankUse
from lowtide.ir.problem import Arena
from lowtide.pack.banks.choice import Choices
from lowtide.pack.banks.filling import fill, fill_one_by_one
from lowtide.pack.banks.proving import unfit
from lowtide.pack.planner import plan_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.ir.memory_map import MemoryMap
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Problem
    from lowtide.pack.banks.choice import Chosen
    from lowtide.pack.banks.filling import Filled
    from lowtide.pack.hierarchy import Hierarchy
    from lowtide.pack.registry import Options

_MOST_CUTS = 40
_MOST_ITEMS = 5_000
"""With more, a packing that fails is not worth another choice: it would differ in a few items."""

_PARTS = (1.0, 0.92)
"""Of the room of every bank: choices that are laid out one by one."""

_ROUNDS_AN_ITEM = 1

_CHOICE_SHARE = 0.6
_LAYOUT_SHARE = 0.6
"""Of the time that is left, for each choice and for each layout of one."""


def plan_in_banks(
    problem: Problem, memory: MemoryMap, *, packer: str, hierarchy: Hierarchy, options: Options
) -> Plan:
    """Place every buffer of a problem in a bank of a memory map, so that accesses cost the least.

    Args:
        problem: what to place; buffers that no bank's memory id is for stay where they are.
        memory: the banks.
        packer, hierarchy, options: as for ``plan_problem``; the time is for all that is tried together.

    Raises:
        InfeasibleError: the buffers fit in no choice of banks, or no layout was found.
        InputError: the map contradicts the problem.
        UnsupportedError: the packer cannot honour something in the problem.
    """
    return _Banks(problem, memory, packer, hierarchy, options).plan()


class _Banks:
    def __init__(
        self, problem: Problem, memory: MemoryMap, packer: str, hierarchy: Hierarchy, options: Options
    ) -> None:
        limited = [arena.id for arena in problem.arenas if arena.capacity is not None or arena.reserved]
        clash = [id for id in limited if id in memory.by_id]
        if clash:
            raise InputError(
                f"arena {clash[0]} has a capacity or reserved bytes of its own, and is a bank of the map: "
                "leave one"
            )
        self.problem, self.memory = problem, memory
        self.packer, self.hierarchy, self.options = packer, hierarchy, options
        self.choices = Choices(problem, memory)
        self.began = time.perf_counter()
        kept = {problem.buffers[i].arena for i in self.choices.outside}
        self.arenas = (
            *(Arena(bank.mem_id, bank.size, bank.reserved) for bank in memory.banks),
            *(arena for arena in problem.arenas if arena.id in kept),
        )

    def plan(self) -> Plan:
        """The plan."""
        if len(self.memory.banks) == 1:
            chosen = self.choices.choose([], seconds=None, seed=self.options.seed)
            return self.finish(self.laid_out(self.assign(chosen.banks), self.options.timeout), chosen.bound)
        cuts: list[tuple[int, list[int]]] = []
        bound = 0
        while True:
            chosen = self.choices.choose(cuts, seconds=self.share(_CHOICE_SHARE), seed=self.options.seed)
            bound = max(bound, chosen.bound)
            plan = self.attempt(chosen)
            if not self.overflowing(plan):
                return self.finish(plan, bound)
            blamed = self.blame(chosen, plan) if len(cuts) < _MOST_CUTS else None
            if not blamed or plan.interrupted or self.share(1.0) == 0:
                return self.finish(self.filled(chosen, plan), bound)
            cuts += blamed

    def attempt(self, chosen: Chosen) -> Plan:
        """A choice laid out as well as can be, be it above a bank's size."""
        return self.laid_out(self.assign(chosen.banks).without_capacity(), self.share(_LAYOUT_SHARE))

    def laid_out(self, problem: Problem, seconds: float | None) -> Plan:
        options = replace(self.options, timeout=seconds)
        return plan_problem(problem, packer=self.packer, hierarchy=self.hierarchy, options=options)

    def overflowing(self, plan: Plan) -> list[int]:
        """Positions of the banks that a plan without capacities takes more of than there is."""
        return [b for b, bank in enumerate(self.memory.banks) if plan.arenas[bank.mem_id] > bank.size]

    def blame(self, chosen: Chosen, plan: Plan) -> list[tuple[int, list[int]]]:
        """What cannot be in a bank together, of each that overflows; none if that is not proved of any."""
        items = self.choices.items
        if len(items) > _MOST_ITEMS:
            return []
        problem = self.assign(chosen.banks)
        found = []
        for b in self.overflowing(plan):
            inside = [k for k, where in enumerate(chosen.banks) if where == b]
            arena = problem.arena(self.memory.banks[b].mem_id)
            blamed = unfit(problem, arena, items, inside, self.options)
            if blamed is not None:
                found.append((b, blamed))
        return found

    def filled(self, chosen: Chosen, attempted: Plan) -> Plan:
        """A plan near a choice that could not be laid out: the cheapest of several."""
        share = self.share(_LAYOUT_SHARE)

        def pack(part: Problem) -> Sequence[int]:
            return self.laid_out(part.without_capacity(), share).offsets

        found = [] if attempted.interrupted else list(self.filled_anew(chosen))
        if not found or len(self.choices.items) <= _MOST_ITEMS:
            try:
                found.append(fill(self.choices.items, self.memory, chosen.banks, self.assign, pack))
            except InfeasibleError:
                if not found:
                    raise
        filled = min(found, key=self.cost_of)
        problem = self.assign(filled.banks)
        given = {
            bank.mem_id: [filled.offsets[i] for i, b in enumerate(problem.buffers) if b.arena == bank.mem_id]
            for bank in self.memory.banks
        }
        return plan_problem(
            problem, packer=self.packer, hierarchy=self.hierarchy, options=self.options, given=given
        )

    def filled_anew(self, chosen: Chosen) -> Iterator[Filled]:
        """Layouts for the choice, and for choices of smaller banks, of which fewer find no place."""
        if self.packer != "auto" or self.hierarchy != "joint":
            return
        seconds = None if self.options.timeout is None else self.options.timeout / 4
        for part in _PARTS:
            banks = chosen.banks
            if part < 1:
                smaller = replace(
                    self.memory,
                    banks=tuple(
                        replace(bank, size=bank.reserved + max(int(bank.room * part), 1))
                        for bank in self.memory.banks
                    ),
                )
                try:
                    choices = Choices(self.problem, smaller)
                    banks = choices.choose(
                        [], seconds=self.share(_CHOICE_SHARE), seed=self.options.seed
                    ).banks
                except (InfeasibleError, InputError):
                    return
            filled = fill_one_by_one(
                self.choices.items,
                self.memory,
                banks,
                self.assign,
                seconds=seconds,
                rounds=_ROUNDS_AN_ITEM * len(self.choices.items),
                seed=self.options.seed,
            )
            if filled is None:
                return
            yield filled

    def cost_of(self, filled: Filled) -> int:
        """What accesses cost, in whole units."""
        return sum(item.costs[b] for item, b in zip(self.choices.items, filled.banks, strict=True))

    def assign(self, banks: Sequence[int]) -> Problem:
        """The problem with every buffer in the arena of its bank, aligned as that wants."""
        buffers = list(self.problem.buffers)
        for item, b in zip(self.choices.items, banks, strict=True):
            bank = self.memory.banks[b]
            for i in item.members:
                alignment = lcm(buffers[i].alignment, bank.alignment)
                if (buffers[i].arena, buffers[i].alignment) != (bank.mem_id, alignment):
                    buffers[i] = replace(buffers[i], arena=bank.mem_id, alignment=alignment)
        return replace(self.problem, buffers=tuple(buffers), arenas=self.arenas)

    def finish(self, plan: Plan, bound: int) -> Plan:
        """The plan with its banks, their capacities, and what was proved."""
        problem = replace(plan.problem, arenas=self.arenas)
        return replace(
            plan,
            problem=problem,
            banks=bank_uses(problem, self.memory),
            cost_bound=float(self.choices.cost(bound)),
            seconds=time.perf_counter() - self.began,
        )

    def share(self, of: float) -> float | None:
        """Seconds: a share of those left; None if there is no limit."""
        if self.options.timeout is None:
            return None
        return of * max(self.options.timeout - (time.perf_counter() - self.began), 0.0)


def bank_uses(problem: Problem, memory: MemoryMap) -> tuple[BankUse, ...]:
    """What is accessed in each bank, every buffer being in the arena of its own."""
    reads, writes = dict.fromkeys(memory.by_id, 0), dict.fromkeys(memory.by_id, 0)
    for buffer in problem.buffers:
        if buffer.arena in reads:
            read, written = buffer.accesses
            reads[buffer.arena] += read
            writes[buffer.arena] += written
    return tuple(
        BankUse(
            bank.name,
            bank.mem_id,
            bank.alignment,
            bank.read_cost,
            bank.write_cost,
            reads[bank.mem_id],
            writes[bank.mem_id],
        )
        for bank in memory.banks
    )
