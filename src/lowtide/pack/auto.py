"""auto: cheap heuristics, then exact search and local improvement, until the bound is met or time is up.

Small problems go to the exact search, which usually proves them in milliseconds; large ones to
squeaky-wheel rounds of first fit, which scale. What the one leaves, the other gets.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.ir.plan import Progress
from lowtide.pack.arrays import to_kernel
from lowtide.pack.bounds import lower_bound
from lowtide.pack.cliques import clique_bound
from lowtide.pack.exact import check_rules, no_plan, search
from lowtide.pack.registry import Options, Packing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.ir.problem import Problem

SEARCH_LIMIT = 6_000
"""Above so many buffers local improvement goes first, and gets most of the time."""

SEARCH_MOST = 20_000
"""Above so many, exact search is left out: what it needs to begin with would cost more than it can win."""

FIRST_SHARE = 0.9
"""Of the time, for whichever goes first; the other gets what is left."""

IMPROVE_ROUNDS = 200
"""Where no time is set, so that the answer does not depend on the clock."""

_ORDERS = ("size", "area")


def auto(problem: Problem, options: Options) -> Packing:
    """The smallest plan that can be found in time, and a proof if the bound is met.

    Raises:
        InfeasibleError: the pins contradict each other, or the search proves that nothing fits the capacity.
    """
    check_rules(options)
    return _Portfolio(problem, options).run()


class _Portfolio:
    def __init__(self, problem: Problem, options: Options) -> None:
        self.problem, self.options = problem, options
        self.began = time.perf_counter()
        self.arrays = to_kernel(problem)
        unlimited = problem.without_capacity()
        self.unlimited = self.arrays if unlimited is problem else to_kernel(unlimited)
        self.bound = lower_bound(problem)
        self.best: tuple[int, list[int]] | None = None  # arena and offsets
        self.history: list[Progress] = []
        self.nodes = 0
        self.interrupted = False
        self.stopped = ""

    def run(self) -> Packing:
        try:
            self.stages()
        except KeyboardInterrupt:  # between two calls of the kernel, which returns its best when interrupted
            if self.best is None:
                raise
            self.interrupted = True
        capacity = self.problem.arenas[0].capacity if self.problem.arenas else None
        if self.best is None or (capacity is not None and self.bound > capacity):
            raise no_plan(self.problem, "infeasible" if self.best else self.stopped, self.bound)
        return Packing(
            tuple(self.best[1]), self.bound, history=tuple(self.history), interrupted=self.interrupted
        )

    def stages(self) -> None:
        """Cheap heuristics, then search and local improvement, whichever suits the size first."""
        self.cheap()
        if not self.done():
            self.bound = max(self.bound, clique_bound(self.problem))
        count = len(self.problem.buffers)
        stages = [self.search, self.improve] if count <= SEARCH_LIMIT else [self.improve, self.search]
        shares = [FIRST_SHARE, 1.0]
        if count > SEARCH_MOST:
            stages, shares = [self.improve], [1.0]
        for share, stage in zip(shares, stages, strict=True):
            left = self.left()
            if self.done() or (left is not None and left <= 0):
                break
            stage(None if left is None else share * left)

    def left(self) -> float | None:
        """Seconds left; None if there is no limit."""
        limit = self.options.timeout
        return None if limit is None else limit - (time.perf_counter() - self.began)

    def done(self) -> bool:
        return self.interrupted or (self.best is not None and self.best[0] <= self.bound)

    def offer(self, arena: int, offsets: Sequence[int]) -> None:
        """Keep a plan if it is the smallest so far, and tell of it."""
        if self.best is None or arena < self.best[0]:
            self.best = (arena, list(offsets))
            self.note(self.elapsed(), arena, self.bound)
            if self.options.progress is not None:
                self.options.progress(self.history[-1], self.nodes)

    def note(self, seconds: float, arena: int, bound: int) -> None:
        """Write down how things stand, if that is news."""
        entry = Progress(seconds, arena, min(bound, arena))
        if self.history:
            last = self.history[-1]
            entry = Progress(
                max(seconds, last.seconds),
                min(arena, last.arena_bytes),
                max(entry.lower_bound_bytes, last.lower_bound_bytes),
            )
            if replace(entry, seconds=last.seconds) == last:
                return
        self.history.append(entry)

    def elapsed(self) -> float:
        return time.perf_counter() - self.began

    def cheap(self) -> None:
        """First fit under two orders: enough for most real models. Pins may leave it without a plan."""
        for order in _ORDERS:
            found = _kernel.first_fit(self.arrays, _kernel.order_by(self.arrays, order))
            faults = _kernel.check(self.unlimited, found.offsets, 1).violations
            if not faults:
                self.offer(found.arena, found.offsets)
            left = self.left()
            if self.done() or (self.best is not None and left is not None and left <= 0):
                return

    def search(self, seconds: float | None) -> None:
        start, report = self.elapsed(), self.options.progress

        def tell(progress: Progress, nodes: int) -> None:
            self.nodes = nodes
            if report is not None:
                bound = max(self.bound, progress.lower_bound_bytes)
                report(Progress(start + progress.seconds, progress.arena_bytes, bound), nodes)

        found = search(
            self.arrays,
            self.options if report is None else replace(self.options, progress=tell),
            timeout=seconds,
            incumbent=self.best[1] if self.best else None,
        )
        self.stopped = found.stopped
        self.interrupted |= found.stopped == "interrupted"
        for when, arena, bound in found.history:
            if arena is not None:
                self.note(start + when, arena, max(self.bound, bound))
        self.bound = max(self.bound, found.lower_bound)
        if found.offsets is not None and found.arena is not None:
            self.offer(found.arena, found.offsets)

    def improve(self, seconds: float | None) -> None:
        if self.best is None:
            return
        start = self.elapsed()
        report = self.options.progress

        def tell(when: float, arena: int) -> None:
            if report is not None:
                report(Progress(start + when, arena, self.bound), self.nodes)

        found = _kernel.improve(
            self.arrays,
            seconds=1e9 if seconds is None else seconds,
            rounds=IMPROVE_ROUNDS if seconds is None else 1 << 62,
            seed=self.options.seed,
            threads=self.options.threads or os.cpu_count() or 1,
            target=self.bound,
            incumbent=self.best[1],
            progress=tell if report is not None else None,
        )
        self.interrupted |= found.interrupted
        for when, arena in found.history:
            self.note(start + when, arena, self.bound)
        if found.arena < self.best[0]:
            self.best = (found.arena, found.offsets)
