"""JSON values that nobody can change: mappings and tuples all the way down."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from lowtide.base.errors import InputError


class FrozenMapping(Mapping[str, Any]):
    """A mapping that cannot be changed, equal to every mapping of the same; it can be pickled and copied."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)


def freeze(value: Any, where: str) -> Any:
    """A JSON value as mappings and tuples that cannot be changed.

    Args:
        value: of dictionaries, lists, strings, numbers, booleans and None.
        where: what messages call it.

    Raises:
        InputError: it holds something else, or a number that JSON has not.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"{where}: the key {key!r} is not a string")
        return FrozenMapping({key: freeze(one, f"{where}.{key}") for key, one in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(freeze(one, f"{where}[{i}]") for i, one in enumerate(value))
    raise InputError(f"{where}: {value!r} is not a JSON value")


def thaw(value: Any) -> Any:
    """The same as dictionaries and lists, for ``json.dumps``."""
    if isinstance(value, Mapping):
        return {key: thaw(one) for key, one in value.items()}
    return list(map(thaw, value)) if isinstance(value, tuple) else value
