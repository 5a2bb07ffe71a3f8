"""Lower a model to ExecuTorch under a planning pass, and run it on the real runtime."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch.runtime import Runtime
from torch import nn
from torch.utils import _pytree as pytree

from lowtide.executorch import MemoryPlanningPass, verify_program

Inputs = tuple[Any, ...]


def edge_of(model: nn.Module, example: Inputs, **options: Any) -> Any:
    """The edge program of a model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_edge(torch.export.export(model.eval(), example, **options))


@dataclass(frozen=True)
class Lowered:
    """A program as it would be shipped."""

    manager: Any
    buffer: bytes

    def arena_bytes(self, method: str = "forward") -> int:
        """Bytes of all planned arenas of a method."""
        plans = self.manager.executorch_program.execution_plan
        return sum(next(p for p in plans if p.name == method).non_const_buffer_sizes[1:])

    def run(self, calls: Sequence[Inputs], method: str = "forward") -> list[list[Any]]:
        """Flat outputs of several calls in a row, copied."""
        return run_file(self.buffer, calls, method)


def run_file(data: bytes, calls: Sequence[Inputs], method: str = "forward") -> list[list[Any]]:
    """Flat outputs of several calls in a row of a method of a ``.pte``, copied."""
    loaded = Runtime.get().load_program(data).load_method(method)
    found = []
    for call in calls:
        outputs = loaded.execute([x.clone() for x in pytree.tree_leaves(call)])
        found.append([x.clone() if isinstance(x, torch.Tensor) else x for x in outputs])
    return found


def emitted(plan: Any, *, padding: int = 0, shared: int | None = None) -> list[int]:
    """What a program says about its arenas: the plan's bytes by memory id, and what the plan does not count.

    Args:
        plan: of one method.
        padding: bytes that XNNPACK may read behind every arena.
        shared: bytes of the buffers that methods share, if they do.
    """
    sizes = [plan.arenas.get(id, 0) for id in range(max(plan.arenas, default=1) + 1)]
    padded = [size + padding if size else 0 for size in sizes]
    return padded if shared is None else [*padded, shared]


def lower(edge: Any, planning: Any, initialised: Sequence[str] | None = None, **config: Any) -> Lowered:
    """Lower an edge program, which stays as it is, with a planning pass; what Lowtide's planned is proved.

    What Lowtide's own pass has planned is audited: no byte of what came out may be read after another was
    written over it, whatever the inputs of a test take for a path.

    Mutable buffers whose names are given (all, if none are) start as the model has them, not as zeros.
    """
    state = {
        spec.target
        for method in edge.methods
        for spec in edge.exported_program(method).graph_signature.output_specs
        if spec.kind.name == "BUFFER_MUTATION"
    }
    names = sorted(state) if initialised is None else list(initialised)
    passes = [InitializedMutableBufferPass(names)] if names else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        manager = copy.deepcopy(edge).to_executorch(
            ExecutorchBackendConfig(memory_planning_pass=planning, passes=passes, **config)
        )
    passes_used = planning.values() if isinstance(planning, dict) else (planning,)
    if all(type(used) is MemoryPlanningPass for used in passes_used):
        verify_program(manager, planning)
    return Lowered(manager, manager.buffer)


def eager(model: nn.Module, calls: Sequence[Inputs]) -> list[list[Any]]:
    """Flat outputs of the model itself; it is left as it was."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        return [
            pytree.tree_leaves(copy.deepcopy(pytree.tree_leaves(model(*copy.deepcopy(call)))))
            for call in calls
        ]


def differences(
    expected: list[list[Any]], found: list[list[Any]], close: bool = True, tolerance: float = 1e-4
) -> list[str]:
    """Where outputs differ: beyond the rounding of other kernels, or in any bit if not ``close``."""
    faults = []
    for call, (want, have) in enumerate(zip(expected, found, strict=True)):
        for output, (a, b) in enumerate(zip(want, have, strict=True)):
            if not _same(a, b, close, tolerance):
                faults.append(f"call {call}, output {output}: {a} != {b}")
    return faults


def _same(a: Any, b: Any, close: bool, tolerance: float) -> bool:
    if not isinstance(a, torch.Tensor):
        return bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not close or not a.is_floating_point():
        return torch.equal(a.nan_to_num(), b.nan_to_num())
    return torch.allclose(a, b, rtol=tolerance, atol=tolerance / 10, equal_nan=True)


def runs(lowered: Callable[[], Lowered], calls: Sequence[Inputs]) -> list[list[Any]] | str:
    """Outputs on the runtime, or why there are none."""
    try:
        return lowered().run(calls)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
