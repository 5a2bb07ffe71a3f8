"""Checked access to JSON values: every value has the type that is due, or a message says where it has not."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from lowtide.base.constants import LIMIT
from lowtide.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_LONGEST = 40
"""Characters of a bad value that a message quotes."""

_NAMES = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}


def parse(text: str) -> Any:
    """The value of JSON text, which must keep to the standard and name no key twice.

    Raises:
        InputError: it is not such JSON; the message says where.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        what = "it ends too early" if not text[error.pos :].strip() else error.msg
        raise InputError(f"line {error.lineno} column {error.colno}: not JSON: {what}") from None
    except RecursionError:
        raise InputError("it is nested too deeply: no such file has more than a few levels") from None
    except ValueError as error:  # Python's limit on the digits of an integer
        raise InputError(f"a number is too long: {str(error).partition(':')[0].lower()}") from None


class Fields:
    """A JSON object whose fields are read one by one; ``where`` leads to it, as ``buffers[3]``.

    Raises:
        InputError: it is no object, or has a field that is not in ``known``.
    """

    def __init__(self, value: object, where: str, known: frozenset[str]) -> None:
        if not isinstance(value, dict):
            refuse(where, "an object", value)
        self._values: dict[str, Any] = value
        self._where = where
        unknown = value.keys() - known
        if unknown:
            name = min(unknown)
            raise InputError(f"{self.path(_show(name))}: unknown field: known are {', '.join(sorted(known))}")

    def path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def required(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            raise InputError(f"{self.path(key)}: is missing") from None

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number of 64 bits; an absent field is an error unless there is a default."""
        value = self.required(key) if default is None else self._values.get(key, default)
        if type(value) is int and -LIMIT <= value < LIMIT:
            return value
        return as_integer(value, self.path(key))

    def optional_integer(self, key: str) -> int | None:
        value = self._values.get(key)
        return None if value is None else as_integer(value, self.path(key))

    def string(self, key: str, default: str | None = None) -> str:
        value = self.required(key) if default is None else self._values.get(key, default)
        if type(value) is str and value.isascii():
            return value
        return as_string(value, self.path(key))

    def optional_string(self, key: str) -> str | None:
        value = self._values.get(key)
        return None if value is None else as_string(value, self.path(key))

    def boolean(self, key: str) -> bool:
        value = self.required(key)
        if not isinstance(value, bool):
            refuse(self.path(key), "true or false", value)
        return value

    def seconds(self, key: str) -> float:
        """A time: a finite number, not negative."""
        return self.number(key, "a number of seconds")

    def number(self, key: str, due: str = "a number from 0 on") -> float:
        """A finite number, not negative."""
        value = self.required(key)
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            refuse(self.path(key), due, value)
        return float(as_integer(value, self.path(key))) if type(value) is int else float(value)

    def items(self, key: str, *, optional: bool = True) -> list[tuple[Any, str]]:
        """The entries of a list, each with the way to it; an absent optional list is empty."""
        if optional and key not in self._values:
            return []
        return as_items(self.required(key), self.path(key))


def as_items(value: object, where: str) -> list[tuple[Any, str]]:
    """The entries of a list, each with the way to it."""
    if not isinstance(value, list):
        refuse(where, "a list", value)
    return [(entry, f"{where}[{i}]") for i, entry in enumerate(value)]


def as_integer(value: object, where: str) -> int:
    """A whole number of 64 bits. ``1.0`` and ``true`` are none."""
    if type(value) is not int:
        refuse(where, "a whole number", value)
    if not -LIMIT <= value < LIMIT:
        raise InputError(f"{where}: {_show(value)} is beyond 64 bits")
    return value


def as_string(value: object, where: str) -> str:
    """A string that can be written as UTF-8 again."""
    if not isinstance(value, str):
        refuse(where, "a string", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(f"{where}: {_show(value)} has half of a surrogate pair: remove it") from None
    return value


def as_pair(value: object, where: str, read: Callable[[object, str], Any]) -> tuple[Any, Any]:
    """A list of exactly two values."""
    if not isinstance(value, list) or len(value) != 2:
        refuse(where, "a pair", value)
    return read(value[0], f"{where}[0]"), read(value[1], f"{where}[1]")


def refuse(where: str, due: str, value: object) -> NoReturn:
    """Say that a value is not what is due at this place."""
    place = f"{where}: " if where else ""
    raise InputError(f"{place}{_show(value)} is not {due}")


def _show(value: object) -> str:
    """A value on one short line; what is long or nested only by its kind."""
    if isinstance(value, (dict, list, bool, type(None))):
        return _NAMES[type(value)] if not isinstance(value, bool) else str(value).lower()
    if isinstance(value, int) and value.bit_length() > 128:  # str() of it may be slow, or refused
        return "a number of hundreds of bits"
    text = ascii(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InputError(f"the field {_show(key)} occurs twice in one object: leave one")
            seen.add(key)
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"{name} is not JSON: write a finite number, or null")
