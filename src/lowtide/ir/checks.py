"""What cannot be right in a Problem is refused by name, whoever made it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lowtide.base.constants import LIMIT
from lowtide.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lowtide.ir.problem import Arena, Buffer, Problem, RegionSpan


def check_problem(problem: Problem) -> None:
    """Refuse values out of range, buffers that contradict each other, and regions that do not nest.

    Raises:
        InputError: the first fault found; the message names the buffer, arena or region.
    """
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
