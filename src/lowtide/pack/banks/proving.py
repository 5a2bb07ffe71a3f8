"""Whether a set of items can be laid out in a bank at all, and which of them are to blame if not."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.pack.arrays import to_kernel
from lowtide.pack.bounds import lower_bound
from lowtide.pack.exact import search
from lowtide.pack.registry import Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.ir.problem import Arena, Problem
    from lowtide.pack.banks.choice import Item

_SEARCH_SECONDS = 1.0
"""For the proof that a whole set does not fit."""

_SHRINK_SECONDS = 0.5
"""For all trials to leave items out of it."""

_TRIAL_SECONDS = 0.05


def unfit(
    problem: Problem, arena: Arena, items: Sequence[Item], chosen: Sequence[int], options: Options
) -> list[int] | None:
    """Of items chosen for a bank, few that cannot be in it together; None if there is no proof of any.

    Args:
        problem: the buffers, each in the arena of its bank.
        arena: the bank's, with its capacity.
        items: all of them.
        chosen: positions of those that are in this bank.
        options: seed and threads.
    """
    if not _is_proved(problem, arena, items, chosen, options, _SEARCH_SECONDS):
        return None
    began = time.perf_counter()
    kept = list(chosen)
    step = max(len(kept) // 2, 1)
    while True:
        at = 0
        while at < len(kept) and time.perf_counter() - began < _SHRINK_SECONDS:
            fewer = kept[:at] + kept[at + step :]
            if fewer and _is_proved(problem, arena, items, fewer, options, _TRIAL_SECONDS):
                kept = fewer
            else:
                at += step
        if step == 1:
            return kept
        step //= 2


def _is_proved(
    problem: Problem,
    arena: Arena,
    items: Sequence[Item],
    chosen: Sequence[int],
    options: Options,
    seconds: float,
) -> bool:
    """Whether the items are proved not to fit in the arena."""
    part = part_of(problem, arena, sorted(i for item in chosen for i in items[item].members))
    if arena.capacity is not None and lower_bound(part) > arena.capacity:
        return True
    found = search(
        to_kernel(part), Options(timeout=seconds, seed=options.seed, threads=options.threads), fit=True
    )
    return found.stopped == "infeasible"


def part_of(problem: Problem, arena: Arena, positions: Sequence[int]) -> Problem:
    """Some buffers alone in an arena, with the permissions among them."""
    buffers = tuple(problem.buffers[i] for i in positions)
    ids = {buffer.id for buffer in buffers}
    return replace(
        problem,
        buffers=buffers,
        arenas=(arena,),
        may_coincide=tuple(pair for pair in problem.may_coincide if pair[0] in ids and pair[1] in ids),
        placements=tuple(p for p in problem.placements if p.inner in ids and p.outer in ids),
        regions=(),
        frees=(),
    )
