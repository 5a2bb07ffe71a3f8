"""Where a replayed program keeps its tensors: each apart, or all in one planned arena."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import torch

from lowtide.base.errors import ProgramError, ReplayError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lowtide.ir.plan import Plan
    from lowtide.ir.program import Program

POISON = 0xFF
"""Dead bytes are filled with this: NaN as a float, -1 as an integer."""


class Memory(Protocol):
    """Gives out the bytes of storages."""

    def place(self, storage: int, like: torch.Tensor) -> torch.Tensor:
        """A tensor with the storage's bytes and the shape, strides and type of ``like``, which has none.

        It begins its own ``untyped_storage()``: ``as_strided`` counts from there, whatever lies around it.
        """
        ...

    def coincide(self, a: int, b: int) -> bool:
        """Whether two storages are exactly the same bytes."""
        ...

    def lies_in(self, inner: int, outer: int, distance: int) -> bool:
        """Whether one storage lies inside another, so many bytes above its start."""
        ...

    def spoil(self, storage: int, spare: Iterable[int] = ()) -> None:
        """The storage is about to be written from end to end: what it holds now is worth nothing.

        Except the bytes of those that are to be spared.
        """
        ...

    def move(self, tick: int, to: int, written: Iterable[int]) -> None:
        """Control goes from one program point, which has written these storages, to another."""
        ...


class SeparateMemory:
    """Every storage apart: the reference, which no plan can spoil."""

    def place(self, storage: int, like: torch.Tensor) -> torch.Tensor:
        """Fresh bytes."""
        return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)

    def coincide(self, a: int, b: int) -> bool:
        """Never."""
        return False

    def lies_in(self, inner: int, outer: int, distance: int) -> bool:
        """Never."""
        return False

    def spoil(self, storage: int, spare: Iterable[int] = ()) -> None:
        """Nothing is shared, so nothing can be spoilt."""

    def move(self, tick: int, to: int, written: Iterable[int]) -> None:
        """Nothing ever dies here."""


class ArenaMemory:
    """Every planned storage at its planned offset in one byte arena; dead bytes are poisoned.

    Storages that the plan leaves out (constants, unbounded tensors, inputs or outputs that the caller
    provides) live apart.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        self.program, self.plan = program, plan
        self.arenas = {use.id: torch.full((use.bytes,), POISON, dtype=torch.uint8) for use in plan.uses}
        self.buffer_of: dict[int, int] = {}
        for i, storage in enumerate(program.storages):
            if storage.planned and storage.name in plan.names:
                self.buffer_of[i] = plan.names[storage.name]
        self.alive = _alive_sets(plan)

    def place(self, storage: int, like: torch.Tensor) -> torch.Tensor:
        """The planned bytes.

        Raises:
            ReplayError: the plan has no place for it, or one too small, misaligned or outside the arena.
            ProgramError: the tensor is larger than the program says that it can be.
        """
        wanted = self.program.storages[storage]
        if storage not in self.buffer_of:
            if wanted.planned:
                optional = wanted.kind in ("input", "output", "state")
                hint = f" (kind {wanted.kind}: was it planned without?)" if optional else ""
                raise ReplayError(f"{wanted.name} has no place in the plan{hint}")
            return SeparateMemory().place(storage, like)
        position = self.buffer_of[storage]
        buffer, offset = self.plan.problem.buffers[position], self.plan.offsets[position]
        needed = span(like) * like.element_size()
        arena = self.arenas[buffer.arena]
        assert wanted.size is not None
        if needed > wanted.size:
            raise ProgramError(
                f"{wanted.name} spans {needed} bytes in this run, and the program says that it never spans "
                f"more than {wanted.size}: these inputs, or the bounds that it was exported with, are wrong"
            )
        if wanted.size > buffer.size:
            raise ReplayError(f"{wanted.name} needs {wanted.size} bytes; the plan gives it {buffer.size}")
        if offset < 0 or offset + needed > arena.numel():
            raise ReplayError(
                f"{wanted.name} takes bytes {offset} to {offset + needed}, outside its arena of "
                f"{arena.numel()}"
            )
        multiple = math.lcm(wanted.alignment, like.element_size())
        if offset % multiple:
            raise ReplayError(f"{wanted.name} is at {offset}, not at a multiple of {multiple}")
        bytes_ = arena.untyped_storage()[offset : offset + needed]
        return torch.empty(0, dtype=like.dtype).set_(bytes_, 0, like.shape, like.stride())

    def coincide(self, a: int, b: int) -> bool:
        """Whether two storages have one offset and one size in one arena."""
        return self.lies_in(a, b, 0) and self.program.storages[a].size == self.program.storages[b].size

    def lies_in(self, inner: int, outer: int, distance: int) -> bool:
        """Whether the plan puts one storage inside the other, at this distance."""
        if inner not in self.buffer_of or outer not in self.buffer_of:
            return False
        places = []
        for storage in (inner, outer):
            position = self.buffer_of[storage]
            start = self.plan.offsets[position]
            places.append((self.plan.problem.buffers[position].arena, start))
        (arena, start), (other, base) = places
        size, room = self.program.storages[inner].size, self.program.storages[outer].size
        assert size is not None
        assert room is not None
        return arena == other and start == base + distance and distance + size <= room

    def spoil(self, storage: int, spare: Iterable[int] = ()) -> None:
        """Poison the storage, so that a step that writes over what it still reads is found out."""
        if storage in self.buffer_of:
            spared = frozenset(self.buffer_of[s] for s in spare if s in self.buffer_of)
            self.poison(self.buffer_of[storage], spared)

    def move(self, tick: int, to: int, written: Iterable[int]) -> None:
        """Poison what the plan says is dead, except for bytes that belong to something alive.

        That is what dies on the way, and what was written although it was not alive.
        """
        before, after = self.alive.get(tick, frozenset()), self.alive.get(to, frozenset())
        stray = {self.buffer_of[storage] for storage in written if storage in self.buffer_of} - before
        for position in sorted(stray):
            self.poison(position, before)
        for position in sorted((before | stray) - after):
            self.poison(position, after)

    def poison(self, position: int, spare: frozenset[int]) -> None:
        buffer = self.plan.problem.buffers[position]
        start = self.plan.offsets[position]
        arena = self.arenas[buffer.arena]
        others = sorted(
            (self.plan.offsets[other], self.plan.offsets[other] + self.plan.problem.buffers[other].size)
            for other in spare
            if self.plan.problem.buffers[other].arena == buffer.arena
        )
        for begin, end in _gaps(start, min(start + buffer.size, arena.numel()), others):
            arena[begin:end] = POISON


def _gaps(start: int, stop: int, taken: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What of ``[start, stop)`` none of the sorted intervals takes."""
    for begin, end in taken:
        if end <= start or begin >= stop:
            continue
        if begin > start:
            yield start, begin
        start = max(start, end)
    if start < stop:
        yield start, stop


def _alive_sets(plan: Plan) -> dict[int, frozenset[int]]:
    """The buffers that the plan says are alive at each tick."""
    changes: dict[int, list[tuple[bool, int]]] = {}
    for position, buffer in enumerate(plan.problem.buffers):
        for start, stop in buffer.lifetime:
            changes.setdefault(start, []).append((True, position))
            changes.setdefault(stop, []).append((False, position))
    found: dict[int, frozenset[int]] = {}
    alive: set[int] = set()
    last = max(changes, default=-1)
    for tick in range(last + 1):
        for born, position in changes.get(tick, ()):
            (alive.add if born else alive.discard)(position)
        found[tick] = frozenset(alive)
    return found


def span(tensor: torch.Tensor) -> int:
    """Elements from the first to the last that a tensor's strides reach, both included."""
    if tensor.numel() == 0:
        return 0
    reach: int = sum((d - 1) * s for d, s in zip(tensor.shape, tensor.stride(), strict=True))
    return reach + 1
