"""Splitting, as a pass over edge programs: below what their graphs allow."""

from __future__ import annotations

import logging

from executorch.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchBackendConfig
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassResult

from lowtide.executorch.planning_pass import MemoryPlanningPass
from lowtide.transforms.copying import copy_program
from lowtide.transforms.folding import fold_constants
from lowtide.transforms.split import Dialect, Fitting, split_to_fit
from lowtide.transforms.split.fitting import check_limits

log = logging.getLogger(__name__)

_PACKING_SECONDS = 1.0
"""Time to pack a candidate; a search that has longer finds an arena that is no larger."""


class Fit(ExportedProgramPassBase):  # type: ignore[misc]
    """Makes a program need a smaller arena: folds constants, then runs chains of operators part by part.

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

    ``fitted`` holds what was done, one entry a method.

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
        check_limits(max_arena, max_macs, timeout)
        self.max_arena = max_arena
        self.max_macs = max_macs
        self.fold_limit = fold_limit
        self.timeout = timeout
        self.fitted: list[Fitting] = []

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """The program, folded and in parts."""
        folded = fold_constants(exported_program, limit=self.fold_limit)
        found = split_to_fit(
            folded.program,
            edge_dialect(),
            packed_arena,
            max_arena=self.max_arena,
            max_macs=self.max_macs,
            timeout=self.timeout,
        )
        self.fitted.append(found)
        return ExportedProgramPassResult(found.program, bool(folded.constants or found.steps))


def packed_arena(program: ExportedProgram) -> int:
    """Bytes of the arena that the planning pass finds for an edge program, with all that it can do."""
    planning = _OnlyPlanning()
    manager = EdgeProgramManager(
        {"forward": copy_program(program)}, compile_config=EdgeCompileConfig(_check_ir_validity=False)
    )
    try:
        manager.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    except _PlannedError:
        return planning.arena_bytes
    raise AssertionError("ExecuTorch lowered a program without planning it")


class _PlannedError(Exception):
    """The plan is there, and nobody wants the rest of the lowering."""


class _OnlyPlanning(MemoryPlanningPass):
    """Plans, and ends the lowering there: writing out the weights would take longer than all the rest."""

    def __init__(self) -> None:
        super().__init__(in_place=True, elide_copies=True, reorder=True, timeout=_PACKING_SECONDS)
        self.arena_bytes = 0

    def run(self, graph_module: fx.GraphModule, graph_signature: object = None) -> PassResult:
        super().run(graph_module, graph_signature)
        self.arena_bytes = self.plan.arena_bytes
        raise _PlannedError


def edge_dialect() -> Dialect:
    """The operators of the edge dialect that cut, pad and join."""
    edge = ops.edge.aten
    return Dialect(
        edge.slice_copy.Tensor, edge.constant_pad_nd.default, edge.slice_scatter.default, edge.cat.default
    )
