"""Banks filled one after the other, where no choice of banks could be laid out as it was.

Either what is above a bank moves on to the next, and what then fits in the holes moves back (``fill``); or
buffers are put into a bank one by one, as long as they end within it (``fill_one_by_one``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.base.errors import InfeasibleError
from lowtide.base.units import amount
from lowtide.ir.problem import align_up
from lowtide.pack.arrays import to_kernel
from lowtide.pack.banks.proving import part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lowtide.ir.memory_map import Bank, MemoryMap
    from lowtide.ir.problem import Arena, Problem
    from lowtide.pack.banks.choice import Item

    Pack = Callable[[Problem], Sequence[int]]
    Assign = Callable[[Sequence[int]], Problem]

_STAYS = -1
"""To the kernel: of a buffer that does not move."""


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


def fill_one_by_one(
    items: Sequence[Item],
    memory: MemoryMap,
    banks: Sequence[int],
    assign: Assign,
    *,
    seconds: float | None,
    rounds: int,
    seed: int,
) -> Filled | None:
    """As ``fill``; None where that leaves something over, or buffers may share bytes.

    Args:
        items, memory, banks, assign: as for ``fill``.
        seconds: for each bank; None for as long as its rounds take.
        rounds: how often a few buffers of one time are put into a bank anew.
        seed: of what is tried at random.
    """
    if any(len(item.members) > 1 for item in items):
        return None
    at, left = list(banks), set(range(len(items)))
    offsets: dict[int, int] = {}
    order = sorted(range(len(memory.banks)), key=lambda b: (sum(memory.banks[b].costs), b))
    for turn, b in enumerate(order):
        tried = sorted(k for k in left if items[k].costs[b] >= 0)
        inside = _put_in(items, tried, at, b, order[turn + 1 :], memory, assign, seconds, rounds, seed)
        for k, offset in inside.items():
            at[k] = b
            offsets[items[k].members[0]] = offset
        left -= inside.keys()
    return None if left else Filled(tuple(at), offsets)


def _put_in(
    items: Sequence[Item],
    tried: Sequence[int],
    at: Sequence[int],
    b: int,
    later: Sequence[int],
    memory: MemoryMap,
    assign: Assign,
    seconds: float | None,
    rounds: int,
    seed: int,
) -> dict[int, int]:
    """Offsets of those of some items that go into a bank."""
    trial = list(at)
    for k in tried:
        trial[k] = b
    problem, bank = assign(trial), memory.banks[b]
    positions = [items[k].members[0] for k in tried]
    buffers = [problem.buffers[i] for i in positions]
    most = 1 + max((max(item.costs) for item in items), default=0)
    gains = []
    for k, buffer in zip(tried, buffers, strict=True):
        elsewhere = [items[k].costs[other] for other in later if items[k].costs[other] >= 0]
        gain = min(elsewhere) - items[k].costs[b] if elsewhere else most
        gains.append(_STAYS if buffer.offset is not None or not buffer.size else gain)
    given = [
        buffer.offset
        if buffer.offset is not None
        else -1
        if buffer.size
        else align_up(bank.reserved, buffer.alignment)
        for buffer in buffers
    ]
    part = part_of(problem, problem.arena(bank.mem_id), positions)
    found, interrupted = _kernel.fill_bank(
        to_kernel(part),
        gains,
        [int(at[k] == b) for k in tried],
        given,
        1e9 if seconds is None else seconds,
        rounds,
        seed,
    )
    if interrupted:
        raise KeyboardInterrupt
    return {k: offset for k, offset in zip(tried, found.offsets, strict=True) if offset >= 0}


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
