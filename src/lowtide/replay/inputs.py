"""What a caller passes: inputs that share memory are apart in an arena."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lowtide.base.errors import InputError
from lowtide.replay.arena_memory import span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.torch_export import Imported
    from lowtide.ir.flow import FlowGraph


def require_apart(imported: Imported, flow: FlowGraph, given: Sequence[Any]) -> None:
    """Refuse inputs that share memory if the program changes one: every input has a place of its own.

    Args:
        imported: the program and its graph.
        flow: its program points.
        given: flattened user inputs.

    Raises:
        InputError: naming the input that is changed and the other.
    """
    changed = {s for p in flow.points if p.kind != "entry" for s in (*p.full_writes, *p.partial_writes)}
    values = imported.program.values
    user = [entry for entry in imported.inputs if entry.kind == "user"]
    spans = []
    for entry, tensor in zip(user, given, strict=False):
        if entry.value is not None and isinstance(tensor, torch.Tensor) and tensor.numel():
            start, found = tensor.data_ptr(), values[entry.value]
            stop = start + span(tensor) * tensor.element_size()
            spans.append((start, stop, found.storage in changed, found.name))
    spans.sort()
    last: tuple[int, str] | None = None  # the furthest reach so far
    wet: tuple[int, str] | None = None  # the furthest reach of one that is changed
    for start, stop, is_changed, name in spans:
        other = last if is_changed else wet
        if other is not None and other[0] > start:
            names = (name, other[1]) if is_changed else (other[1], name)
            raise InputError(f"{names[0]} is changed, and shares memory with {names[1]}: pass a clone of it")
        last = max(last or (stop, name), (stop, name))
        if is_changed:
            wet = max(wet or (stop, name), (stop, name))
