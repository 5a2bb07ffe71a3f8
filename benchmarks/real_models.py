"""Real models end to end: arena, bound and naive bytes, and what each stage takes.

Every plan is verified and replayed bit for bit.

    python benchmarks/real_models.py
"""

from __future__ import annotations

import itertools
import logging
import sys
import time
import warnings
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.table import Table

import lowtide
from lowtide.ir.request import Request
from lowtide.replay import replay
from lowtide.sources import load

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))


def main() -> None:
    """Print one row a model."""
    from models import REAL_MODELS

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    table = Table("model", box=box.SIMPLE_HEAD, title="Real models: plan, verify, replay")
    for column in (
        "buffers",
        "arena",
        "bound",
        "naive",
        "naive / arena",
        "import",
        "plan",
        "verify",
        "replay",
    ):
        table.add_column(column, justify="right")
    for name, build in REAL_MODELS.items():
        torch.manual_seed(0)
        model, inputs = build()
        with torch.no_grad():
            exported = torch.export.export(model, inputs)
        clock = [time.perf_counter()]
        loaded = load(exported, Request())
        clock.append(time.perf_counter())
        plan = lowtide.plan(loaded.problem)
        clock.append(time.perf_counter())
        lowtide.verify(plan, loaded.origin)
        clock.append(time.perf_counter())
        replay(loaded.origin, plan, inputs)
        clock.append(time.perf_counter())
        naive = lowtide.plan(loaded.problem, packer="naive", hierarchy="sum").arena_bytes
        table.add_row(
            name,
            f"{len(plan.offsets):,}",
            f"{plan.arena_bytes:,}",
            f"{plan.lower_bound_bytes:,}",
            f"{naive:,}",
            f"{naive / plan.arena_bytes:.1f}",
            *(f"{after - before:.3f} s" for before, after in itertools.pairwise(clock)),
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
