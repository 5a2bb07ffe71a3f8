"""The packers by name, Lowtide's own and yours.

Register a function with the decorator::

    @lowtide.pack.register("mine")
    def mine(problem: Problem, options: Options) -> Packing: ...

or, from an installed package, with an entry point in the group ``lowtide.packers`` that names such
a function. A packer gets a problem that has exactly one arena, and honours whatever it holds: pins,
the reserved prefix, permissions, placements; or raises UnsupportedError by name.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from lowtide.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lowtide.ir.plan import Progress
    from lowtide.ir.problem import Problem

ENTRY_POINTS = "lowtide.packers"


@dataclass(frozen=True, slots=True)
class Options:
    """What a packer may spend, and how it reports.

    Args:
        timeout: seconds that it may take; None for as long as it needs. Packers without search ignore it.
        seed: of every random choice.
        threads: workers; 0 for one a processor.
        progress: called now and then with the best so far, from the thread that called the packer.
        disable: pruning rules that the exact search leaves out; for tests and studies.
    """

    timeout: float | None = None
    seed: int = 0
    threads: int = 0
    progress: Callable[[Progress, int], None] | None = None
    disable: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.timeout is not None and not 0 <= self.timeout < float("inf"):
            raise InputError(f"timeout {self.timeout!r} is not a number of seconds: None means no limit")
        for name, value, limit in (("seed", self.seed, 2**63), ("threads", self.threads, 1024)):
            if type(value) is not int or not 0 <= value < limit:
                raise InputError(f"{name} {value!r} is not a whole number from 0 to {limit - 1}")


@dataclass(frozen=True, slots=True)
class Packing:
    """What a packer found.

    Args:
        offsets: bytes from the arena's start, in the order of the problem's buffers.
        lower_bound: bytes that the packer proved to be needed; 0 if it proves nothing.
        object_ids: for each buffer its shared object; None for packers without such.
        history: how the answer improved.
        interrupted: whether Ctrl-C cut the search short.
    """

    offsets: tuple[int, ...]
    lower_bound: int = 0
    object_ids: tuple[int, ...] | None = None
    history: tuple[Progress, ...] = ()
    interrupted: bool = False


class Packer(Protocol):
    """A packing algorithm."""

    def __call__(self, problem: Problem, options: Options, /) -> Packing:
        """Give every buffer of a problem with one arena an offset."""
        ...


P = TypeVar("P", bound=Packer)

# Lowtide's own, imported when first used: name -> "module:function".
_BUILT_IN = {
    "auto": "lowtide.pack.auto:auto",
    "exact": "lowtide.pack.exact:exact",
    "naive": "lowtide.pack.naive:naive",
    "greedy": "lowtide.pack.objects:greedy",
    "shared-objects": "lowtide.pack.objects:shared_objects",
    "first-fit": "lowtide.pack.in_order:first_fit",
    "first-fit-area": "lowtide.pack.in_order:first_fit_area",
    "first-fit-duration": "lowtide.pack.in_order:first_fit_duration",
    "first-fit-start": "lowtide.pack.in_order:first_fit_start",
    "best-fit": "lowtide.pack.in_order:best_fit",
}

_registered: dict[str, Packer] = {}


def register(name: str) -> Callable[[P], P]:
    """Decorator: make a packer available under a name.

    Raises:
        InputError: the name is taken.
    """

    def add(packer: P) -> P:
        if name in _BUILT_IN or name in _registered:
            raise InputError(f"there is a packer {name!r} already: choose another name")
        _registered[name] = packer
        return packer

    return add


def names() -> list[str]:
    """Every packer's name: Lowtide's own, then those registered, then those of installed packages."""
    found = [*_BUILT_IN, *_registered, *_installed()]
    return list(dict.fromkeys(found))


def get(name: str) -> Packer:
    """The packer with this name.

    Raises:
        InputError: there is none; the message lists those there are.
    """
    if name in _registered:
        return _registered[name]
    if name in _BUILT_IN:
        module, _, function = _BUILT_IN[name].partition(":")
        packer: Packer = getattr(importlib.import_module(module), function)
        return packer
    installed = _installed()
    if name in installed:
        found: Packer = installed[name].load()
        return found
    raise InputError(f"there is no packer {name!r}: choose one of {', '.join(names())}")


def _installed() -> dict[str, importlib.metadata.EntryPoint]:
    import importlib.metadata

    return {point.name: point for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}
