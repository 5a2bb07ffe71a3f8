"""What is placed, and where: Buffer, Arena, Problem and Plan.

A Problem knows nothing of graphs: buffers with sizes and lifetimes, to be given offsets in arenas.
A Plan is a Problem with its offsets and what was proved about them. Both are values: frozen,
comparable, serialisable.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_ARENA, ROOT
from lowtide.base.errors import InputError, LowtideError
from lowtide.ir.checks import check_problem

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
        check_problem(self)

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


@dataclass(frozen=True, slots=True)
class ArenaUse:
    """What a plan makes of one arena, in bytes.

    Args:
        bytes: end of the highest buffer, or the reserved prefix if that is larger.
        live_peak_bytes: the most bytes alive at any time, reserved prefix included.
        lower_bound_bytes: no plan can be smaller than this.
    """

    id: int
    bytes: int
    live_peak_bytes: int
    lower_bound_bytes: int


@dataclass(frozen=True, slots=True)
class Progress:
    """One improvement on the way: seconds since the start, arena bytes and proved bound then."""

    seconds: float
    arena_bytes: int
    lower_bound_bytes: int


@dataclass(frozen=True, slots=True)
class Applied:
    """A step of which a plan makes more than lifetimes do.

    Args:
        step: qualified name.
        technique: ``in-place`` (the output lies exactly over an input that dies), ``elided-copy`` (what the
            step copies is where it belongs already), ``reordered`` (it runs at another time) or ``folded``
            (it is a constant).
        written, read: names of the storages that share bytes; empty where that is not the point.
    """

    step: str
    technique: str
    written: str = ""
    read: str = ""


@dataclass(frozen=True)
class Plan:
    """A Problem with an offset for every buffer, and what was proved.

    Args:
        problem: what was asked.
        offsets: bytes from the start of the buffer's arena, in the order of ``problem.buffers``.
        uses: one entry an arena, in the order of ``problem.arenas``.
        packer: name of the packer that found it.
        hierarchy: policy under which it was found.
        object_ids: shared object of each buffer within its arena, where the packer works with such.
        seconds: time that planning took; not compared.
        history: how the plan improved; not compared.
        applied: where the plan uses more than lifetimes, for reports; not compared.
        interrupted: whether Ctrl-C cut planning short, so that more time might find more; not compared.
    """

    problem: Problem
    offsets: tuple[int, ...]
    uses: tuple[ArenaUse, ...]
    packer: str
    hierarchy: str = "joint"
    object_ids: tuple[int | None, ...] | None = None
    seconds: float = field(default=0.0, compare=False)
    history: tuple[Progress, ...] = field(default=(), compare=False)
    interrupted: bool = field(default=False, compare=False)
    applied: tuple[Applied, ...] = field(default=(), compare=False)

    @property
    def arena_bytes(self) -> int:
        """Bytes of all arenas together."""
        return sum(use.bytes for use in self.uses)

    @property
    def arenas(self) -> dict[int, int]:
        """Bytes of each arena by memory id."""
        return {use.id: use.bytes for use in self.uses}

    @property
    def live_peak_bytes(self) -> int:
        """The most bytes alive at any time, summed over arenas."""
        return sum(use.live_peak_bytes for use in self.uses)

    @property
    def lower_bound_bytes(self) -> int:
        """No plan of this problem can be smaller; summed over arenas."""
        return sum(use.lower_bound_bytes for use in self.uses)

    @property
    def is_optimal(self) -> bool:
        """Whether every arena is proved to be as small as it can be."""
        return all(use.bytes == use.lower_bound_bytes for use in self.uses)

    @cached_property
    def names(self) -> dict[str, int]:
        """Position of the buffer that goes by each id, name, or member's name."""
        names: dict[str, int] = {}
        for i, buffer in enumerate(self.problem.buffers):
            for name in (*buffer.members, buffer.name, buffer.id):
                if name:
                    names.setdefault(name, i)
        return names

    def position_of(self, name: str) -> int:
        """Position in ``problem.buffers`` of the buffer that holds ``name``.

        Raises:
            LowtideError: the plan has no such buffer.
        """
        try:
            return self.names[name]
        except KeyError:
            raise LowtideError(f"the plan has no buffer {name!r}: plan.problem.buffers lists them") from None

    def offset_of(self, name: str) -> int:
        """Offset in bytes of the buffer called ``name``: an id, a name, or a storage that shares it."""
        return self.offsets[self.position_of(name)]

    def verify(self) -> int:
        """Check lifetimes against offsets; return how many pairs of buffers reuse each other's bytes.

        Raises:
            VerificationError: the plan is wrong.
        """
        from lowtide.verifier.checks import verify

        return verify(self).reuse_pairs

    def to_json(self) -> str:
        """The plan as JSON text; see ``lowtide.formats.json.reading.plan_from_json`` for the way back."""
        from lowtide.formats.json.writing import plan_to_json

        return plan_to_json(self)


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
