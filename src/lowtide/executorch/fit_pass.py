"""Fitting, as a pass over edge programs: below what their graphs allow."""

from __future__ import annotations

from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from torch.export import ExportedProgram

from lowtide.executorch.fit_target import EdgeTarget
from lowtide.transforms.fit import Allowed, Found, Limits, fit_program
from lowtide.transforms.split import Dialect


class Fit(ExportedProgramPassBase):  # type: ignore[misc]
    """Makes a program need a smaller arena, by the search of ``lowtide fit``.

    Constants are folded, operators rewritten, steps moved, and chains of operators run part by part, as far
    as that takes.

    ::

        fit = Fit()
        edge = edge.transform(ExportedProgramPassManager([fit]))
        plan = MemoryPlanningPass(in_place=True, elide_copies=True, reorder=True)
        edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=plan))

    To be run after partitioning and the passes of backends. The parts are joined in place, so the planning
    pass must have ``in_place`` and ``elide_copies``. Not one output bit changes.

    Args:
        max_arena: bytes that a method should fit into; it then gets no more parts than that takes. None for
            the smallest arena that ``max_macs`` allows.
        max_macs: multiply-adds allowed, over those of the method.
        fold_limit: bytes by which the constants of a method may grow; None for as much as it takes.
        timeout: seconds that the search may take a method; None for as long as it takes.

    ``fitted`` holds what was done, one entry for each method.

    Raises:
        InputError: a limit means nothing.
    """

    def __init__(
        self,
        max_arena: int | None = None,
        max_macs: float = 1.10,
        fold_limit: int | None = 64 * 1024,
        timeout: float | None = 60,
    ) -> None:
        self.limits = Limits(max_arena, max_macs, timeout, fold_limit)
        self.fitted: list[Found] = []

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """The program, folded and in parts."""
        found = fit_program(exported_program, EdgeTarget(edge_dialect()), self.limits)
        self.fitted.append(found)
        return ExportedProgramPassResult(found.program, found.changed)


def packed_arena(program: ExportedProgram) -> int:
    """Bytes of the arena that the planning pass finds for an edge program, with all that it can do."""
    return EdgeTarget(edge_dialect()).pack(program, Allowed(reorder=True)).arena_bytes


def edge_dialect() -> Dialect:
    """The operators of the edge dialect that cut, pad and join."""
    edge = ops.edge.aten
    return Dialect(
        edge.slice_copy.Tensor, edge.constant_pad_nd.default, edge.slice_scatter.default, edge.cat.default
    )
