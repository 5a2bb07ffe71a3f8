"""The smallest arena of a tiny problem, found by trying every offset: the reference for the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lowtide import _kernel


@dataclass(frozen=True)
class Arrays:
    """One arena's problem as the kernel takes it: sizes in bytes, half-open lifetimes, pins or -1."""

    size: list[int]
    lives: list[list[tuple[int, int]]]
    alignment: list[int]
    pin: list[int]
    reserved: int = 0
    capacity: int = -1
    coincide: list[tuple[int, int]] = field(default_factory=list)
    placements: list[tuple[int, int, int]] = field(default_factory=list)

    def to_kernel(self) -> _kernel.Problem:
        """The same for the kernel."""
        from array import array

        first, start, stop = array("q", [0]), array("q"), array("q")
        for life in self.lives:
            for begin, end in life:
                start.append(begin)
                stop.append(end)
            first.append(len(start))
        return _kernel.Problem(
            array("q", self.size),
            array("q", self.alignment),
            array("q", self.pin),
            first,
            start,
            stop,
            self.reserved,
            self.capacity,
            self.coincide,
            self.placements,
        )


def brute_force(arrays: Arrays, limit: int) -> int | None:
    """The least arena in bytes, or None if there is no packing within ``limit`` bytes."""
    rigid = _rigid(arrays)
    for arena in range(arrays.reserved, limit + 1):
        if _fits(arrays, rigid, arena, [None] * len(arrays.size)):
            return arena
    return None


def is_packing(arrays: Arrays, offsets: Sequence[int], arena: int) -> bool:
    """Whether the offsets obey every rule and end within ``arena`` bytes."""
    everyone = range(len(arrays.size))
    placed = all(offsets[inner] - offsets[outer] == d for inner, outer, d in arrays.placements)
    return (
        placed
        and all(_alone(arrays, i, offsets[i], arena) for i in everyone)
        and not any(_clash(arrays, i, j, offsets[i], offsets[j]) for i in everyone for j in range(i))
    )


def _alone(arrays: Arrays, i: int, offset: int, arena: int) -> bool:
    return (
        offset >= (arrays.reserved if arrays.size[i] else 0)
        and (offset + arrays.size[i] <= arena or arrays.size[i] == 0)
        and offset % arrays.alignment[i] == 0
        and arrays.pin[i] in (-1, offset)
    )


def _clash(arrays: Arrays, i: int, j: int, x: int, y: int) -> bool:
    if not (arrays.size[i] and arrays.size[j] and x < y + arrays.size[j] and y < x + arrays.size[i]):
        return False
    if not any(a < d and c < b for a, b in arrays.lives[i] for c, d in arrays.lives[j]):
        return False
    if x == y and ((i, j) in arrays.coincide or (j, i) in arrays.coincide):
        return False
    return j not in _outers(arrays, i) and i not in _outers(arrays, j)


def _outers(arrays: Arrays, i: int) -> set[int]:
    direct = {outer for inner, outer, _ in arrays.placements if inner == i}
    return direct.union(*(_outers(arrays, outer) for outer in direct))


def _rigid(arrays: Arrays) -> list[list[tuple[int, int]]]:
    """For each buffer those tied to it, and how far above it they are."""
    ties: list[list[tuple[int, int]]] = [[] for _ in arrays.size]
    for inner, outer, distance in arrays.placements:
        ties[outer].append((inner, distance))
        ties[inner].append((outer, -distance))
    return ties


def _fits(arrays: Arrays, rigid: Any, arena: int, offsets: list[int | None]) -> bool:
    if None not in offsets:
        return True
    # A pin says where all that is tied to it lies, be it above the arena, as what has no bytes may. Pins come
    # first, so what is left is either in the arena or, with all that is tied to it, without bytes: then it
    # does not matter where, and 0 is tried.
    i = min((i for i, offset in enumerate(offsets) if offset is None), key=lambda i: arrays.pin[i] < 0)
    choices = [arrays.pin[i]] if arrays.pin[i] >= 0 else range(0, arena + 1, arrays.alignment[i])
    for choice in choices:
        trial = list(offsets)
        if _put(arrays, rigid, arena, trial, i, choice) and _fits(arrays, rigid, arena, trial):
            return True
    return False


def _put(arrays: Arrays, rigid: Any, arena: int, offsets: list[int | None], i: int, offset: int) -> bool:
    """Place i and all that is tied to it; False if any of them cannot be there."""
    if offsets[i] is not None:
        return offsets[i] == offset
    if offset < 0 or not _alone(arrays, i, offset, arena):
        return False
    for j, other in enumerate(offsets):
        if other is not None and _clash(arrays, i, j, offset, other):
            return False
    offsets[i] = offset
    return all(_put(arrays, rigid, arena, offsets, j, offset + distance) for j, distance in rigid[i])
