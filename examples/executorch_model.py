"""Lower a model with control flow to ExecuTorch, plan it with Lowtide, and run it on the real runtime.

The one changed line is ``memory_planning_pass=planning``. The stock planner is run beside it: its arena is
larger, and its numbers are wrong. Needs ``pip install '.[executorch]'`` in a checkout of Lowtide.
"""

from __future__ import annotations

import logging
import warnings

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass as StockPass
from executorch.runtime import Runtime
from torch import nn

from lowtide.executorch import MemoryPlanningPass


class EarlyExit(nn.Module):
    """A classifier that stops after its first block if it is sure, and normalises what either path found."""

    def __init__(self, width: int = 64, classes: int = 10) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.rest = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.early, self.late = nn.Linear(width, classes), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        scores = self.early(hidden)
        scores = torch.cond(
            scores.softmax(-1).amax() > 0.5,
            lambda s, h: s * 1.0,
            lambda s, h: self.late(self.rest(h)) + s,
            (scores, hidden),
        )
        scale = torch.cond(x.amax() > 3, lambda h: h.amax() * 0.1, lambda h: h.mean() + 1, (hidden,))
        return scores.view(-1) * scale


def main() -> None:
    """Plan with both passes, run, compare with eager PyTorch."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    model = EarlyExit().eval()
    inputs = [torch.randn(1, 64) * scale for scale in (0.1, 9, 1)]
    exported = torch.export.export(model, (inputs[0],))
    for planning in (StockPass(), MemoryPlanningPass()):
        program = to_edge(exported).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
        method = Runtime.get().load_program(program.buffer).load_method("forward")
        with torch.no_grad():
            right = [torch.allclose(method.execute([x])[0], model(x), rtol=1e-4, atol=1e-5) for x in inputs]
        (plan,) = program.executorch_program.execution_plan
        name = type(planning).__module__.split(".")[0]
        size = sum(plan.non_const_buffer_sizes)
        print(f"{name:>10}: arena {size} bytes, right on {sum(right)} of {len(right)}")
        if isinstance(planning, MemoryPlanningPass):
            found = planning.plan
            proved = "proved to be the least" if found.is_optimal else f"bound {found.lower_bound_bytes}"
            print(f"{'':>12}{len(found.offsets)} buffers, {proved}, planned in {found.seconds * 1000:.0f} ms")
            print(f"{'':>12}{planning.reports[0].reuse_pairs} pairs share bytes, each followed on every path")


if __name__ == "__main__":
    main()
