"""The C++ packing kernel: arrays of integers in, offsets out. One arena at a time."""

from array import array
from collections.abc import Sequence

class Problem:
    """One arena's packing problem; lifetimes in compressed rows."""

    def __init__(
        self,
        size: array[int],
        alignment: array[int],
        pin: array[int],
        first: array[int],
        start: array[int],
        stop: array[int],
        reserved: int = 0,
        capacity: int = -1,
        coincide: Sequence[tuple[int, int]] = (),
        placements: Sequence[tuple[int, int, int]] = (),
    ) -> None: ...
    def __len__(self) -> int: ...

class Packing:
    """Offsets, and the arena that they need."""

    @property
    def offsets(self) -> list[int]: ...
    @property
    def arena(self) -> int: ...

class CheckResult:
    """What the lifetime verifier found: (kind, i, j), where j is -1 for a fault of one buffer."""

    @property
    def violations(self) -> list[tuple[str, int, int]]: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def reuse_pairs(self) -> int | None: ...

def first_fit(problem: Problem, order: Sequence[int]) -> Packing: ...
def best_fit(problem: Problem, order: Sequence[int]) -> Packing: ...
def order_by(problem: Problem, name: str) -> list[int]: ...
def order_names() -> list[str]: ...
def live_peak(problem: Problem) -> int: ...
def live_curve(problem: Problem) -> tuple[list[int], list[int]]: ...
def check(problem: Problem, offsets: Sequence[int], limit: int = 100) -> CheckResult: ...
