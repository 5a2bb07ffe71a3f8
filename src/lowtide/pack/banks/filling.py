"""Banks filled one after the other, where no choice of banks could be laid out as it was.

What is above a bank moves on to the next, and what then fits in the holes moves back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.base.errors import InfeasibleError
from lowtide.base.units import amount
from lowtide.pack.arrays import to_kernel
from lowtide.pack.banks.proving import part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lowtide.ir.memory_map import Bank, MemoryMap
    from lowtide.ir.problem import Arena, Problem
    from lowtide.pack.banks.choice import Item

    Pack = Callable[[Problem], Sequence[int]]
    Assign = Callable[[Sequence[int]], Problem]


@dataclass(frozen=True)
class Filled:
    """A bank for each item, and the offsets that hold them, by position of the buffer."""

    banks: tuple[int, ...]
    offsets: dict[int, int]


def fill(
    items: Sequence[Item], memory: MemoryMap, banks: Sequence[int], assign: Assign, pack: Pack
) -> Filled:
    """Offsets within every bank's capacity, with as little moved as need be.

    Args:
        items: what goes to banks.
        memory: the banks.
        banks: a choice, which holds the capacities at any time but could not be laid out.
        assign: the problem with every buffer in its bank's arena.
        pack: offsets for a problem of one arena, which may end above its capacity.

    Raises:
        InfeasibleError: a bank overflows, and nothing in it may move on.
    """
    at = list(banks)
    offsets: dict[int, int] = {}
    order = sorted(range(len(memory.banks)), key=lambda b: (sum(memory.banks[b].costs), b))
    for turn, b in enumerate(order):
        bank, later = memory.banks[b], order[turn + 1 :]
        problem = assign(at)
        arena = problem.arena(bank.mem_id)
        chosen = [k for k, where in enumerate(at) if where == b]
        positions = sorted(i for k in chosen for i in items[k].members)
        found = dict(zip(positions, pack(part_of(problem, arena, positions)), strict=True))
        over = [k for k in chosen if _ends(items[k], problem, found) > bank.size]
        for k in over:
            _move_on(items[k], k, at, bank, later, problem)
        if over:
            found = _refill(items, at, b, set(chosen) - set(over), found, assign, arena)
        offsets.update(found)
    return Filled(tuple(at), offsets)


def _ends(item: Item, problem: Problem, offsets: dict[int, int]) -> int:
    return max(offsets[i] + problem.buffers[i].size for i in item.members)


def _move_on(item: Item, k: int, at: list[int], bank: Bank, later: Sequence[int], problem: Problem) -> None:
    allowed = [b for b in later if item.costs[b] >= 0]
    if not allowed:
        buffer = problem.buffers[item.members[0]]
        raise InfeasibleError(
            f"no layout was found that keeps buffer {buffer.label!r} within bank {bank.name!r}, "
            f"{amount(bank.size)}, and it may go nowhere else: allow more time, or a larger bank"
        )
    at[k] = min(allowed, key=lambda b: item.costs[b])


def _refill(
    items: Sequence[Item],
    at: list[int],
    b: int,
    kept: set[int],
    found: dict[int, int],
    assign: Assign,
    arena: Arena,
) -> dict[int, int]:
    """Offsets of what stays in a bank, let down as far as it goes, and of what fits in the holes besides.

    In the order of their offsets, first fit puts no buffer higher than it was.
    """
    stay = sorted(kept, key=lambda k: (min(found[i] for i in items[k].members), k))
    gain = {
        k: (items[k].costs[at[k]] - items[k].costs[b]) / max(1, sum(piece[2] for piece in items[k].pieces))
        for k in range(len(items))
        if at[k] != b and 0 <= items[k].costs[b] < items[k].costs[at[k]]
    }
    candidates = sorted(gain, key=lambda k: (-gain[k], k))
    trial = list(at)
    for k in candidates:
        trial[k] = b
    problem = assign(trial)
    positions = [i for k in (*stay, *candidates) for i in items[k].members]
    unlimited = replace(arena, capacity=None)
    packed = _kernel.first_fit(
        to_kernel(part_of(problem, unlimited, positions)), list(range(len(positions)))
    ).offsets
    lower = dict(zip(positions, packed, strict=True))
    assert arena.capacity is not None
    if any(_ends(items[k], problem, lower) > arena.capacity for k in stay):
        return {i: found[i] for k in stay for i in items[k].members}  # rigid groups may be in the way
    for k in candidates:
        if _ends(items[k], problem, lower) <= arena.capacity:
            at[k] = b
    return {i: lower[i] for k in range(len(items)) if at[k] == b for i in items[k].members}
