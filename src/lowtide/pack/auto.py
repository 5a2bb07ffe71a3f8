"""auto: the cheap heuristics in turn, and the best of what they find."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.pack.bounds import lower_bound
from lowtide.pack.kernel import to_kernel
from lowtide.pack.registry import Options, Packing
from lowtide.problem import Progress

if TYPE_CHECKING:
    from lowtide.problem import Problem

_ORDERS = ("size", "area", "duration", "start")


def auto(problem: Problem, options: Options) -> Packing:
    """First fit and best fit under several orders; stops as soon as the lower bound is met."""
    began = time.perf_counter()
    arrays = to_kernel(problem)
    bound = lower_bound(problem)
    best: _kernel.Packing | None = None
    history = []
    for order_name in _ORDERS:
        order = _kernel.order_by(arrays, order_name)
        for fit in (_kernel.first_fit, _kernel.best_fit):
            found = fit(arrays, order)
            if best is None or found.arena < best.arena:
                best = found
                history.append(Progress(time.perf_counter() - began, found.arena, bound))
            if best.arena <= bound:
                return Packing(tuple(best.offsets), bound, history=tuple(history))
    assert best is not None
    return Packing(tuple(best.offsets), bound, history=tuple(history))
