"""Chains of steps in parts, as advice: each is made to a copy of the program, and an arena packed anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowtide.base.errors import LowtideError
from lowtide.report.findings import Advice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.export import ExportedProgram

    from lowtide.ir.request import Request

SECONDS = 10.0
"""For the search; most small programs take less."""

MAX_MACS = 1.10
"""Multiply-adds that the advice may cost, over the program's."""


def split_advice(exported: ExportedProgram, request: Request, peaks: Mapping[int, int]) -> Advice | None:
    """The chains that are best run in parts; None if that wins nothing.

    Args:
        exported: the program.
        request: what of it is planned.
        peaks: live peaks as it is, by memory id.
    """
    import torch

    from lowtide.api import plan
    from lowtide.transforms.fit.preparing import prepare
    from lowtide.transforms.split import Dialect, split_to_fit

    aten = torch.ops.aten
    dialect = Dialect(
        aten.slice.Tensor, aten.constant_pad_nd.default, aten.slice_scatter.default, aten.cat.default
    )
    choices: dict[str, Any] = {
        "alignment": request.alignment,
        "plan_inputs": request.plan_inputs,
        "plan_outputs": request.plan_outputs,
        "plan_state": request.plan_state,
        "reset_state": request.reset_state,
        "in_place": True,
        "elide_copies": True,
        "timeout": 1.0,
    }

    def judge(candidate: ExportedProgram) -> int:
        return plan(candidate, **choices).arena_bytes

    try:
        found = split_to_fit(prepare(exported), dialect, judge, max_macs=MAX_MACS, timeout=SECONDS)
        if not found.steps:
            return None
        after = plan(found.program, **choices).arenas
    except LowtideError:
        return None  # dynamic axes, or something that only the program as it is can be planned with
    wins = sum(peaks.values()) - sum(after.values())
    if wins <= 0:
        return None
    subject = tuple(
        f"{step.first} to {step.last} in {step.parts}"
        if step.first != step.last
        else f"{step.first} in {step.parts}"
        for step in found.steps
    )
    macs = found.macs_after - found.macs_before
    return Advice("split", subject, wins, {id: after.get(id, 0) for id in peaks}, macs=macs, work=found.work)
