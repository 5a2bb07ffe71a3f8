"""What a memory map says of single buffers: its pins, and memory ids that buffers have already."""

from __future__ import annotations

import glob
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_ARENA
from lowtide.base.errors import InputError
from lowtide.base.units import amount
from lowtide.ir.memory_map import Pin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.memory_map import Bank, MemoryMap
    from lowtide.ir.problem import Buffer, Problem


def pinned_banks(problem: Problem, memory: MemoryMap) -> dict[int, Bank]:
    """The bank of each buffer that must lie in one, by position.

    What the map places goes before the memory id that a buffer has already: one that is not the default and
    that of a bank, or any if its offset is fixed.

    Raises:
        InputError: two pins contradict each other, a pattern matches nothing, or a buffer is too large for
            its bank.
    """
    banks = placed_banks(problem, memory)
    for i, buffer in enumerate(problem.buffers):
        bank = memory.by_id.get(buffer.arena)
        if buffer.offset is not None and not (is_outside(buffer, memory) and i not in banks):
            if banks.setdefault(i, bank) != bank or bank is None:  # type: ignore[arg-type]
                raise InputError(
                    f"buffer {buffer.label!r} has a fixed offset in arena {buffer.arena}: "
                    "it cannot go to a bank with another memory id"
                )
        elif bank is not None and buffer.arena != DEFAULT_ARENA:
            banks.setdefault(i, bank)
    for i, bank in banks.items():
        buffer = problem.buffers[i]
        if buffer.size > bank.room:
            raise InputError(
                f"buffer {buffer.label!r} is placed in bank {bank.name!r}, which has room for "
                f"{amount(bank.room)}: it needs {amount(buffer.size)}"
            )
    return banks


def placed_banks(problem: Problem, memory: MemoryMap) -> dict[int, Bank]:
    """The bank of each buffer that the map itself places, by position; a pattern of names goes before a kind.

    Raises:
        InputError: two pins contradict each other, or a pattern matches nothing.
    """
    found: dict[int, Pin] = {}
    for pin in memory.pins:
        if pin.reader is not None:
            raise InputError(
                f"the place of {pin.what!r}: which step reads what is not known here: place buffers by name"
            )
    for pin in sorted(memory.pins, key=lambda pin: pin.pattern != "*"):
        matches = [i for i, buffer in enumerate(problem.buffers) if _matches(pin, buffer)]
        if not matches and pin.pattern != "*":
            raise InputError(f"the place of {pin.what!r}: no buffer has such a name{_hint(pin, problem)}")
        for i in matches:
            other = found.get(i)
            if (
                other is not None
                and other.bank != pin.bank
                and (other.pattern == "*") == (pin.pattern == "*")
            ):
                raise InputError(
                    f"buffer {problem.buffers[i].label!r} is placed in {other.bank!r} by {other.what!r} "
                    f"and in {pin.bank!r} by {pin.what!r}: leave one"
                )
            found[i] = pin
    return {i: memory.bank(pin.bank) for i, pin in found.items()}


def with_readers(memory: MemoryMap, flow: FlowGraph) -> MemoryMap:
    """The map with buffers by name in place of what steps read (``read-by:``).

    Raises:
        InputError: no step of such a name or operator reads anything.
    """
    pins: dict[Pin, None] = {}
    for pin in memory.pins:
        if pin.reader is None:
            pins[pin] = None
            continue
        read = _read_by(flow, pin.reader)
        if not read:
            raise InputError(f"the place of {pin.what!r}: no step of such a name or operator reads a buffer")
        pins.update((Pin(glob.escape(name), pin.bank), None) for name in read)
    return replace(memory, pins=tuple(pins))


def matching_pins(problem: Problem, memory: MemoryMap, flow: FlowGraph) -> frozenset[Pin]:
    """The pins that say something of a problem, or of what its steps read."""
    return frozenset(
        pin
        for pin in memory.pins
        if (
            any(_matches(pin, buffer) for buffer in problem.buffers)
            if pin.reader is None
            else _read_by(flow, pin.reader)
        )
    )


def _read_by(flow: FlowGraph, pattern: str) -> list[str]:
    """Names of the planned storages that steps of such a name or operator read, in order."""
    storages = flow.program.storages
    read = {
        storage
        for tick, point in enumerate(flow.points)
        if point.kind == "step" and _runs(flow, tick, pattern)
        for storage in point.all_reads
    }
    return [storages[storage].name for storage in sorted(read) if storages[storage].planned]


def _runs(flow: FlowGraph, tick: int, pattern: str) -> bool:
    """Whether a point belongs to a step whose operator or name a pattern matches."""
    point = flow.points[tick]
    steps = flow.program.regions[flow.activations[point.activation].region].steps
    if not 0 <= point.step < len(steps):
        return False
    step = steps[point.step]
    return any(fnmatchcase(name, pattern) for name in (step.operator or "", step.name, flow.describe(tick)))


def is_outside(buffer: Buffer, memory: MemoryMap) -> bool:
    """Whether a buffer has a memory id that is no bank's: it is laid out there, and counts for nothing."""
    return buffer.arena != DEFAULT_ARENA and buffer.arena not in memory.by_id


def _matches(pin: Pin, buffer: Buffer) -> bool:
    if pin.kind is not None and buffer.kind != pin.kind:
        return False
    return pin.pattern == "*" or any(fnmatchcase(name, pin.pattern) for name in _names(buffer))


def _names(buffer: Buffer) -> Iterable[str]:
    return (buffer.id, buffer.label, *buffer.members)


def _hint(pin: Pin, problem: Problem) -> str:
    names = [name for buffer in problem.buffers for name in _names(buffer)]
    close = get_close_matches(pin.pattern, names[:10_000], 1)
    return f": did you mean {close[0]!r}?" if close else ""
