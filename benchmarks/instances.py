"""Benchmark instances as arrays: files beside this module, or synthetic ones by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lowtide import _kernel
from synthetic import DISTRIBUTIONS, Ints, generate

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Instance:
    """Buffers alive during [starts, stops), of so many bytes each."""

    name: str
    starts: Ints
    stops: Ints
    sizes: Ints

    def __len__(self) -> int:
        return len(self.sizes)

    def problem(self) -> _kernel.Problem:
        """The kernel's view: no alignment, no pins."""
        count = len(self)
        return _kernel.Problem(
            np.ascontiguousarray(self.sizes),
            np.ones(count, np.int64),
            np.full(count, -1, np.int64),
            np.arange(count + 1, dtype=np.int64),
            np.ascontiguousarray(self.starts),
            np.ascontiguousarray(self.stops),
        )


def load(name: str, seed: int = 0) -> Instance:
    """`idealloc/S_1` names a file under `data`; `mixed:10000` a synthetic instance of so many buffers."""
    distribution, _, count = name.partition(":")
    if count:
        if distribution not in DISTRIBUTIONS:
            raise SystemExit(
                f"no distribution is called {distribution!r}; there are {', '.join(DISTRIBUTIONS)}"
            )
        return Instance(name, *generate(distribution, int(count), seed))
    rows = np.loadtxt(DATA / f"{name}.csv", delimiter=",", skiprows=1, dtype=np.int64)
    return Instance(name, rows[:, 1], rows[:, 2], rows[:, 3])
