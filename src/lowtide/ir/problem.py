"""What is placed: Buffer, Arena, Problem.

A Problem knows nothing of graphs: buffers with sizes and lifetimes, to be given offsets in arenas. It is a
value: frozen, comparable, serialisable. What cannot be right in it is refused by name, whoever made it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_ARENA, LIMIT, ROOT
from lowtide.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Lifetime = tuple[tuple[int, int], ...]
"""Sorted, disjoint, non-empty half-open intervals ``(start, stop)`` on the timeline."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A run of bytes that needs a place for part of the time.

    Args:
        id: unique in its problem.
        size: bytes; 0 is allowed and conflicts with nothing.
        lifetime: when its bytes matter, as half-open intervals.
        alignment: its offset is a multiple of this many bytes.
        arena: memory id of the arena that holds it.
        offset: the offset that it must have (a pin), or None if the packer is free.
        name: for people; the id serves where it is empty.
        kind: what it is for: temporary, input, output, state, result, carry, scratch.
        region: qualified name of the region that owns it.
        members: names of the program's storages that share it, itself included; empty if just one.
        reads, writes: bytes that a run reads from it and writes to it; None where nobody counted them.
    """

    id: str
    size: int
    lifetime: Lifetime
    alignment: int = 1
    arena: int = DEFAULT_ARENA
    offset: int | None = None
    name: str = ""
    kind: str = "temporary"
    region: str = ROOT
    dtype: str | None = None
    shape: tuple[int | str, ...] | None = None
    operator: str | None = None
    source: str | None = None
    members: tuple[str, ...] = ()
    reads: int | None = None
    writes: int | None = None

    @property
    def accesses(self) -> tuple[int, int]:
        """Bytes read and bytes written; each of its bytes once where nobody counted."""
        return (
            self.size if self.reads is None else self.reads,
            self.size if self.writes is None else self.writes,
        )

    @property
    def label(self) -> str:
        """The name to show a person."""
        return self.name or self.id


@dataclass(frozen=True, slots=True)
class Arena:
    """A block of memory that buffers are placed in.

    Args:
        id: memory id.
        capacity: bytes that a plan may use in all, or None if unlimited.
        reserved: bytes at the bottom that no buffer may use.
    """

    id: int = DEFAULT_ARENA
    capacity: int | None = None
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """``inner`` lies ``distance`` bytes above ``outer``'s offset, inside it, and may overlap it in time."""

    inner: str
    outer: str
    distance: int


@dataclass(frozen=True, slots=True)
class RegionSpan:
    """When a region runs: ``span`` has one half-open interval for each call of it, sorted.

    ``parent`` is the innermost region that is active at every call of it.
    """

    name: str
    kind: str
    span: Lifetime
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Free:
    """An unplanned buffer and the step after which the runtime may free it."""

    buffer: str
    region: str
    after: str


@dataclass(frozen=True)
class Problem:
    """Buffers to be placed, and the rules.

    Args:
        buffers: what to place.
        arenas: where; an arena that a buffer names and this does not is unlimited and empty.
        may_coincide: pairs of buffer ids of equal size that may overlap in time if their offsets are equal.
        placements: buffers at a fixed distance inside another.
        regions: the tree of regions that the hierarchy policies follow; parents come before children.
        frees: what the runtime must free itself, carried along for the plan.

    Raises:
        InputError: a value cannot be right; the message names the buffer.
    """

    buffers: tuple[Buffer, ...]
    arenas: tuple[Arena, ...] = ()
    may_coincide: tuple[tuple[str, str], ...] = ()
    placements: tuple[Placement, ...] = ()
    regions: tuple[RegionSpan, ...] = ()
    frees: tuple[Free, ...] = ()

    def __post_init__(self) -> None:
        known = {arena.id for arena in self.arenas}
        if len(known) != len(self.arenas):
            raise InputError("two arenas have the same id: give each arena its own memory id")
        missing = sorted({buffer.arena for buffer in self.buffers} - known)
        arenas = sorted((*self.arenas, *map(Arena, missing)), key=lambda arena: arena.id)
        object.__setattr__(self, "arenas", tuple(arenas))
        _check(self)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each buffer by id."""
        return {buffer.id: i for i, buffer in enumerate(self.buffers)}

    def arena(self, id: int) -> Arena:
        """The arena with this memory id."""
        for arena in self.arenas:
            if arena.id == id:
                return arena
        raise InputError(f"there is no arena {id}: this problem has {[a.id for a in self.arenas]}")

    def part(self, arena: Arena) -> tuple[Problem, Sequence[int]]:
        """The sub-problem of one arena, and the positions of its buffers in the whole."""
        if len(self.arenas) == 1:
            return self, range(len(self.buffers))
        positions = [i for i, buffer in enumerate(self.buffers) if buffer.arena == arena.id]
        buffers = tuple(self.buffers[i] for i in positions)
        ids = {buffer.id for buffer in buffers}
        part = replace(
            self,
            buffers=buffers,
            arenas=(arena,),
            may_coincide=tuple(pair for pair in self.may_coincide if pair[0] in ids),
            placements=tuple(placement for placement in self.placements if placement.inner in ids),
        )
        return part, positions

    def without_capacity(self) -> Problem:
        """The same problem with arenas of any size; itself if they are."""
        if all(arena.capacity is None for arena in self.arenas):
            return self
        return replace(self, arenas=tuple(replace(arena, capacity=None) for arena in self.arenas))

    @property
    def has_permissions(self) -> bool:
        """Whether any two live buffers may share bytes; then live bytes are no lower bound."""
        return bool(self.may_coincide or self.placements)


def end_of(buffers: Iterable[Buffer], offsets: Iterable[int]) -> int:
    """Where the highest of some buffers ends, in bytes from the arena's start; 0 if there is none."""
    return max((offset + buffer.size for buffer, offset in zip(buffers, offsets, strict=True)), default=0)


def align_up(value: int, alignment: int) -> int:
    """The least multiple of ``alignment`` that is at least ``value``."""
    return -(-value // alignment) * alignment


def merge_intervals(intervals: Iterable[tuple[int, int]]) -> Lifetime:
    """Union of half-open intervals: sorted, disjoint, and those that touch joined."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(intervals):
        if merged and start <= merged[-1][1]:
            if stop > merged[-1][1]:
                merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return tuple(merged)


def _check(problem: Problem) -> None:
    """Refuse values out of range, buffers that contradict each other, and regions that do not nest."""
    _check_arenas(problem.arenas)
    _check_buffers(problem.buffers)
    _check_total(problem)
    _check_permissions(problem)
    _check_regions(problem.regions)


def _check_arenas(arenas: Sequence[Arena]) -> None:
    for arena in arenas:
        for what, value in (
            ("id", arena.id),
            ("capacity", arena.capacity),
            ("reserved prefix", arena.reserved),
        ):
            if value is not None and not _is_count(value):
                raise InputError(
                    f"arena {arena.id!r}: {what} {value!r} is not a whole number from 0 to 2^63 - 1"
                )
        if arena.capacity is not None and arena.reserved > arena.capacity:
            raise InputError(
                f"arena {arena.id}: {arena.reserved} bytes are reserved but its capacity is {arena.capacity}"
            )


def _check_buffers(buffers: Iterable[Buffer]) -> None:
    seen: set[str] = set()
    for buffer in buffers:
        if buffer.id in seen:
            raise InputError(f"buffer {buffer.id!r} occurs twice: ids must be unique")
        seen.add(buffer.id)
        if not _is_count(buffer.size):
            raise InputError(
                f"buffer {buffer.id!r}: size {buffer.size!r} is not a whole number from 0 to 2^63 - 1"
            )
        if not _is_count(buffer.alignment) or buffer.alignment == 0:
            raise InputError(
                f"buffer {buffer.id!r}: alignment {buffer.alignment!r} is not a whole number above 0"
            )
        if not _is_count(buffer.arena):
            raise InputError(f"buffer {buffer.id!r}: arena {buffer.arena!r} is not a memory id")
        for what, count in (("reads", buffer.reads), ("writes", buffer.writes)):
            if count is not None and not _is_count(count):
                raise InputError(
                    f"buffer {buffer.id!r}: {what} {count!r} is not a whole number from 0 to 2^63 - 1"
                )
        _check_lifetime(buffer)
        if buffer.offset is not None:
            _check_pin(buffer)


def _check_lifetime(buffer: Buffer) -> None:
    if not buffer.lifetime:
        raise InputError(f"buffer {buffer.id!r} is never alive: leave it out, or give it a lifetime")
    last = None
    for start, stop in buffer.lifetime:
        if not (_is_time(start) and _is_time(stop)):
            raise InputError(
                f"buffer {buffer.id!r}: lifetime [{start!r}, {stop!r}) is not in whole 64-bit steps"
            )
        if start >= stop:
            raise InputError(f"buffer {buffer.id!r}: lifetime [{start}, {stop}) is empty or inverted")
        if last is not None and start <= last:
            raise InputError(
                f"buffer {buffer.id!r}: lifetime intervals must be sorted, disjoint and not touch"
            )
        last = stop


def _check_pin(buffer: Buffer) -> None:
    offset = buffer.offset
    if not _is_count(offset):
        raise InputError(f"buffer {buffer.id!r}: offset {offset!r} is not a whole number from 0 to 2^63 - 1")
    assert offset is not None
    if offset % buffer.alignment:
        raise InputError(
            f"buffer {buffer.id!r}: pinned at {offset}, not a multiple of its alignment {buffer.alignment}"
        )
    if offset + buffer.size >= LIMIT:
        raise InputError(f"buffer {buffer.id!r}: pinned at {offset}, so it would end beyond 2^63 - 1")


def _check_total(problem: Problem) -> None:
    """Refuse what could overflow: stacked one above the other, all buffers must end below 2^63."""
    total: dict[int, int] = defaultdict(int)
    for buffer in problem.buffers:
        total[buffer.arena] += buffer.size + buffer.alignment - 1
        if buffer.offset is not None:
            total[buffer.arena] += buffer.offset
    for arena in problem.arenas:
        if total[arena.id] + arena.reserved >= LIMIT:
            raise InputError(f"arena {arena.id}: its buffers add up to 2^63 bytes or more: check the sizes")


def _check_permissions(problem: Problem) -> None:
    buffers, index = problem.buffers, problem.index
    for pair in problem.may_coincide:
        a, b = (_known(problem, index, id, "a pair that may coincide") for id in pair)
        if a.id == b.id:
            raise InputError(f"buffer {a.id!r} cannot coincide with itself")
        if a.size != b.size or a.arena != b.arena:
            raise InputError(f"buffers {a.id!r} and {b.id!r} may coincide only with equal sizes in one arena")
    outer_of: dict[str, str] = {}
    for placement in problem.placements:
        inner = _known(problem, index, placement.inner, "a placement")
        outer = _known(problem, index, placement.outer, "a placement")
        if inner.arena != outer.arena or not _is_count(placement.distance):
            raise InputError(
                f"buffer {inner.id!r} cannot be placed inside {outer.id!r}: one arena, distance >= 0"
            )
        if placement.distance + inner.size > outer.size:
            raise InputError(f"buffer {inner.id!r} does not fit inside {outer.id!r} at {placement.distance}")
        if inner.id in outer_of:
            raise InputError(f"buffer {inner.id!r} is placed inside two buffers: leave one placement")
        outer_of[inner.id] = outer.id
    for start in outer_of:
        seen, at = {start}, start
        while at in outer_of:
            at = outer_of[at]
            if at in seen:
                raise InputError(f"buffer {buffers[index[at]].id!r} is placed inside itself: break the cycle")
            seen.add(at)


def _known(problem: Problem, index: dict[str, int], id: str, where: str) -> Buffer:
    if id not in index:
        raise InputError(f"{where} names buffer {id!r}, which does not exist")
    return problem.buffers[index[id]]


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < LIMIT


def _is_time(value: object) -> bool:
    return type(value) is int and -LIMIT <= value < LIMIT


def _check_regions(regions: Sequence[RegionSpan]) -> None:
    """A tree on one clock: parents first, every call of a region inside a call of its parent."""
    spans: dict[str, tuple[tuple[int, int], ...]] = {}
    for region in regions:
        if region.name in spans:
            raise InputError(f"region {region.name!r} occurs twice: names must be unique")
        if region.parent is not None and region.parent not in spans:
            raise InputError(f"region {region.name!r}: its parent {region.parent!r} is not listed before it")
        if not region.span:
            raise InputError(f"region {region.name!r} never runs: leave it out, or give it a span")
        last = None
        for start, stop in region.span:
            if (
                not (_is_time(start) and _is_time(stop))
                or start >= stop
                or (last is not None and start < last)
            ):
                raise InputError(f"region {region.name!r}: its span must be sorted, disjoint, not empty")
            last = stop
        spans[region.name] = region.span
    _check_nesting(regions)


def _check_nesting(regions: Sequence[RegionSpan]) -> None:
    parent = {region.name: region.parent for region in regions}
    calls = sorted(
        ((start, stop, region.name) for region in regions for start, stop in region.span),
        key=lambda call: (call[0], -call[1]),
    )
    running: list[tuple[int, int, str]] = []  # outermost first
    for start, stop, name in calls:
        while running and running[-1][1] <= start:
            running.pop()
        if running and (stop > running[-1][1] or (start, stop) == running[-1][:2]):
            raise InputError(
                f"regions {running[-1][2]!r} and {name!r} run at once, and neither inside the other"
            )
        owner = parent[name]
        if owner is not None and all(other != owner for _, _, other in running):
            raise InputError(
                f"region {name!r} runs during [{start}, {stop}), when its parent {owner!r} does not"
            )
        running.append((start, stop, name))
