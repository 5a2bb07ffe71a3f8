"""What the interpreter of TensorFlow Lite Micro makes of a model when it starts, to the byte.

It numbers the operators on a counter, gives every tensor one inclusive interval on it, puts tensors that
carry an offset there, and places the others, and the scratch that kernels ask for, by decreasing size at the
first gap among what is alive at the same time. As in ``micro_allocation_info.cc`` and
``greedy_memory_planner.cc`` of August 2026; the intervals are those of its source, not those of need.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.base.errors import UnsupportedError
from lowtide.frontends.tflite.metadata import ONLINE
from lowtide.ir.problem import align_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.tflite.model import Model, Operator

ALIGNMENT = 16
"""Bytes: of the arena, and of every size in it."""

NEVER = (-1, -1)
"""The interval of a tensor that no operator names. It has bytes all the same, apart from others such."""

MARK_LIMIT = 200_000
"""Operators that subgraphs which call subgraphs may unfold into; beyond this a model is refused."""

DEPTH_LIMIT = 64
"""How deep calls may nest; the interpreter itself recurses on the stack of the device."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory that a kernel asks for while it runs.

    Args:
        subgraph, operator: who asks, by position.
        size: bytes asked for.
    """

    subgraph: int
    operator: int
    size: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """Something that has bytes in the arena.

    Args:
        size: bytes, rounded up.
        first, last: when it is alive, inclusive, on the interpreter's counter.
        offset: where it lies.
        online: whether the interpreter chose that.
    """

    size: int
    first: int
    last: int
    offset: int
    online: bool


@dataclass(frozen=True)
class Simulation:
    """An arena as the interpreter lays it out.

    Args:
        tensors: by number through all subgraphs, those that have bytes in the arena.
        scratch: in the order in which it was given.
        head: bytes: what ``print_allocations`` calls the arena allocation head.
    """

    tensors: dict[int, Allocation]
    scratch: tuple[Allocation, ...]
    head: int


def simulate(
    model: Model, offsets: Sequence[int] | None = None, scratch: Sequence[Scratch] = ()
) -> Simulation:
    """Lay an arena out as the interpreter does.

    Args:
        model: what it runs.
        offsets: one a tensor of all subgraphs, -1 for those that it is to place; None for no offsets at all.
        scratch: what kernels ask for.

    Raises:
        UnsupportedError: a subgraph calls itself, or calls nest too deep or unfold too far.
    """
    spans = lifetimes(model, scratch)
    placed = model.arena_tensors | _fixed_variables(model, offsets)
    numbers = [i for i, tensor in enumerate(model.tensors) if i in placed]
    sizes = [tensor.size for i, tensor in enumerate(model.tensors) if i in placed]
    requests = sorted(range(len(scratch)), key=lambda i: (scratch[i].subgraph, scratch[i].operator))
    sizes += [scratch[i].size for i in requests]
    intervals = [spans.tensors[i] for i in numbers] + [spans.scratch[i] for i in requests]
    fixed = [ONLINE if offsets is None else offsets[i] for i in numbers] + [ONLINE] * len(requests)
    sizes = [align_up(size, ALIGNMENT) for size in sizes]
    starts = place_greedily(sizes, intervals, fixed)
    found = [
        Allocation(size, *interval, start, offset == ONLINE)
        for size, interval, start, offset in zip(sizes, intervals, starts, fixed, strict=True)
    ]
    order = {request: len(numbers) + i for i, request in enumerate(requests)}
    return Simulation(
        tensors=dict(zip(numbers, found, strict=False)),
        scratch=tuple(found[order[i]] for i in range(len(scratch))),
        head=align_up(max((a.offset + a.size for a in found), default=0), ALIGNMENT),
    )


def _fixed_variables(model: Model, offsets: Sequence[int] | None) -> set[int]:
    """Variables that have an offset: these lie in the arena, unlike all others."""
    if offsets is None:
        return set()
    return {i for i, tensor in enumerate(model.tensors) if tensor.variable and offsets[i] != ONLINE}


@dataclass(frozen=True)
class Lifetimes:
    """Inclusive intervals on the interpreter's counter, by tensor number and by scratch."""

    tensors: tuple[tuple[int, int], ...]
    scratch: tuple[tuple[int, int], ...]


def lifetimes(model: Model, scratch: Sequence[Scratch] = ()) -> Lifetimes:
    """When the interpreter takes everything to be alive.

    Raises:
        UnsupportedError: a subgraph calls itself, or calls nest too deep or unfold too far.
    """
    marker = _Marker(model, scratch)
    marker.subgraph(0, ())
    return Lifetimes(tuple(marker.tensors), tuple(marker.scratch))


class _Marker:
    """Walks through the operators as ``MarkAllocationLifetimes`` does."""

    def __init__(self, model: Model, scratch: Sequence[Scratch]) -> None:
        self.model = model
        self.tensors = [NEVER] * model.tensor_count
        self.scratch = [NEVER] * len(scratch)
        self.requests: dict[tuple[int, int], list[int]] = {}
        for i, request in enumerate(scratch):
            self.requests.setdefault((request.subgraph, request.operator), []).append(i)
        self.count = 0
        self.marks = 0

    def subgraph(self, position: int, callers: tuple[int, ...]) -> None:
        graph, base = self.model.subgraphs[position], self.model.bases[position]
        if position in callers:
            raise UnsupportedError(
                f"{self.model.name}: subgraph {graph.name!r} calls itself: it cannot be planned"
            )
        if len(callers) > DEPTH_LIMIT:
            raise UnsupportedError(f"{self.model.name}: its calls nest more than {DEPTH_LIMIT} deep")
        for tensor in graph.inputs:
            self.create(base + tensor)
            self.use(base + tensor)
        for i, operator in enumerate(graph.operators):
            self.count += 1
            self.marks += 1
            if self.marks > MARK_LIMIT:
                raise UnsupportedError(
                    f"{self.model.name}: its calls unfold into more than {MARK_LIMIT} operators"
                )
            for tensor in operator.outputs:
                self.create(base + tensor)
            start = self.count
            self.calls(operator, (*callers, position))
            for tensor in (*operator.inputs, *operator.outputs):
                if tensor >= 0:
                    self.use(base + tensor)
            for request in self.requests.get((position, i), ()):
                first = self.scratch[request][0]
                self.scratch[request] = (start if first < 0 else first, self.count)
        for tensor in graph.outputs:
            self.create(base + tensor)
            self.use(base + tensor)

    def calls(self, operator: Operator, callers: tuple[int, ...]) -> None:
        for callee in operator.calls if operator.seen else ():
            self.count += 1
            self.subgraph(callee, callers)

    def create(self, tensor: int) -> None:
        first, last = self.tensors[tensor]
        self.tensors[tensor] = (self.count if first < 0 else first, last)

    def use(self, tensor: int) -> None:
        self.tensors[tensor] = (self.tensors[tensor][0], self.count)


def place_greedily(sizes: list[int], intervals: list[tuple[int, int]], fixed: list[int]) -> list[int]:
    """Offsets as ``GreedyMemoryPlanner`` finds them: what is fixed, then first fit by decreasing size.

    Among equals the last comes first. What has no end after its beginning (a tensor that is read but never
    made) is alive from -1 on.
    """
    starts = list(fixed)
    placed = sorted(
        (start, size, *interval)
        for start, size, interval in zip(starts, sizes, intervals, strict=True)
        if start != ONLINE
    )
    online = [i for i, start in enumerate(fixed) if start == ONLINE]
    for i in sorted(online, key=lambda i: (-sizes[i], -i)):
        size, (first, last) = sizes[i], intervals[i]
        start = 0
        for other, length, begins, ends in placed:
            if begins > last or first > ends:
                continue
            if other - start >= size:
                break
            start = max(start, other + length)
        starts[i] = start
        insort(placed, (start, size, first, last))
    return starts
