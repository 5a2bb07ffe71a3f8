"""Good orders of models that are too large for proof: beam search, then windows made optimal.

All of it is deterministic, and what is equal keeps the given order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.transforms.reorder.branch_and_bound import Search, SearchBudget
from lowtide.transforms.reorder.pieces import find_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.transforms.reorder.pieces import Unit
    from lowtide.transforms.reorder.work import Model

WINDOW_NODES = 2_000
"""Sets of steps that the search of one window may look at."""


def beam(model: Model, units: Sequence[Unit], threshold: int, width: int) -> tuple[int, ...]:
    """An order found by keeping, of all sets of steps of one size, only the most promising.

    Those of least peak so far go first, then those that leave least alive. A width of 1 is greedy.

    Args:
        model: what is ordered.
        units: its units.
        threshold: peaks up to this are all the same.
        width: how many sets of one size are kept.
    """
    search = Search(model, units, threshold)
    layers: dict[int, dict[int, tuple[int, int, int]]] = {0: {0: (search.threshold, model.live(0), 0)}}
    met = 0
    for size in range(model.count):
        states = layers.pop(size, {})
        kept = sorted(states.items(), key=lambda item: item[1])[:width]
        for done, (peak, live, _) in kept:
            for most, after, reached, path in search.branches(peak, done, live):
                layer = layers.setdefault(reached.bit_count(), {})
                known = layer.get(reached)
                if known is None or most < known[0]:
                    met += 1
                    layer[reached] = (most, after, met)
                    search.came_from[reached] = (done, path)
    return search.order()


def polish(model: Model, order: tuple[int, ...], enough: int, width: int) -> tuple[int, ...]:
    """Make stretches of an order optimal, one after the other, wherever its peak is.

    Args:
        model: what is ordered.
        order: where to begin.
        enough: the peak at which to stop.
        width: steps in a stretch.
    """
    tried: set[tuple[int, ...]] = set()
    while True:
        peaks = model.peaks(order)
        peak = max(peaks)
        if peak <= enough:
            return order
        top = peaks.index(peak)
        for first in range(max(0, top - width + 1), max(0, min(top, model.count - width)) + 1, width // 4):
            window = order[first : first + width]
            if window in tried:
                continue
            tried.add(window)
            better = _best_window(model, order, first, window, peak, enough)
            if better is not None:
                order = better
                break
        else:
            return order


def _best_window(
    model: Model, order: tuple[int, ...], first: int, window: tuple[int, ...], peak: int, enough: int
) -> tuple[int, ...] | None:
    """The order with a window of it made better; None if that cannot be."""
    done = sum(1 << step for step in order[:first])
    part = model.part(done, window)
    found = Search(part, find_units(part), enough, ceiling=peak).run(SearchBudget(WINDOW_NODES))
    if found.order is None:
        return None
    steps = tuple(window[position] for position in found.order)
    return (*order[:first], *steps, *order[first + len(window) :])
