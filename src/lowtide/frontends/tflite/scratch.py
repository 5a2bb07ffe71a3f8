"""The scratch that kernels ask for: not in the file, and another with every kernel library.

Three ways to know it: the user says it (an operator's name and bytes), the target says it (what
``TF_LITE_SHOW_MEMORY_USE`` makes the interpreter print when it has planned), or the interpreter of this
machine is asked, with the reference kernels (``probing``).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError
from lowtide.frontends.tflite.interpreter import ALIGNMENT, Scratch, lifetimes, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lowtide.frontends.tflite.model import Model

_PLACE = re.compile(r"(?:(\d{1,9}):)?(\d{1,9})", re.ASCII)
_LINE = re.compile(
    r"\(id=(\d{1,9})\): size=(\d{1,10}), offset=-?\d{1,10}, first_used=(-?\d{1,9}) last_used=(-?\d{1,9})",
    re.ASCII,
)
_PATIENCE = 300
"""Seconds that the interpreter may take for all operators of a model."""


def declared_scratch(model: Model, sizes: Mapping[str, int]) -> tuple[Scratch, ...]:
    """Scratch as the user says it.

    Args:
        model: whose operators ask.
        sizes: bytes, by the name of an operator (``CONV_2D``: each of that name asks for them), by its
            position in the first subgraph (``7``), or in another (``1:7``).

    Raises:
        InputError: a key names no operator.
    """
    found = [
        Scratch(subgraph, operator, size)
        for key, size in sizes.items()
        if size
        for subgraph, operator in _named(model, key)
    ]
    for key, size in sizes.items():
        if size < 0 or not any(_named(model, key)):
            what = "names no operator" if size >= 0 else f"is {size} bytes"
            raise InputError(f"{model.name}: scratch of {key!r} {what}: write CONV_2D, 7 or 1:7 and bytes")
    return tuple(sorted(found, key=lambda scratch: (scratch.subgraph, scratch.operator)))


def _named(model: Model, key: str) -> Iterator[tuple[int, int]]:
    place = _PLACE.fullmatch(key)
    for i, subgraph in enumerate(model.subgraphs):
        for j, operator in enumerate(subgraph.operators):
            if place is None:
                if operator.name == key:
                    yield i, j
            elif (int(place.group(1) or 0), int(place.group(2))) == (i, j):
                yield i, j


def logged_scratch(model: Model, text: str, name: str = "log") -> tuple[Scratch, ...]:
    """Scratch as a target printed it; other lines, and all plans but the last, are passed over.

    Args:
        model: that the target ran, with or without offsets.
        text: what it printed.
        name: of the log, for messages.

    Raises:
        InputError: there is no plan in the text, or it is not of this model.
    """
    found: list[tuple[int, int, int]] = []  # size, first, last
    for match in _LINE.finditer(text):
        id, size, first, last = map(int, match.groups())
        if id == 0:
            found = []
        if id != len(found):
            raise InputError(f"{name}: a line is missing before (id={id}): log all of what the target prints")
        found.append((size, first, last))
    if not found:
        raise InputError(f"{name}: has no line such as (id=0): size=…: build with TF_LITE_SHOW_MEMORY_USE")
    tensors = simulate(model).tensors.values()
    known = [(tensor.size, tensor.first, tensor.last) for tensor in tensors]
    if found[: len(known)] != known:
        raise InputError(f"{name}: is not of {model.name}: its tensors differ")
    users = _starts(model)
    scratch = []
    for size, first, _ in found[len(known) :]:
        if first not in users:
            raise InputError(f"{name}: is not of {model.name}: no operator starts at {first}")
        scratch.append(Scratch(*users[first], size))
    return tuple(scratch)


def _starts(model: Model) -> dict[int, tuple[int, int]]:
    """Which operator runs first at each count of the interpreter, by asking for a byte for every one."""
    requests = [
        Scratch(i, j, ALIGNMENT)
        for i, subgraph in enumerate(model.subgraphs)
        for j in range(len(subgraph.operators))
    ]
    spans = lifetimes(model, requests).scratch
    return {first: (r.subgraph, r.operator) for r, (first, _) in zip(requests, spans, strict=True)}


def probed_scratch(model: Model) -> tuple[Scratch, ...]:
    """Scratch as the interpreter of this machine has it, with the reference kernels, in a process of its own.

    Raises:
        InputError: ``tflite-micro`` is not installed, or has no kernel for an operator.
    """
    return tuple(Scratch(*request) for request in _probed(model.data, model.name, "scratch"))


def probed_arena(data: bytes, name: str) -> int:
    """The least bytes of an arena in which the interpreter of this machine starts a model.

    Raises:
        InputError: ``tflite-micro`` is not installed, or it does not start.
    """
    return int(_probed(data, name, "arena"))


def _probed(data: bytes, name: str, what: str) -> Any:
    """What ``probing`` finds in a process of its own."""
    command = [sys.executable, "-m", "lowtide.frontends.tflite.probing", what]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(f"{name}: its {what} was not found in {_PATIENCE} s: say it instead") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[-1] if said and done.returncode > 0 else "the interpreter crashed"
        raise InputError(f"{name}: its {what} cannot be probed: {why}: do without")
    return json.loads(done.stdout)
