"""What a request asks of a model: what cannot be had is refused, and scratch is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_ARENA
from lowtide.base.errors import InputError, UnsupportedError
from lowtide.base.units import parse_size
from lowtide.frontends.tflite.interpreter import ALIGNMENT
from lowtide.frontends.tflite.metadata import ONLINE, offsets_in
from lowtide.frontends.tflite.scratch import declared_scratch, logged_scratch, probed_scratch

if TYPE_CHECKING:
    from lowtide.frontends.tflite.interpreter import Scratch
    from lowtide.frontends.tflite.model import Model
    from lowtide.ir.request import Request

_LOG_LIMIT = 1 << 26
"""Bytes of a log that are read."""


def check_alignment(model: Model, alignment: int | None) -> None:
    """Refuse every alignment but the interpreter's own.

    Raises:
        UnsupportedError: it is another.
    """
    if alignment not in (None, ALIGNMENT):
        raise UnsupportedError(
            f"{model.name}: the interpreter aligns to {ALIGNMENT} bytes, not to {alignment}: leave it so"
        )


def check_request(model: Model, request: Request) -> None:
    """Refuse what the interpreter cannot do.

    Raises:
        UnsupportedError: the request wants something of it.
    """
    check_alignment(model, request.alignment)
    wishes = {
        "inputs": not request.plan_inputs,
        "outputs": not request.plan_outputs,
    }
    for what, wanted in wishes.items():
        if wanted:
            raise UnsupportedError(
                f"{model.name}: the interpreter keeps {what} in its arena: they cannot be left out"
            )
    if request.reset_state:
        raise UnsupportedError(
            f"{model.name}: the interpreter keeps variables beside its plan: resetting them frees no bytes"
        )
    if request.memory_map is not None:
        _check_with_map(model, request)
    if isinstance(request.capacity, Mapping) and request.capacity.keys() - {DEFAULT_ARENA}:
        raise UnsupportedError(f"{model.name}: the interpreter has one arena, {DEFAULT_ARENA}, and no other")


def _check_with_map(model: Model, request: Request) -> None:
    """Refuse beside a memory map what is of the interpreter's one arena.

    Raises:
        UnsupportedError: something is.
    """
    given = offsets_in(model)
    if given is not None and any(offset != ONLINE for offset in given):
        raise UnsupportedError(
            f"{model.name}: has offsets of its own, which a planner for banks cannot keep: take the model "
            "without them"
        )
    if request.format_options.get("device"):
        raise UnsupportedError(f"{model.name}: --device counts one arena: leave out that, or the memory map")


def capacity_in(request: Request) -> int | None:
    """Bytes that the arena's head may have, if that was said."""
    capacity = request.capacity
    if isinstance(capacity, Mapping):
        capacity = capacity.get(DEFAULT_ARENA)
    return parse_size(capacity) if isinstance(capacity, str) else capacity


def scratch_in(model: Model, request: Request) -> tuple[Scratch, ...]:
    """The scratch that a request tells of: what is said of an operator goes before what was logged or probed.

    Raises:
        InputError: it names no operator, the log is of another model, or the interpreter cannot be asked.
    """
    log = request.format_options.get("scratch_log")
    probe = request.format_options.get("probe_scratch")
    if log and probe:
        raise InputError("scratch is logged or probed: give one of --scratch-log and --probe-scratch")
    said = declared_scratch(model, request.scratch)
    found: tuple[Scratch, ...] = ()
    if log:
        found = logged_scratch(model, _text(log), str(log))
    elif probe:
        found = probed_scratch(model)
    known = {(scratch.subgraph, scratch.operator) for scratch in said}
    kept = [scratch for scratch in found if (scratch.subgraph, scratch.operator) not in known]
    # The interpreter knows them in the order in which its operators are prepared.
    return tuple(sorted((*said, *kept), key=lambda scratch: (scratch.subgraph, scratch.operator)))


def pins_in(model: Model, request: Request) -> dict[int, int]:
    """Offsets that a request wants to keep, by tensor of all subgraphs.

    Raises:
        InputError: there are none, or they cannot be read.
        UnsupportedError: copies are to be elided, which moves what is kept.
    """
    if not request.format_options.get("keep_offsets"):
        return {}
    given = offsets_in(model)
    if given is None or all(offset == ONLINE for offset in given):
        raise InputError(f"{model.name}: has no offsets to keep: leave out --keep-offsets")
    if request.elide_copies:
        raise UnsupportedError(
            f"{model.name}: copies are elided by moving tensors: leave out --elide-copies, or --keep-offsets"
        )
    return {i: offset for i, offset in enumerate(given) if offset != ONLINE}


def _text(path: str) -> str:
    from lowtide.base.files import open_for_reading, show_path

    with open_for_reading(path) as file:
        data = file.read(_LOG_LIMIT + 1)
    if len(data) > _LOG_LIMIT:
        raise InputError(f"{show_path(path)}: is too large for a log: keep what the last start printed")
    return data.decode(errors="replace")
