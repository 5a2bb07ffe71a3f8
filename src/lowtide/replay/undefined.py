"""Bytes that nobody has defined: ``empty`` gives them a pattern, so that two runs can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from lowtide.operators.schemas import leaves_bytes_undefined, schema_holder
from lowtide.replay.arena_memory import POISON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lowtide.frontends.torch_export import Imported
    from lowtide.ir.flow import FlowGraph


class DefineEmpty(TorchFunctionMode):  # type: ignore[misc]  # torch is not followed by mypy
    """Fills what ``empty`` and its kind make, also inside Python functions, methods and modules.

    The reference, the planned run and eager PyTorch call such an operator apart, and would find different
    garbage. Functions are watched and not dispatch, under which PyTorch computes some composite operators of
    complex numbers wrongly; no composite leaves the bytes undefined that it returns.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and _leaves_undefined(func, args, kwargs or {}):
            made.untyped_storage().fill_(POISON)
        return made


def undefined_outputs(imported: Imported, flow: FlowGraph) -> frozenset[int]:
    """Positions of outputs that are tensors of ``empty`` and its kind, not a byte of which is written ever.

    Args:
        imported: the program and its graph.
        flow: its program points.
    """
    written: set[int] = set()
    for point in flow.points:
        if point.kind == "step":
            binding = imported.regions[flow.activations[point.activation].region]
            operator = schema_holder(binding.nodes[point.step].target)
            if operator is not None and leaves_bytes_undefined(operator):
                continue
        written.update(point.full_writes, point.partial_writes)
    values, storages = imported.program.values, imported.program.storages
    found = set()
    for position, value in enumerate(imported.program.regions[0].outputs):
        if value is None:
            continue
        owners = [value] if values[value].storage is not None else values[value].aliases
        homes = {values[owner].storage for owner in owners}
        if not homes & written and all(h is not None and storages[h].kind == "output" for h in homes):
            found.add(position)
    return frozenset(found)


def _leaves_undefined(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call makes a tensor and does not write it."""
    operator = schema_holder(func)
    if operator is not None:
        return leaves_bytes_undefined(operator)
    name = getattr(func, "__name__", "")
    if name == "new":  # Tensor.new takes sizes, or what to hold
        return all(isinstance(size, int) for size in args[1:])
    return name.startswith(("empty", "new_empty")) and kwargs.get("out") is None
