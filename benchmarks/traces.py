"""Recorded problems: what ExecuTorch plans for twelve models, and the large traces of idealloc.

Planned with the default packer in this process; every plan is verified. Reading the file is not counted.

    python benchmarks/traces.py
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lowtide.formats.csv.reading import read_csv
from lowtide.pack import Options
from lowtide.pack.planner import plan_problem

DATA = Path(__file__).parent / "data"

LARGE_SECONDS = {"S_1": 3.0, "Y_1": 6.0, "pangu_2.6B": 2.0, "resnet50": 1.0, "G_1": 1.0}
"""Deadlines for idealloc's traces; 5 s, the default, for the others."""


def main() -> None:
    """Print one table a folder."""
    for folder, seconds in (("executorch-greedy", {}), ("idealloc", LARGE_SECONDS)):
        table = Table(
            "trace",
            "buffers",
            "arena",
            "bound",
            "ratio",
            "greedy / bound",
            "plan",
            "verify",
            "",
            title=folder,
        )
        for path in sorted((DATA / folder).glob("*.csv")):
            problem = read_csv(path)
            began = time.perf_counter()
            plan = plan_problem(problem, options=Options(timeout=seconds.get(path.stem, 5.0)))
            planned = time.perf_counter()
            plan.verify()
            verified = time.perf_counter()
            greedy = plan_problem(problem, packer="greedy").arena_bytes
            table.add_row(
                path.stem,
                f"{len(problem.buffers):,}",
                f"{plan.arena_bytes:,}",
                f"{plan.lower_bound_bytes:,}",
                f"{plan.arena_bytes / plan.lower_bound_bytes:.5f}",
                f"{greedy / plan.lower_bound_bytes:.3f}",
                f"{planned - began:.3f} s",
                f"{verified - planned:.3f} s",
                "optimal" if plan.is_optimal else "",
            )
        Console(width=130).print(table)


if __name__ == "__main__":
    main()
