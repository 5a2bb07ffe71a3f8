"""Memory maps in TOML: the banks of a board, fastest first, and what must lie where.

A ``[[bank]]`` has ``name``, ``size``, ``mem_id``, ``read_cost`` and ``write_cost``, and may have
``alignment`` and ``reserved``; amounts of bytes are numbers, or text such as ``"96KiB"``. ``[place]`` has
pins: a kind, a pattern of names, or both (``"scratch:*conv*"``), and the name of a bank.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError
from lowtide.base.files import read_text, show_path
from lowtide.base.units import parse_size
from lowtide.formats.naming import reading
from lowtide.ir.memory_map import Bank, MemoryMap, Pin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lowtide.base.files import StrPath

_REQUIRED = ("name", "size", "mem_id", "read_cost", "write_cost")
_OPTIONAL = ("alignment", "reserved")
_SIZES = ("size", "alignment", "reserved")


def read_memory_map(path: StrPath) -> MemoryMap:
    """The memory map in a TOML file.

    Raises:
        InputError: it is none, or contradicts itself; the message names the file and the bank.
    """
    return memory_map_from_toml(read_text(path), show_path(path))


def memory_map_from_toml(text: str, name: str = "<toml>") -> MemoryMap:
    """The memory map in TOML text; ``name`` stands for it in messages. Raises as read_memory_map does."""
    with reading(name):
        return _map(_parse(text))


def _parse(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        found: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {str(error).splitlines()[0]}") from None
    return found


def _map(document: dict[str, Any]) -> MemoryMap:
    _refuse_unknown(document, ("bank", "place"), "")
    tables = document.get("bank", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError("bank: is not a list of tables: write each bank below a line [[bank]]")
    place = document.get("place", {})
    if not isinstance(place, dict):
        raise InputError("place: is not a table: write pins below a line [place]")
    for what, bank in place.items():
        if not isinstance(bank, str):
            raise InputError(f"place.{what}: {bank!r} is not the name of a bank")
    banks = tuple(_bank(table, f"bank {i + 1}") for i, table in enumerate(tables))
    return MemoryMap(banks, tuple(Pin(what, bank) for what, bank in place.items()))


def _bank(table: dict[str, Any], where: str) -> Bank:
    if isinstance(table.get("name"), str):
        where = f"bank {table['name']!r}"
    _refuse_unknown(table, (*_REQUIRED, *_OPTIONAL), f"{where}: ")
    missing = [key for key in _REQUIRED if key not in table]
    if missing:
        raise InputError(f"{where}: {missing[0]} is missing")
    given = dict(table)
    for key in _SIZES:
        if isinstance(given.get(key), str):
            try:
                given[key] = parse_size(given[key])
            except InputError as error:
                raise InputError(f"{where}: {key}: {error}") from None
    return Bank(**given)


def _refuse_unknown(table: dict[str, Any], known: Iterable[str], where: str) -> None:
    for key in table:
        if key not in known:
            close = get_close_matches(key, list(known), 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            raise InputError(f"{where}unknown key {key!r}: {hint}")
