"""A model's best order: divided where everything passes through, then exact, or heuristic with a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.lifetimes.liveness import positions
from lowtide.transforms.reorder.branch_and_bound import Search, SearchBudget
from lowtide.transforms.reorder.heuristics import beam, polish
from lowtide.transforms.reorder.pieces import find_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.transforms.reorder.pieces import Unit
    from lowtide.transforms.reorder.work import Model

NODES = 30_000
"""Sets of steps that the exact search of one piece may look at, where the caller does not say."""

WIDTHS = (1, 8, 64)
"""Of beams, before and after the exact search: the last is tried only if that ran out of its budget."""

WINDOW = 24
"""Steps of the stretches that are made optimal one by one."""

EFFORT = 20_000_000
"""A set of steps costs a look at every unit: so many looks at the most a beam, or a search, of one piece."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The best order found.

    Args:
        order: of the model's steps.
        before, after: peak of the given order and of this one, in bytes.
        bound: no order that keeps the dependences has a peak below this.
    """

    order: tuple[int, ...]
    before: int
    after: int
    bound: int


def solve(model: Model, budget: SearchBudget | None = None) -> Solution:
    """The order of least peak that can be found; the given one if nothing is better.

    Args:
        model: what is ordered.
        budget: of the exact search of each piece.
    """
    budget = budget or SearchBudget(NODES)
    given = tuple(range(model.count))
    before, bound = model.peak(given), model.bound
    if before <= bound:
        return Solution(given, before, before, bound)
    busy = [step for step in given if model.touched[step] or model.work[step].instants]
    inner = replace(model.part(0, busy), floor=model.floor)
    found, bound = _solve_pieces(inner, bound, budget)
    order = _with_idle(model, [busy[step] for step in found])
    after = model.peak(order)
    if after >= before:
        return Solution(given, before, before, min(bound, before))
    return Solution(order, before, after, bound)


def _with_idle(model: Model, busy: Sequence[int]) -> tuple[int, ...]:
    """An order of all steps: those that touch no bytes run just before they are needed, or last."""
    order: list[int] = []
    left = model.everything & ~sum(1 << step for step in busy)
    for step in busy:
        needed = left & model.earlier[step]
        left &= ~needed
        order += [*positions(needed), step]
    return (*order, *positions(left))


def _solve_pieces(model: Model, bound: int, budget: SearchBudget) -> tuple[list[int], int]:
    """Solve each piece on its own: an order, and a bound on the peak of any."""
    pieces = cut(model)
    parts = []
    done = 0
    for piece in pieces:
        parts.append(model.part(done, piece))
        done |= sum(1 << step for step in piece)
    peaks = [part.peak(range(part.count)) for part in parts]
    for position in sorted(range(len(parts)), key=lambda position: (-peaks[position], position)):
        if peaks[position] <= bound:
            break
        found, least = _solve_piece(parts[position], bound, budget)
        bound = max(bound, least)
        pieces[position] = [pieces[position][step] for step in found]
    return [step for piece in pieces for step in piece], bound


def cut(model: Model) -> list[list[int]]:
    """The steps of a model in pieces: some order of least peak runs all of a piece before all of the next.

    Where every unit that is left needs every unit before, as behind a step through which everything passes,
    any order is divided in two. Steps that run just before they are needed are in the piece that needs them.
    """
    units = _sorted(find_units(model))
    needed_by_all = model.everything
    places = []
    before = [0]
    for unit in units:
        before.append(before[-1] | unit.members)
    for position in range(len(units) - 1, 0, -1):
        # All of a unit is needed where its last step is: it runs in one go.
        needed = units[position].earlier
        needed_by_all &= sum(unit.members for unit in units[:position] if unit.members & needed)
        if needed_by_all & before[position] == before[position]:
            places.append(position)
    ends = [*reversed(places), len(units)]
    return [
        sorted(step for unit in units[first:stop] for step in unit.steps)
        for first, stop in zip([0, *ends[:-1]], ends, strict=True)
    ]


def _sorted(units: Sequence[Unit]) -> list[Unit]:
    """Units in an order that keeps the dependences, as near to the given one as can be."""
    order: list[Unit] = []
    left = list(units)
    done = 0
    while left:
        unit = next(unit for unit in left if not unit.earlier & ~done)
        left.remove(unit)
        order.append(unit)
        done |= unit.members
    return order


def _solve_piece(part: Model, threshold: int, budget: SearchBudget) -> tuple[tuple[int, ...], int]:
    """The best order of a piece, and a bound on the peak of any; peaks up to a threshold are all the same."""
    units = find_units(part)
    enough = max(threshold, part.bound)
    best = tuple(range(part.count))
    peak = part.peak(best)
    affordable = EFFORT // max(len(units), 1)
    widths = [width for width in WIDTHS if width * part.count <= affordable]
    for width in widths[:2]:
        if peak <= enough:
            return best, enough
        tried = beam(part, units, enough, width)
        if part.peak(tried) < peak:
            best, peak = tried, part.peak(tried)
    if peak <= enough:
        return best, enough
    within = replace(budget, nodes=min(budget.nodes, affordable))
    found = Search(part, units, enough, ceiling=peak).run(within)
    if found.order is not None:
        return found.order, found.bound
    if found.bound >= peak:
        return best, peak
    for width in widths[2:]:
        tried = beam(part, units, found.bound, width)
        if part.peak(tried) < peak:
            best, peak = tried, part.peak(tried)
    return polish(part, best, found.bound, WINDOW), found.bound
