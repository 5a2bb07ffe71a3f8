"""What a memory map says of single buffers: its pins, and memory ids that buffers have already."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_ARENA
from lowtide.base.errors import InputError
from lowtide.base.units import amount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lowtide.ir.memory_map import Bank, MemoryMap, Pin
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
        if buffer.offset is not None:
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
