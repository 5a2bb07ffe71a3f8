"""What can be fitted: static shapes, core operators, and a budget that holds inputs and outputs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from lowtide.base.errors import InputError, UnsupportedError, first_line

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from lowtide.transforms.fit.floor import Floor

_NAMED = 3


def prepare(program: ExportedProgram) -> ExportedProgram:
    """The program in core ATen operators, as lowering will see it; itself if it is so already.

    Raises:
        UnsupportedError: an axis is dynamic, or torch cannot decompose it.
    """
    import torch
    from torch.export import default_decompositions

    _refuse_dynamic(program)
    table = default_decompositions()
    targets = {
        node.target
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function"
    }
    if not any(target in table for target in targets):
        return program
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program.run_decompositions(table)
    except Exception as error:  # torch raises whatever its tracer stumbles over
        raise UnsupportedError(
            f"torch cannot decompose the program to core ATen operators ({first_line(error)[:200]}): "
            "export the model again, and fit that"
        ) from error


def _refuse_dynamic(program: ExportedProgram) -> None:
    import torch

    found = []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            axes = [(axis, size) for axis, size in enumerate(value.shape) if type(size) is not int]
            found += [f"axis {axis} of {node.name} ({size})" for axis, size in axes]
    if found:
        more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
        raise UnsupportedError(
            f"{', '.join(found[:_NAMED])}{more}: the size is not known before the program runs, and only "
            "static axes can be fitted: export without dynamic_shapes"
        )


def refuse_budget(floor: Floor, max_arena: int | None) -> None:
    """Refuse a budget that inputs and outputs alone are over.

    Raises:
        InputError: with their figures.
    """
    if max_arena is None or max_arena >= floor.interface_bytes:
        return
    raise InputError(
        f"max_arena {max_arena:,}: the inputs take {floor.all_input_bytes:,} and the outputs "
        f"{floor.all_output_bytes:,} bytes of the arena, so that no plan takes less than "
        f"{floor.interface_bytes:,}: allow more, or leave them to the caller (--no-plan-inputs, "
        "--no-plan-outputs)"
    )
