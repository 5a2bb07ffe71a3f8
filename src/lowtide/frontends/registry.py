"""The front ends by name, Lowtide's own and those of installed packages.

Lowtide's own are found by their place: every package beside this file that has a module ``front_end`` has an
object ``FRONT_END`` in it. A package of yours names such an object in an entry point of the group
``lowtide.front_ends``. So adding a front end edits no other file.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowtide.frontends.front_end import FormatOption, FrontEnd

ENTRY_POINTS = "lowtide.front_ends"

_registered: list[FrontEnd] = []


def register(front_end: FrontEnd) -> FrontEnd:
    """Make a front end available in this process; for trying one out, and for tests."""
    _registered.append(front_end)
    return front_end


def front_ends() -> tuple[FrontEnd, ...]:
    """All of them: Lowtide's own, those registered, those of installed packages."""
    return (*_built_in(), *_registered, *_installed())


def sniffed(head: bytes, suffix: str) -> FrontEnd:
    """The front end that is surest that a file is of its format; the first of several that are equally sure.

    Args:
        head: the first bytes of the file.
        suffix: of its name, in lower case, with the dot.
    """
    return max(front_ends(), key=lambda front_end: front_end.sniff(head, suffix))


def taker_of(value: object) -> FrontEnd | None:
    """The front end that loads such an object; None if nobody does."""
    return next((front_end for front_end in front_ends() if front_end.takes(value)), None)


def format_options() -> dict[str, FormatOption]:
    """The options that single formats have, by name."""
    return {option.name: option for front_end in front_ends() for option in front_end.options}


@cache
def _built_in() -> tuple[FrontEnd, ...]:
    package = importlib.import_module("lowtide.frontends")
    found = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg)
    modules = (f"lowtide.frontends.{name}.front_end" for name in found)
    return tuple(_front_end(module) for module in modules if importlib.util.find_spec(module) is not None)


def _front_end(module: str) -> Any:
    return importlib.import_module(module).FRONT_END


@cache
def _installed() -> tuple[FrontEnd, ...]:
    return tuple(_load_installed())


def _load_installed() -> Iterator[Any]:
    import importlib.metadata

    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        yield point.load()
