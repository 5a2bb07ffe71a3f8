"""What memory a device has: banks with sizes and speeds, and which buffers must lie in which."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from lowtide.base.constants import LIMIT
from lowtide.base.errors import InputError

MOST_BANKS = 15
"""The kernel keeps the choice of a bank in four bits."""

KINDS = ("temporary", "input", "output", "state", "result", "carry", "scratch")
"""Kinds of buffers that a pin may name."""

COSTLIEST = 1_000_000
"""A byte costs no more, so that sums stay whole numbers of 64 bits."""

_READ_BY = "read-by:"
_DIGITS = 6
_COST_WITHOUT = 10
"""Times by which a bank costs more than the one before, where a map has no costs."""


@dataclass(frozen=True, slots=True)
class Bank:
    """A block of memory of one speed.

    Args:
        name: for people, and for pins.
        size: bytes.
        mem_id: memory id, from 1 on; the id of its arena in a plan.
        alignment: bytes; offsets of buffers in it are multiples of it, besides what a buffer itself asks for.
        read_cost, write_cost: of a byte, in any unit that all banks share, such as cycles.
        reserved: bytes at its bottom that no buffer may use.

    Raises:
        InputError: a value cannot be right.
    """

    name: str
    size: int
    mem_id: int
    alignment: int = 1
    read_cost: float = 1.0
    write_cost: float = 1.0
    reserved: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError("a bank has no name: give each a name of its own")
        for what, value, least in (
            ("size", self.size, 1),
            ("mem_id", self.mem_id, 1),
            ("alignment", self.alignment, 1),
            ("reserved", self.reserved, 0),
        ):
            if type(value) is not int or not least <= value < LIMIT:
                raise InputError(
                    f"bank {self.name!r}: {what} {value!r} is not a whole number from {least} on"
                )
        if self.size <= self.reserved:
            raise InputError(
                f"bank {self.name!r}: {self.reserved} bytes are reserved, and its size is {self.size}: "
                "nothing is left"
            )
        self.costs  # noqa: B018  it checks them

    @property
    def room(self) -> int:
        """Bytes that buffers may use."""
        return self.size - self.reserved

    @property
    def costs(self) -> tuple[Fraction, Fraction]:
        """Of reading and of writing a byte, exactly as they are written."""
        found = []
        for what, cost in (("read_cost", self.read_cost), ("write_cost", self.write_cost)):
            good = type(cost) in (int, float) and math.isfinite(cost) and 0 <= cost <= COSTLIEST
            if not good or 10**_DIGITS % Fraction(repr(cost)).denominator:
                raise InputError(
                    f"bank {self.name!r}: {what} {cost!r} is not a number from 0 to {COSTLIEST:,} "
                    f"with at most {_DIGITS} digits behind the point"
                )
            found.append(Fraction(repr(cost)))
        return found[0], found[1]


@dataclass(frozen=True, slots=True)
class Pin:
    """Buffers that must lie in one bank.

    Args:
        what: a kind (``state``), a pattern of names (``root/lstm*``), both (``scratch:root/conv*``), or
            ``read-by:`` and a pattern of operators or steps, for what these read (``read-by:*Backend``).
        bank: name of the bank.
    """

    what: str
    bank: str

    @property
    def kind(self) -> str | None:
        """The kind that it asks for, if any."""
        kind = self.what.partition(":")[0]
        return kind if kind in KINDS else None

    @property
    def reader(self) -> str | None:
        """The pattern of operators or steps that read what it asks for, if it is of that form."""
        return self.what[len(_READ_BY) :] if self.what.startswith(_READ_BY) else None

    @property
    def pattern(self) -> str:
        """The pattern of names; ``*`` where it names a kind only."""
        if self.kind is None:
            return self.what
        return self.what.partition(":")[2] or "*"


@dataclass(frozen=True)
class MemoryMap:
    """The banks of a device, fastest first, and pins.

    Args:
        banks: at least one.
        pins: what must lie where; a pattern of names goes before a kind.

    Raises:
        InputError: it contradicts itself.
    """

    banks: tuple[Bank, ...]
    pins: tuple[Pin, ...] = ()

    def __post_init__(self) -> None:
        if not self.banks:
            raise InputError("the memory map has no banks: give at least one")
        if len(self.banks) > MOST_BANKS:
            raise InputError(
                f"the memory map has {len(self.banks)} banks: at most {MOST_BANKS} can be planned"
            )
        for what in ("name", "mem_id"):
            seen = set()
            for bank in self.banks:
                value = getattr(bank, what)
                if value in seen:
                    raise InputError(f"two banks have the {what} {value!r}: give each its own")
                seen.add(value)
        for pin in self.pins:
            self.bank(pin.bank, f"the place of {pin.what!r}")

    def bank(self, name: str, where: str = "a pin") -> Bank:
        """The bank of this name.

        Raises:
            InputError: there is none.
        """
        for bank in self.banks:
            if bank.name == name:
                return bank
        names = [bank.name for bank in self.banks]
        close = get_close_matches(name, names, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
        raise InputError(f"{where}: there is no bank {name!r}: {hint}")

    @property
    def by_id(self) -> dict[int, Bank]:
        """The banks by memory id."""
        return {bank.mem_id: bank for bank in self.banks}

    def without(self, padding: int) -> MemoryMap:
        """The map without bytes at the end of every bank, which are another's.

        Raises:
            InputError: a bank has no more bytes than those.
        """
        if not padding:
            return self
        return replace(self, banks=tuple(replace(bank, size=bank.size - padding) for bank in self.banks))

    @classmethod
    def of(cls, value: Any) -> MemoryMap:
        """A map, or what is shaped like ExecuTorch's ``TargetMemoryMap``, as a map.

        The latter has ``banks`` with name, size, mem_id and alignment (None for that of the tensors), fastest
        first, and no costs: each bank is then taken to cost ten times as much as the one before.

        Raises:
            InputError: it is neither, or contradicts itself.
        """
        if isinstance(value, MemoryMap):
            return value
        banks = getattr(value, "banks", None)
        if banks is None:
            raise InputError(
                f"a {type(value).__name__} is no memory map: give a MemoryMap, such as "
                "lowtide.formats.memory_map.read_memory_map makes of a .toml file, or an object with banks"
            )
        found = []
        for turn, bank in enumerate(banks):
            missing = [what for what in ("name", "size", "mem_id") if not hasattr(bank, what)]
            if missing:
                raise InputError(f"bank {turn} of the {type(value).__name__} has no {missing[0]}")
            cost = float(min(_COST_WITHOUT**turn, COSTLIEST))
            alignment = getattr(bank, "alignment", None)
            found.append(
                Bank(
                    bank.name,
                    bank.size,
                    bank.mem_id,
                    1 if alignment is None else alignment,
                    getattr(bank, "read_cost", cost),
                    getattr(bank, "write_cost", cost),
                    getattr(bank, "reserved", 0),
                )
            )
        return cls(tuple(found))
