"""Lowtide inside ExecuTorch: one changed line gives a smaller arena and correct control flow.

    >>> from lowtide.executorch import MemoryPlanningPass
    >>> planning = MemoryPlanningPass()
    >>> config = ExecutorchBackendConfig(memory_planning_pass=planning)
    >>> program = edge_program.to_executorch(config)
    >>> planning.plan.arena_bytes, planning.plan.is_optimal

What was emitted is proved to be what was planned:

    >>> from lowtide.executorch import verify_program
    >>> verify_program(program, planning)

Files that exist already are audited and planned again without their source:

    >>> lowtide.audit("model.pte").findings
    >>> lowtide.repack("model.pte").data

Importing this package imports ExecuTorch; ``import lowtide`` does not.
"""

from __future__ import annotations

from lowtide.executorch.version import require_supported

require_supported()

from lowtide import audit, repack  # noqa: E402
from lowtide.executorch.algorithm import algorithm  # noqa: E402
from lowtide.executorch.fit_pass import Fit  # noqa: E402
from lowtide.executorch.fold_pass import FoldConstants  # noqa: E402
from lowtide.executorch.planning_pass import MemoryPlanningPass  # noqa: E402
from lowtide.executorch.proving import verify_program  # noqa: E402
from lowtide.executorch.rewrite_pass import Rewrite  # noqa: E402

__all__ = [
    "Fit",
    "FoldConstants",
    "MemoryPlanningPass",
    "Rewrite",
    "algorithm",
    "audit",
    "repack",
    "verify_program",
]
