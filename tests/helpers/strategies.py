"""Hypothesis strategies that the tests share: random small problems, and correct plans of them.

Every problem drawn can be solved: pinned buffers do not contradict each other, capacities leave
room, and whatever is free or placed inside another buffer can go above the pins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from lowtide.base.constants import ROOT
from lowtide.ir.plan import ArenaUse, Plan, Progress
from lowtide.ir.problem import Arena, Buffer, Free, Lifetime, Placement, Problem, RegionSpan, align_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn

SIZES = (0, 1, 3, 4, 8, 16, 24, 100)
"""Few, so that equal sizes are common; one is nothing, one is odd."""

ALIGNMENTS = (1, 1, 2, 4, 16)
KINDS = ("temporary", "input", "output", "state", "result", "carry", "scratch")

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
"""Anything that a file may carry, line ends, quotes and commas included."""


@st.composite
def lifetimes(draw: DrawFn, *, horizon: int = 20, holes: bool = True, negative: bool = False) -> Lifetime:
    """One to three half-open intervals below ``horizon``; just one without ``holes``."""
    intervals = draw(st.integers(1, 3)) if holes else 1
    low = -horizon if negative else 0
    times = draw(
        st.lists(st.integers(low, horizon), min_size=2 * intervals, max_size=2 * intervals, unique=True)
    )
    times.sort()
    return tuple(zip(times[::2], times[1::2], strict=True))


@st.composite
def problems(
    draw: DrawFn,
    *,
    min_buffers: int = 0,
    max_buffers: int = 7,
    horizon: int = 20,
    holes: bool = True,
    alignments: Sequence[int] = ALIGNMENTS,
    pins: bool = True,
    arenas: bool = True,
    permissions: bool = True,
    descriptions: bool = False,
    negative_times: bool = False,
) -> Problem:
    """A random problem that can be solved.

    Args:
        holes: lifetimes of several intervals.
        pins: some buffers have a fixed offset.
        arenas: up to three arenas, some with a capacity or a reserved prefix; else just one, unlimited.
        permissions: pairs that may coincide, and buffers placed inside others.
        descriptions: odd ids, names, kinds, shapes, regions and frees, which no packer looks at.
    """
    count = draw(st.integers(min_buffers, max_buffers))
    arena_ids = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True)) if arenas else [1]
    reserved = {id: draw(st.sampled_from((0, 0, 10, 64))) if arenas else 0 for id in arena_ids}
    ids = draw(st.lists(names, min_size=count, max_size=count, unique=True)) if descriptions else None
    buffers = [
        Buffer(
            id=ids[i] if ids else f"b{i}",
            size=draw(st.sampled_from(SIZES)),
            lifetime=draw(lifetimes(horizon=horizon, holes=holes, negative=negative_times)),
            alignment=draw(st.sampled_from(alignments)),
            arena=draw(st.sampled_from(arena_ids)),
        )
        for i in range(count)
    ]
    coincide: list[tuple[str, str]] = []
    placements: list[Placement] = []
    if permissions:
        coincide = draw(_coinciding(buffers))
        placements = draw(_placements(buffers))
    if pins:
        grouped = {id for p in placements for id in (p.inner, p.outer)}
        buffers = draw(_pinned(buffers, reserved, grouped))
    regions: tuple[RegionSpan, ...] = ()
    frees: tuple[Free, ...] = ()
    if descriptions:
        regions = draw(_regions(horizon))
        frees = tuple(draw(st.lists(st.builds(Free, names, names, names), max_size=2)))
        buffers = [draw(_described(buffer, [ROOT, *(r.name for r in regions)])) for buffer in buffers]
    limits = [Arena(id, draw(_capacity(buffers, id, reserved[id])), reserved[id]) for id in arena_ids]
    return Problem(
        buffers=tuple(buffers),
        arenas=tuple(limits) if arenas else (),
        may_coincide=tuple(coincide),
        placements=tuple(placements),
        regions=regions,
        frees=frees,
    )


@st.composite
def plans(draw: DrawFn, /, **options: Any) -> Plan:
    """A correct, wasteful plan of a random problem: pins where they are, everything else stacked above.

    Takes the options of :func:`problems`.
    """
    problem = draw(problems(**options))
    ends = {arena.id: arena.reserved for arena in problem.arenas}
    for buffer in problem.buffers:
        if buffer.offset is not None:
            ends[buffer.arena] = max(ends[buffer.arena], buffer.offset + buffer.size)
    placed: dict[str, int] = {}
    inner = {placement.inner: placement for placement in problem.placements}
    for buffer in problem.buffers:
        if buffer.offset is not None:
            placed[buffer.id] = buffer.offset
        elif buffer.id not in inner:
            placed[buffer.id] = align_up(ends[buffer.arena], buffer.alignment)
            ends[buffer.arena] = placed[buffer.id] + buffer.size
    for placement in problem.placements:
        placed[placement.inner] = placed[placement.outer] + placement.distance
    offsets = tuple(placed[buffer.id] for buffer in problem.buffers)
    uses = tuple(draw(_use(problem, arena, offsets)) for arena in problem.arenas)
    with_objects = draw(st.booleans())
    objects = tuple(draw(st.none() | st.integers(0, 3)) for _ in offsets) if with_objects else ()
    seconds = st.floats(0, 1e6, allow_nan=False)
    counts = st.integers(0, 2**40)
    history = draw(st.lists(st.builds(Progress, seconds, counts, counts), max_size=2))
    return Plan(
        problem=problem,
        offsets=offsets,
        uses=uses,
        packer=draw(st.sampled_from(("naive", "greedy", "auto"))),
        hierarchy=draw(st.sampled_from(("joint", "block", "stacked", "sum"))),
        object_ids=objects or None,
        seconds=draw(seconds),
        history=tuple(history),
    )


def overlap_in_time(a: Buffer, b: Buffer) -> bool:
    """Whether two buffers are ever alive together, the slow and obvious way."""
    return any(s < q and p < t for s, t in a.lifetime for p, q in b.lifetime)


def live_peak(buffers: Sequence[Buffer]) -> int:
    """The most bytes alive at any time, unaligned, the slow and obvious way."""
    starts = {start for buffer in buffers for start, _ in buffer.lifetime}
    return max(
        (sum(b.size for b in buffers if any(s <= at < t for s, t in b.lifetime)) for at in starts), default=0
    )


@st.composite
def _coinciding(draw: DrawFn, buffers: list[Buffer]) -> list[tuple[str, str]]:
    pairs = [
        (a.id, b.id)
        for i, a in enumerate(buffers)
        for b in buffers[i + 1 :]
        if a.size == b.size and a.arena == b.arena
    ]
    return draw(st.lists(st.sampled_from(pairs), max_size=2, unique=True)) if pairs else []


@st.composite
def _placements(draw: DrawFn, buffers: list[Buffer]) -> list[Placement]:
    """At most one: a buffer inside an earlier or later one whose alignment serves both."""
    fits = [
        (inner, outer)
        for inner in buffers
        for outer in buffers
        if inner is not outer
        and inner.arena == outer.arena
        and inner.size <= outer.size
        and outer.alignment % inner.alignment == 0
    ]
    if not fits or not draw(st.booleans()):
        return []
    inner, outer = draw(st.sampled_from(fits))
    room = (outer.size - inner.size) // inner.alignment
    return [Placement(inner.id, outer.id, draw(st.integers(0, room)) * inner.alignment)]


@st.composite
def _pinned(draw: DrawFn, buffers: list[Buffer], reserved: dict[int, int], free: set[str]) -> list[Buffer]:
    """Pin up to three buffers, each above those pinned before it that it overlaps in time."""
    pinned: list[Buffer] = []
    result: list[Buffer] = []
    for buffer in buffers:
        if len(pinned) < 3 and buffer.id not in free and draw(st.integers(0, 3)) == 0:
            below = [
                p.offset + p.size
                for p in pinned
                if p.offset is not None and p.arena == buffer.arena and overlap_in_time(p, buffer)
            ]
            floor = max([reserved[buffer.arena], *below]) + draw(st.sampled_from((0, 0, 5, 40)))
            buffer = replace(buffer, offset=align_up(floor, buffer.alignment))
            pinned.append(buffer)
        result.append(buffer)
    return result


@st.composite
def _capacity(draw: DrawFn, buffers: list[Buffer], arena: int, reserved: int) -> int | None:
    """Unlimited, or enough for all free buffers above the highest pin."""
    mine = [buffer for buffer in buffers if buffer.arena == arena]
    pins = max((b.offset + b.size for b in mine if b.offset is not None), default=0)
    room = max(pins, reserved) + sum(b.size + b.alignment for b in mine if b.offset is None)
    return draw(st.none() | st.integers(room, room + 100))


@st.composite
def _regions(draw: DrawFn, horizon: int) -> tuple[RegionSpan, ...]:
    children = draw(st.lists(names, max_size=2, unique=True).filter(lambda drawn: ROOT not in drawn))
    if not children and draw(st.booleans()):
        return ()
    # Calls of one region take turns with those of the other, so that no two overlap.
    ticks = sorted(draw(st.sets(st.integers(1, horizon + 8), min_size=4, max_size=8)))
    calls = list(zip(ticks[::2], ticks[1::2], strict=False))
    spans = [calls[turn :: len(children)] for turn in range(len(children))]
    root = RegionSpan(ROOT, "root", ((0, horizon + 9),))
    return (
        root,
        *(RegionSpan(name, "branch", tuple(span), ROOT) for name, span in zip(children, spans, strict=True)),
    )


@st.composite
def _described(draw: DrawFn, buffer: Buffer, regions: list[str]) -> Buffer:
    text = st.none() | names
    return replace(
        buffer,
        name=draw(st.just("") | names),
        kind=draw(st.sampled_from(KINDS)),
        region=draw(st.sampled_from(regions)),
        dtype=draw(text),
        shape=draw(st.none() | st.lists(st.integers(0, 9) | names, max_size=3).map(tuple)),
        operator=draw(text),
        source=draw(text),
        members=draw(st.lists(names, max_size=2).map(tuple)),
    )


@st.composite
def _use(draw: DrawFn, problem: Problem, arena: Arena, offsets: Sequence[int]) -> ArenaUse:
    mine = [(b, offset) for b, offset in zip(problem.buffers, offsets, strict=True) if b.arena == arena.id]
    size = max([arena.reserved, *(offset + buffer.size for buffer, offset in mine)])
    bound = draw(st.just(size) | st.integers(0, size))
    return ArenaUse(arena.id, size, arena.reserved + live_peak([buffer for buffer, _ in mine]), bound)
