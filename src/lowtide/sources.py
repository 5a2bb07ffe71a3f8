"""From whatever a user has, an object or a file, to a Source: the way in for every command and function.

Which front end serves is asked of their register; no format is named here.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from lowtide.base.constants import DEFAULT_ARENA
from lowtide.base.errors import InputError
from lowtide.base.files import HEAD_BYTES, open_for_reading, show_name, show_path
from lowtide.base.units import parse_size
from lowtide.frontends.front_end import Graphs, Opened, Source
from lowtide.frontends.registry import format_options, sniffed, taker_of
from lowtide.ir.memory_map import MemoryMap
from lowtide.ir.problem import Arena
from lowtide.ir.request import Request

if TYPE_CHECKING:
    from lowtide.frontends.front_end import FrontEnd
    from lowtide.ir.plan import Applied
    from lowtide.ir.problem import Problem
    from lowtide.ir.request import Capacity

_CHANGES = ("fold_constants", "reorder")
"""What is done to a program before it is planned."""


def load(source: Any, request: Request | None = None) -> Source:
    """Bring whatever a user has to a Source.

    Raises:
        InputError: it is nothing that Lowtide reads, or holds several things to plan and none was chosen.
    """
    found = load_all(source, request)
    if len(found) > 1:
        names = ", ".join(show_name(one.name) for one in found)
        raise InputError(
            f"{found[0].file}: has several methods, each with memory of its own: choose one of {names}"
        )
    return found[0]


def load_all(source: Any, request: Request | None = None) -> list[Source]:
    """As load; of a file with several programs, all that plan memory, unless the request names one.

    Raises:
        InputError: it is nothing that Lowtide reads.
    """
    request = request or Request()
    if isinstance(source, Source):
        return [source]
    value, front_end = open_source(source, request)
    applied: tuple[Applied, ...] = ()
    remarks: tuple[str, ...] = ()
    if any(getattr(request, change) for change in _CHANGES):
        value, applied, remarks = _changed(value, front_end, request)
    return [
        replace(
            one,
            problem=with_capacity(one.problem, request.capacity),
            request=request,
            applied=(*applied, *one.applied),
            remarks=(*remarks, *one.remarks, *_idle(one, front_end, request)),
        )
        for one in front_end.load(value, request)
    ]


def open_source(source: Any, request: Request | None = None) -> tuple[Any, FrontEnd]:
    """The object that a file, or its bytes, hold, or the object itself; and the front end that serves it.

    Raises:
        InputError: nobody knows it, or the file cannot be read.
    """
    request = request or Request()
    if isinstance(source, (str, os.PathLike)):
        with open_for_reading(source) as file:
            head = file.read(HEAD_BYTES)
            front_end = sniffed(head, os.path.splitext(os.fspath(source))[1].lower())
            return front_end.read(Opened(show_path(source), head, file, source), request), front_end
    if isinstance(source, (bytes, bytearray, memoryview)):
        head, rest = bytes(source[:HEAD_BYTES]), io.BytesIO(source[HEAD_BYTES:])
        front_end = sniffed(head, "")
        return front_end.read(Opened("the program", head, rest), request), front_end
    taker = taker_of(source)
    if taker is None:
        raise InputError(
            f"a {type(source).__name__} cannot be planned: pass an ExportedProgram, an fx.GraphModule, "
            "a Problem, or the path of a .pt2, .pte, .tflite, .csv or .json file"
        )
    return source, taker


def make_request(given: Mapping[str, Any]) -> Request:
    """The Request with these options; those of single formats are told by name.

    Raises:
        TypeError: one is not known.
    """
    known = [field.name for field in fields(Request) if field.name != "format_options"]
    of_formats = format_options()
    unknown = sorted(given.keys() - {*known, "format_options", *of_formats})
    if unknown:
        raise TypeError(f"unexpected option {unknown[0]!r}: known are {', '.join((*known, *of_formats))}")
    own = {name: value for name, value in given.items() if name in of_formats}
    rest = {name: value for name, value in given.items() if name not in of_formats}
    if own:
        rest["format_options"] = {**rest.get("format_options", {}), **own}
    if rest.get("memory_map") is not None:
        rest["memory_map"] = memory_map_of(rest["memory_map"])
    return Request(**rest)


def memory_map_of(value: Any) -> MemoryMap:
    """The memory map that a user means: a map, the path of a TOML file, or an object with banks.

    Raises:
        InputError: it is none, or contradicts itself.
    """
    if isinstance(value, (str, os.PathLike)):
        from lowtide.formats.memory_map import read_memory_map

        return read_memory_map(value)
    return MemoryMap.of(value)


def with_capacity(problem: Problem, capacity: Capacity | Mapping[int, Capacity] | None) -> Problem:
    """The problem with a capacity: of its only arena, or by memory id.

    Raises:
        InputError: there are several arenas, and it does not say which.
    """
    if capacity is None:
        return problem
    if isinstance(capacity, (int, str)):
        if len(problem.arenas) > 1:
            ids = [arena.id for arena in problem.arenas]
            raise InputError(
                f"there are several arenas, {ids}: say which has the capacity, such as {ids[0]}=64KiB"
            )
        capacity = {problem.arenas[0].id if problem.arenas else DEFAULT_ARENA: capacity}
    known = {arena.id: arena for arena in problem.arenas}
    for id, amount in capacity.items():
        size = parse_size(amount) if isinstance(amount, str) else amount
        known[id] = replace(known.get(id, Arena(id)), capacity=size)
    return replace(problem, arenas=tuple(known.values()))


def _changed(
    value: Any, front_end: FrontEnd, request: Request
) -> tuple[Any, tuple[Applied, ...], tuple[str, ...]]:
    """A graph after the changes that the request wants; what is no graph, as it is."""
    if not isinstance(front_end, Graphs):
        return value, (), ()
    graph = front_end.graph_of(value)
    from lowtide.transforms import transform

    done = transform(
        graph,
        fold_constants=request.fold_constants,
        fold_limit=request.fold_limit,
        reorder=request.reorder,
        options=request,
    )
    return done.program, done.applied, done.remarks


def _idle(source: Source, front_end: FrontEnd, request: Request) -> Sequence[str]:
    """What was asked for and cannot be had, because nothing is known of what runs."""
    asked = [] if source.layouts is not None else ["in_place", "elide_copies"]
    asked += [] if isinstance(front_end, Graphs) else _CHANGES
    asked += [] if source.program is not None else ["scratch"]
    wanted = [name.replace("_", "-") for name in asked if getattr(request, name)]
    if not wanted:
        return ()
    why = "there is no program to look at" if source.layouts is None else "the program is compiled already"
    return (f"Without effect, as {why}: {', '.join(wanted)}.",)
