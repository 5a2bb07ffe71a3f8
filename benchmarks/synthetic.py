"""Seeded synthetic packing problems of any size, for growth measurements.

Each distribution is a function of a count and a NumPy generator that returns three arrays: starts, stops
(half-open, in ticks) and sizes (bytes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Lifetimes: TypeAlias = tuple[Ints, Ints, Ints]

KIB = 1024


def _lognormal_sizes(count: int, rng: np.random.Generator, median: float, spread: float) -> Ints:
    sizes = np.exp(rng.normal(np.log(median), spread, count))
    return np.clip(sizes, 1, 2**34).astype(np.int64)


def short_lived(count: int, rng: np.random.Generator) -> Lifetimes:
    """An inference graph: everything dies soon after it is made; sizes spread over decades."""
    start = np.sort(rng.integers(0, count, count))
    stop = start + rng.geometric(1 / 30, count)
    return start, stop, _lognormal_sizes(count, rng, 64 * KIB, 1.5)


def heavy_tailed(count: int, rng: np.random.Generator) -> Lifetimes:
    """Pareto durations, from one tick to the whole run; sizes a few powers of two and their neighbours."""
    start = rng.integers(0, count, count)
    duration = np.minimum(1 + 4 * rng.pareto(0.9, count), count).astype(np.int64)
    size = 2 ** rng.integers(6, 21, count) + rng.integers(0, 2, count)
    return start, start + duration, size


def training(count: int, rng: np.random.Generator) -> Lifetimes:
    """A forward and a backward pass: a third of the buffers wait, nested, for their gradient."""
    start = np.sort(rng.integers(0, count, count))
    short = start + rng.integers(1, 12, count)
    nested = np.maximum(2 * count - start + rng.integers(-8, 9, count), start + 1)
    waits = rng.random(count) < 1 / 3
    backward = ~waits & (rng.random(count) < 0.5)
    stop = np.where(waits, nested, short)
    shift = np.where(backward, count, 0)
    catalogue = _lognormal_sizes(60, rng, 256 * KIB, 1.5)
    return start + shift, stop + shift, rng.choice(catalogue, count)


def mixed(count: int, rng: np.random.Generator) -> Lifetimes:
    """Nine in ten short and small; one in ten lives anywhere up to the whole run, and is larger."""
    long_lived = rng.random(count) < 0.1
    duration = np.where(long_lived, rng.integers(1, count + 1, count), rng.integers(1, 100, count))
    start = (rng.random(count) * (count - np.minimum(duration, count - 1))).astype(np.int64)
    size = np.where(
        long_lived, _lognormal_sizes(count, rng, 64 * KIB, 1.0), _lognormal_sizes(count, rng, 4 * KIB, 1.0)
    )
    return start, start + duration, size


def staged(count: int, rng: np.random.Generator) -> Lifetimes:
    """Layers of two thousand buffers, which live within their layer, but for those that serve several."""
    stage_ticks = 2000
    stage = rng.integers(0, max(count // stage_ticks, 1), count)
    inside = np.sort(rng.integers(0, stage_ticks, (2, count)), axis=0)
    start = stage * stage_ticks + inside[0]
    spans = np.where(rng.random(count) < 0.05, rng.integers(1, 20, count), 0)
    stop = stage * stage_ticks + inside[1] + 1 + spans * stage_ticks
    return start, stop, 512 * rng.integers(1, 4096, count)


DISTRIBUTIONS: dict[str, Callable[[int, np.random.Generator], Lifetimes]] = {
    "short-lived": short_lived,
    "heavy-tailed": heavy_tailed,
    "training": training,
    "mixed": mixed,
    "staged": staged,
}


def generate(distribution: str, count: int, seed: int = 0) -> Lifetimes:
    """Buffers of the named distribution; the same for the same arguments."""
    return DISTRIBUTIONS[distribution](count, np.random.default_rng([seed, count]))
