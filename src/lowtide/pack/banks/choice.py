"""The choice of a bank for each group of buffers, as the kernel solves it.

Buffers that may share bytes are one item, since bytes are shared in one bank only. What an item holds at a
time is the least that it can: a buffer inside another that is alive counts for nothing, and of buffers that
may coincide those count of which no two may. So whatever the kernel says that no choice beats, no plan does.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.base.errors import InfeasibleError, InputError
from lowtide.base.union_find import Classes
from lowtide.base.units import amount
from lowtide.pack.banks.pins import is_outside, pinned_banks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.ir.memory_map import MemoryMap
    from lowtide.ir.problem import Problem

Piece = tuple[int, int, int]
"""Start, stop, and the bytes held in between."""

_FORBIDDEN = -1


@dataclass(frozen=True)
class Item:
    """Buffers that go to one bank together.

    Args:
        members: their positions in the problem.
        pieces: bytes that they hold at the least, over time.
        costs: in each bank, in whole units; ``-1`` where they may not go.
    """

    members: tuple[int, ...]
    pieces: tuple[Piece, ...]
    costs: tuple[int, ...]


@dataclass(frozen=True)
class Chosen:
    """A bank for each item, what that costs, and what no choice beats, in the items' units."""

    banks: tuple[int, ...]
    cost: int
    bound: int
    interrupted: bool

    @property
    def proved(self) -> bool:
        """Whether no choice costs less."""
        return self.cost == self.bound


class Choices:
    """The items of a problem under a memory map.

    Raises:
        InputError: a pin cannot be kept.
        InfeasibleError: buffers that share bytes are placed in two banks, or a buffer fits in no bank.
    """

    def __init__(self, problem: Problem, memory: MemoryMap) -> None:
        self.problem, self.memory = problem, memory
        self.pins = pinned_banks(problem, memory)
        self.units = lcm(*(cost.denominator for bank in memory.banks for cost in bank.costs))
        self.unit_costs = [
            (int(reading * self.units), int(writing * self.units))
            for reading, writing in (bank.costs for bank in memory.banks)
        ]
        self.outside = {i for i, buffer in enumerate(problem.buffers) if is_outside(buffer, memory)}
        self.items = tuple(self._items())
        total = sum(max(item.costs) for item in self.items)
        if total >= _kernel.MOST_BANK_COST:
            raise InputError("the accesses of all buffers cost too much to be added up: use a smaller unit")

    @cached_property
    def arrays(
        self,
    ) -> tuple[array[int], array[int], array[int], array[int], array[int], array[int]]:
        """Capacities, costs, and the pieces in compressed rows."""
        first, start, stop, weight = array("q", [0]), array("q"), array("q"), array("q")
        for item in self.items:
            for begin, end, held in item.pieces:
                start.append(begin)
                stop.append(end)
                weight.append(held)
            first.append(len(start))
        costs = array("q", [cost for item in self.items for cost in item.costs])
        capacity = array("q", [bank.room for bank in self.memory.banks])
        return capacity, costs, first, start, stop, weight

    def choose(self, cuts: Sequence[tuple[int, list[int]]], *, seconds: float | None, seed: int) -> Chosen:
        """The cheapest choice that is none of those cut off.

        Args:
            cuts: banks, each with items that may not all be in it.
            seconds: time that it may take; None for as long as its number of states allows.
            seed: of what is tried at random where the states are too many.

        Raises:
            InfeasibleError: there is none, or none was found.
        """
        limit = 1e9 if seconds is None else seconds
        found, interrupted = _kernel.choose_banks(*self.arrays, list(cuts), limit, seed=seed)
        if len(found.banks) < len(self.items) or found.infeasible:
            if interrupted:
                raise KeyboardInterrupt
            raise InfeasibleError(self._why_not(proved=found.infeasible, cut=bool(cuts)))
        return Chosen(tuple(found.banks), found.cost, found.bound, interrupted)

    def cost(self, units: int) -> Fraction:
        """A cost in the map's own unit."""
        return Fraction(units, self.units)

    def _items(self) -> Iterator[Item]:
        classes = Classes(len(self.problem.buffers))
        index = self.problem.index
        for pair in self.problem.may_coincide:
            classes.merge(index[pair[0]], index[pair[1]])
        for placement in self.problem.placements:
            classes.merge(index[placement.inner], index[placement.outer])
        outer = {index[p.inner]: index[p.outer] for p in self.problem.placements}
        coincide: dict[int, set[int]] = defaultdict(set)
        for pair in self.problem.may_coincide:
            a, b = (index[id] for id in pair)
            coincide[a].add(b)
            coincide[b].add(a)
        for members in classes.members().values():
            if members[0] in self.outside:
                continue
            yield Item(tuple(members), tuple(self._pieces(members, outer, coincide)), self._costs(members))

    def _costs(self, members: Sequence[int]) -> tuple[int, ...]:
        buffers = [self.problem.buffers[i] for i in members]
        reads, writes = (sum(counts) for counts in zip(*(b.accesses for b in buffers), strict=True))
        pins = {self.pins[i].name for i in members if i in self.pins} if self.pins else set()
        if len(pins) > 1:
            a, b = sorted(pins)
            raise InfeasibleError(
                f"buffer {buffers[0].label!r} shares bytes with others, "
                f"and they are placed in two banks, {a!r} and {b!r}"
            )
        largest = max(buffers, key=lambda buffer: buffer.size)
        costs = []
        for bank, (reading, writing) in zip(self.memory.banks, self.unit_costs, strict=True):
            allowed = largest.size <= bank.room and pins <= {bank.name}
            cost = reads * reading + writes * writing
            costs.append(cost if allowed else _FORBIDDEN)
        if max(costs) == _FORBIDDEN:
            if pins:
                raise InputError(
                    f"buffer {largest.label!r} must lie in bank {pins.pop()!r} and needs "
                    f"{amount(largest.size)}: it is too large for it"
                )
            room = max(bank.room for bank in self.memory.banks)
            raise InfeasibleError(
                f"buffer {largest.label!r} needs {amount(largest.size)} and fits in no bank: "
                f"the largest has room for {amount(room)}"
            )
        return tuple(costs)

    def _pieces(
        self, members: Sequence[int], outer: dict[int, int], coincide: dict[int, set[int]]
    ) -> Iterator[Piece]:
        buffers = self.problem.buffers
        if len(members) == 1:
            buffer = buffers[members[0]]
            if buffer.size:
                yield from ((start, stop, buffer.size) for start, stop in buffer.lifetime)
            return
        changes: list[tuple[int, bool, int]] = []
        for i in members:
            if buffers[i].size:
                for start, stop in buffers[i].lifetime:
                    changes += [(start, True, i), (stop, False, i)]
        changes.sort()
        alive: set[int] = set()
        for k, (time, begins, i) in enumerate(changes):
            if begins:
                alive.add(i)
            else:
                alive.remove(i)
            until = changes[k + 1][0] if k + 1 < len(changes) else time
            if until > time and alive:
                yield time, until, self._least_held(alive, outer, coincide)

    def _least_held(self, alive: set[int], outer: dict[int, int], coincide: dict[int, set[int]]) -> int:
        """Bytes of live members of which no two can share any: no fewer are held, whatever the layout."""
        apart: list[int] = []
        for i in sorted(alive, key=lambda i: (-self.problem.buffers[i].size, i)):
            at, inside = i, False
            while at in outer and not inside:
                at = outer[at]
                inside = at in alive
            if not inside and coincide[i].isdisjoint(apart):
                apart.append(i)
        return sum(self.problem.buffers[i].size for i in apart)

    def _why_not(self, *, proved: bool, cut: bool) -> str:
        if not proved:
            return "no choice of banks was found in which everything fits: allow more time, or larger banks"
        room = sum(bank.room for bank in self.memory.banks)
        time, held = self._peak()
        if held > room:
            return (
                f"{amount(held)} are alive at time {time}, "
                f"and all banks together have room for {amount(room)}"
            )
        why = "no layout of the banks holds them" if cut else "not in any combination that the banks allow"
        return f"the buffers fit in no choice of banks: at the peak {amount(held)} are alive, but {why}"

    def _peak(self) -> tuple[int, int]:
        """When most bytes are held in all banks, and how many."""
        changes: dict[int, int] = defaultdict(int)
        for item in self.items:
            for start, stop, held in item.pieces:
                changes[start] += held
                changes[stop] -= held
        best, sum_ = (0, 0), 0
        for time, change in sorted(changes.items()):
            sum_ += change
            best = max(best, (time, sum_), key=lambda at: at[1])
        return best
