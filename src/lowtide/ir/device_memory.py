"""All the memory that a method takes on a device, pool by pool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from lowtide.base.errors import InputError

DEVICES = ("cortex-m", "host")
"""Targets by name: 32 bits of Arm, and 64-bit Linux."""

Pool = Literal["arena", "caller", "method", "temporary", "heap", "file"]
"""arena: planned buffers; caller: inputs and outputs outside the arenas; method: what loading allocates and
keeps; temporary: what is given back after each instruction; heap: what kernels and backends take from the C
library; file: what the program's file holds."""


def check_device(name: str) -> None:
    """Refuse a target that nobody knows.

    Raises:
        InputError: it is one.
    """
    if name not in DEVICES:
        raise InputError(f"device {name!r}: choose one of {', '.join(DEVICES)}")


_MORE = "more, while it starts"
"""What is needed besides for as long as the runtime starts."""


@dataclass(frozen=True, slots=True)
class RamPart:
    """One kind of memory.

    Args:
        pool: which it comes from.
        what: what it is.
        bytes: how much, padding for alignment included; None if nothing tells.
        count: how many there are of it.
        in_ram: whether it is in RAM; else it stays where the file is, in flash for instance.
        remark: what the figure means.
        method: the other method that is loaded as well and takes it; empty for the one that is reported.
    """

    pool: Pool
    what: str
    bytes: int | None
    count: int = 1
    in_ram: bool = True
    remark: str = ""
    method: str = ""


@dataclass(frozen=True, slots=True)
class Saving:
    """A change that takes less RAM.

    Args:
        change: what to do.
        wins: bytes of RAM.
        exact: whether it wins just that, or more besides.
    """

    change: str
    wins: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """What one method takes on a device.

    Args:
        device: name of the target.
        runtime: what allocates there.
        parts: every kind of memory, pool by pool.
        savings: what would take less, most bytes first.
        notes: what the figures take for granted, for people.
        settings: what a firmware project calls its pools, and the bytes that each must have.
        least: bytes of RAM that the runtime needs while it starts, however small the arenas are.
        has_temporary_pool: whether temporary memory comes from a pool, and not from the heap.
    """

    device: str
    runtime: str
    parts: tuple[RamPart, ...]
    savings: tuple[Saving, ...] = ()
    notes: tuple[str, ...] = ()
    settings: tuple[tuple[str, int], ...] = ()
    least: int = 0
    has_temporary_pool: bool = True

    def with_arena(self, size: int) -> DeviceMemory:
        """The same if the method has one arena of so many bytes; what starting needs beyond is a part."""
        own = [part for part in self.parts if part.pool == "arena" and not part.method]
        arena = own[0] if own else RamPart("arena", "arena", 0)
        rest = [part for part in self.parts if part not in own and part.what != _MORE]
        fresh = replace(self, parts=(replace(arena, bytes=size), *rest))
        more = self.least - fresh.ram_bytes
        if more <= 0:
            return fresh
        part = RamPart("temporary", _MORE, more, remark="given back before the first run")
        return replace(fresh, parts=(fresh.parts[0], part, *rest))

    @property
    def working(self) -> tuple[RamPart, ...]:
        """What kernels and delegates take while they run, beside their arguments."""
        pools = ("temporary", "heap")
        return tuple(part for part in self.parts if part.pool in pools and part.what != _MORE)

    def pool_bytes(self, pool: Pool) -> int:
        """Bytes of RAM of one pool, as far as they are told."""
        return sum(part.bytes or 0 for part in self.parts if part.pool == pool and part.in_ram)

    @property
    def ram_bytes(self) -> int:
        """Bytes of RAM of all pools, as far as they are told."""
        return sum(part.bytes or 0 for part in self.parts if part.in_ram)

    @property
    def untold(self) -> tuple[str, ...]:
        """What is in RAM, but nobody knows how large it is."""
        return tuple(part.what for part in self.parts if part.in_ram and part.bytes is None)
