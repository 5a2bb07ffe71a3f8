"""Sizes as people write them: ``256KiB``, ``0x40000``, ``1.2 MiB``."""

from __future__ import annotations

import re
from fractions import Fraction

from lowtide.base.constants import LIMIT
from lowtide.base.errors import InputError

_BINARY = ("", "k", "m", "g", "t", "p")
_UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}{suffix}": 1024**i for i, letter in enumerate(_BINARY) if letter for suffix in ("", "ib")},
    **{f"{letter}b": 1000**i for i, letter in enumerate(_BINARY) if letter},
}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([a-z]*)", re.IGNORECASE | re.ASCII)
_HEX = re.compile(r"0x[0-9a-f]+", re.IGNORECASE | re.ASCII)
_LONGEST = 40
"""Characters; anything longer is no size, and a message must stay readable."""


def parse_size(text: str) -> int:
    """Bytes of a size such as ``1048576``, ``256KiB``, ``1.5 MiB``, ``64k`` or ``0x40000``.

    ``K``, ``M``, ``G`` and ``T`` alone count in 1024s, as in a linker script, and so do ``KiB``,
    ``MiB``, …; ``KB``, ``MB``, … count in 1000s. Case does not matter.

    Raises:
        InputError: it is no size, not whole bytes, or 2^63 bytes or more.
    """
    stripped = text.strip()
    shown = repr(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")
    if len(stripped) > _LONGEST:
        raise InputError(f"{shown} is not a size: write bytes, or a number with a unit such as 256KiB")
    if _HEX.fullmatch(stripped):
        size = Fraction(int(stripped, 16))
    else:
        match = _SIZE.fullmatch(stripped)
        if match is None:
            raise InputError(f"{shown} is not a size: write bytes, or a number with a unit such as 256KiB")
        number, unit = match.groups()
        if unit.lower() not in _UNITS:
            raise InputError(f"{shown}: unknown unit {unit!r}: use B, KiB, MiB, GiB or TiB")
        size = Fraction(number) * _UNITS[unit.lower()]
    if size.denominator != 1:
        raise InputError(f"{shown} is not a whole number of bytes")
    if size >= LIMIT:
        raise InputError(f"{shown} is 2^63 bytes or more: no arena is that large")
    return int(size)


def format_size(size: int) -> str:
    """Bytes for a person to read, to one decimal in 1024s: ``512 B``, ``1.2 MiB``."""
    magnitude = abs(size)
    if magnitude < 1024:
        return f"{size} B"
    for i, letter in enumerate(_BINARY[1:], start=1):
        # Whole tenths of the unit, rounded half up: floats would be off for sizes near 2^63.
        tenths = (magnitude * 20 // 1024**i + 1) // 2
        if tenths < 10240 or letter == _BINARY[-1]:
            break
    return f"{'-' if size < 0 else ''}{tenths // 10}.{tenths % 10} {letter.upper()}iB"


def both(size: int) -> str:
    """A size for machines and people: ``1,048,576 (1.0 MiB)``."""
    return f"{size:,}" if abs(size) < 1024 else f"{size:,} ({format_size(size)})"


def amount(size: int) -> str:
    """A size in a sentence: ``1,048,576 bytes (1.0 MiB)``."""
    unit = "byte" if abs(size) == 1 else "bytes"
    return f"{size:,} {unit}" if abs(size) < 1024 else f"{size:,} {unit} ({format_size(size)})"


def many(count: int, what: str) -> str:
    """``1 buffer``, ``1,234 buffers``; of copy, ``copies``."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"
