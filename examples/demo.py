"""Plan two real programs, prove the plans, and run in them.

MobileNetV2 from a ``transformers`` configuration (random weights, nothing is downloaded), and a small
model with nested control flow. For each: export, plan under the four hierarchy policies, verify,
replay, and print what came out. Run it with ``make demo``.
"""

from __future__ import annotations

import logging
import time
import warnings

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn

import lowtide
from lowtide.base.units import format_size
from lowtide.ir.request import Request
from lowtide.pack.hierarchy import POLICIES
from lowtide.replay import replay
from lowtide.sources import load


class Router(nn.Module):
    """Nested control flow: a loop that refines, and inside it a branch that calls another."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.short = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        def expert(h: torch.Tensor) -> torch.Tensor:
            return self.narrow(torch.relu(self.wide(h)))

        def shortcut(h: torch.Tensor) -> torch.Tensor:
            return torch.cond(h.amax() > 1, lambda t: torch.tanh(self.short(t)), lambda t: t * 0.5, (h,))

        def more(i: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return i < steps

        def refine(i: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            update = torch.cond(h.mean() > 0, expert, shortcut, (h,))
            return i + 1, h + update

        _, refined = torch._higher_order_ops.while_loop(more, refine, (torch.zeros_like(steps), x))
        return refined.softmax(-1)


def mobilenet_v2() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A real image classifier, as exported for a phone."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    model = MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1000, return_dict=False))
    return model.eval(), (torch.randn(1, 3, 224, 224),)


def main() -> None:
    """Print one table for each program."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    router = (Router().eval(), (torch.randn(16, 64), torch.tensor(3)))
    runs = [(torch.randn(16, 64) + shift, torch.tensor(n)) for shift, n in ((0, 0), (2, 1), (-2, 4))]
    show("MobileNetV2", *mobilenet_v2(), None)
    show("a loop with nested branches", *router, runs)


def show(
    name: str,
    model: nn.Module,
    example: tuple[torch.Tensor, ...],
    runs: list[tuple[torch.Tensor, ...]] | None,
) -> None:
    """Export one model, plan it, prove it, and print a table."""
    console = Console()
    began = time.perf_counter()
    with torch.no_grad():
        exported = torch.export.export(model, example)
    console.print(f"\n[bold]{name}[/]: exported in {time.perf_counter() - began:.1f} s")
    began = time.perf_counter()
    loaded = load(exported, Request())
    buffers = loaded.problem.buffers
    total = sum(buffer.size for buffer in buffers)
    console.print(
        f"{len(buffers)} buffers, {format_size(total)} in all, lifetimes found in "
        f"{time.perf_counter() - began:.2f} s"
    )
    table = Table("policy", box=box.SIMPLE_HEAD)
    for column in ("arena bytes", "", "/ bound", "planned", "reusing pairs", "replay"):
        table.add_column(column, justify="right")
    for policy in POLICIES:
        plan = lowtide.plan(loaded.problem, hierarchy=policy)
        report = lowtide.verify(plan, loaded.origin)
        result = replay(loaded.origin, plan, runs)
        table.add_row(
            policy,
            f"{plan.arena_bytes:,}",
            format_size(plan.arena_bytes),
            f"{plan.arena_bytes / plan.lower_bound_bytes:.3f}",
            f"{plan.seconds * 1e3:.1f} ms",
            f"{report.reuse_pairs:,}",
            f"{result.runs} runs bit-exact",
        )
    console.print(table)


if __name__ == "__main__":
    main()
