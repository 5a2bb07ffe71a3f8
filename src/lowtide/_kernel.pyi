"""The C++ packing kernel: arrays of integers in, offsets out. One arena at a time."""

from array import array
from collections.abc import Callable, Sequence

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

class ImproveResult:
    """The best order's offsets; history holds (seconds, arena)."""

    @property
    def offsets(self) -> list[int]: ...
    @property
    def arena(self) -> int: ...
    @property
    def history(self) -> list[tuple[float, int]]: ...
    @property
    def rounds(self) -> int: ...
    @property
    def interrupted(self) -> bool: ...

class SearchResult:
    """What branch and bound found, what it proved, and why it stopped."""

    @property
    def offsets(self) -> list[int] | None: ...
    @property
    def arena(self) -> int | None: ...
    @property
    def lower_bound(self) -> int: ...
    @property
    def stopped(self) -> str: ...
    @property
    def nodes(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @property
    def history(self) -> list[tuple[float, int | None, int]]: ...

class ObjectAssignment:
    """The object of each buffer (-1: zero bytes), the objects' sizes, and the bound on their sum."""

    @property
    def objects(self) -> list[int]: ...
    @property
    def sizes(self) -> list[int]: ...
    @property
    def total(self) -> int: ...
    @property
    def lower_bound(self) -> int: ...
    @property
    def optimal(self) -> bool: ...
    @property
    def nodes(self) -> int: ...
    @property
    def interrupted(self) -> bool: ...

class BankChoice:
    """A bank for each item, its cost, and the least that any choice costs; no banks if none was found."""

    @property
    def banks(self) -> list[int]: ...
    @property
    def cost(self) -> int: ...
    @property
    def bound(self) -> int: ...
    @property
    def infeasible(self) -> bool: ...
    @property
    def proved(self) -> bool: ...
    @property
    def states(self) -> int: ...
    @property
    def left(self) -> int: ...

MOST_BANKS: int
MOST_BANK_COST: int

class BankFill:
    @property
    def offsets(self) -> list[int]: ...
    @property
    def gain(self) -> int: ...
    @property
    def rounds(self) -> int: ...

def choose_banks(
    capacity: array[int],
    cost: array[int],
    first: array[int],
    start: array[int],
    stop: array[int],
    weight: array[int],
    cuts: Sequence[tuple[int, Sequence[int]]] = (),
    seconds: float = 1e9,
    states: int = ...,
    seed: int = 0,
) -> tuple[BankChoice, bool]: ...
def fill_bank(
    problem: Problem,
    gain: Sequence[int],
    chosen: Sequence[int],
    offsets: Sequence[int],
    seconds: float = 1e9,
    rounds: int = 0,
    seed: int = 0,
) -> tuple[BankFill, bool]: ...
def greedy_objects(problem: Problem, order: Sequence[int], choice: str = "closest") -> ObjectAssignment: ...
def shared_objects(
    problem: Problem, seconds: float = 1e9, nodes: int = 10_000_000, seed: int = 0
) -> ObjectAssignment: ...
def object_lower_bound(problem: Problem) -> int: ...
def search(
    problem: Problem,
    *,
    fit: bool = False,
    deadline: float = 0.0,
    node_limit: int = 0,
    threads: int = 1,
    seed: int = 0,
    incumbent: Sequence[int] | None = None,
    disable: Sequence[str] = (),
    progress: Callable[[float, int | None, int, int], None] | None = None,
) -> SearchResult: ...
def rules() -> list[tuple[str, str]]: ...
def improve(
    problem: Problem,
    seconds: float = 1e9,
    rounds: int = ...,
    seed: int = 0,
    threads: int = 1,
    target: int | None = None,
    incumbent: Sequence[int] | None = None,
    progress: Callable[[float, int], None] | None = None,
) -> ImproveResult: ...
def first_fit(problem: Problem, order: Sequence[int]) -> Packing: ...
def best_fit(problem: Problem, order: Sequence[int]) -> Packing: ...
def order_by(problem: Problem, name: str) -> list[int]: ...
def order_names() -> list[str]: ...
def live_peak(problem: Problem) -> int: ...
def disjoint_peak(problem: Problem) -> int: ...
def live_curve(problem: Problem) -> tuple[list[int], list[int]]: ...
def contradiction(problem: Problem) -> tuple[int, str] | None: ...
def check(problem: Problem, offsets: Sequence[int], limit: int = 100) -> CheckResult: ...
