"""Orders: peaks and arenas of the given order and of a better one, what is proved, seconds.

    python -m benchmarks.orders                 # irregular networks, through torch.export
    python -m benchmarks.orders --real          # the tests' real models
    python -m benchmarks.orders --in-place      # outputs may lie over inputs that die, as on ExecuTorch
    python -m benchmarks.orders --search        # exact search against beams on randomly wired graphs

With ``--in-place`` the graphs are ExecuTorch's, after its out variants; kernels that may write in place are
known there. Every plan is verified.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from lowtide.transforms.reorder import Budget, Reordering, reorder
from lowtide.transforms.reorder.branch_and_bound import Search
from lowtide.transforms.reorder.heuristics import beam, polish
from lowtide.transforms.reorder.pieces import find_units
from lowtide.transforms.reorder.solving import solve
from lowtide.transforms.reorder.work import LiveRange, Model, Work
from lowtide.verifier.checks import verify

_TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(_TESTS / "helpers"))


def exported(model: Any, inputs: Any) -> tuple[Reordering, float]:
    """A model through torch.export, and seconds that reordering took, both plans included."""
    import torch

    from lowtide.frontends.torch_export import import_program
    from lowtide.transforms.reorder.fx import node_edges

    with torch.no_grad():
        imported = import_program(torch.export.export(model, inputs))
    began = time.perf_counter()
    edges = {
        position: node_edges(binding.module, {node: step for step, node in enumerate(binding.nodes)})
        for position, binding in enumerate(imported.regions)
        if binding.module is not None
    }
    found = reorder(imported.program, edges=edges)
    return found, time.perf_counter() - began


def on_executorch(model: Any, inputs: Any) -> tuple[Reordering, float]:
    """A model's graphs as ExecuTorch plans them, with in-place reuse allowed."""
    from lowtide.executorch import MemoryPlanningPass, planning_pass
    from runtime import edge_of, lower

    kept: list[tuple[Reordering, float]] = []
    original = planning_pass.reorder_modules

    def timed(*arguments: Any, **choices: Any) -> Reordering:
        began = time.perf_counter()
        found = original(*arguments, **choices)
        kept.append((found, time.perf_counter() - began))
        return found

    planning_pass.reorder_modules = timed
    try:
        lower(edge_of(model, inputs), MemoryPlanningPass(in_place=True, reorder=True))
    finally:
        planning_pass.reorder_modules = original
    return kept[0]


def networks_table(
    models: Mapping[str, Callable[[], Any]], measure: Callable[..., tuple[Reordering, float]], title: str
) -> Table:
    """One row a network."""
    import torch

    table = Table("network", box=box.SIMPLE_HEAD, title=title)
    for column in ("steps", "peak", "reordered", "bound", "", "arena", "reordered", "ratio", "s"):
        table.add_column(column, justify="right")
    for name, build in models.items():
        torch.manual_seed(0)
        found, seconds = measure(*build())
        verify(found.after, found.program)
        region = max(found.searched, key=lambda region: region.peak_before)
        before, after = found.before.arena_bytes, found.after.arena_bytes
        table.add_row(
            name,
            f"{sum(len(region.order) for region in found.searched)}",
            f"{region.peak_before:,}",
            f"{region.peak_after:,}",
            f"{region.bound:,}",
            "proved" if region.proved else "",
            f"{before:,}",
            f"{after:,}",
            f"{after / before:.3f}",
            f"{seconds:.2f}",
        )
    return table


def wired(seed: int, steps: int, reach: int) -> Model:
    """A random graph of steps of one result each, read by a few of the next ones."""
    chosen = random.Random(seed)
    users = [1 << step for step in range(steps)]
    earlier = [0] * steps
    for step in range(1, steps):
        for _ in range(chosen.randint(1, 3)):
            source = max(0, step - chosen.randint(1, reach))
            users[source] |= 1 << step
            earlier[step] |= earlier[source] | 1 << source
    sizes = [chosen.choice((1, 2, 4, 8, 16)) * 1024 for _ in range(steps)]
    ranges = tuple(
        LiveRange(size, step, mask, mask == 1 << step)
        for step, (size, mask) in enumerate(zip(sizes, users, strict=True))
    )
    return Model(tuple(earlier), ranges, (Work(),) * steps)


def search_table() -> Table:
    """Exact search, its bound when it is cut off, and what greedy, beams and windows find."""
    table = Table("steps", box=box.SIMPLE_HEAD, title="Randomly wired graphs: peak in KiB")
    columns = "units given greedy beam-8 beam-64 windows solved bound exact sets s solve-s"
    for column in columns.split():
        table.add_column(column, justify="right")
    for steps in (20, 30, 40, 60, 80, 120, 200, 400):
        model = wired(steps, steps, 12)
        units = find_units(model)
        orders = [beam(model, units, 0, width) for width in (1, 8, 64)]
        orders.append(polish(model, orders[-1], model.bound, 24))
        began = time.perf_counter()
        found = Search(model, units).run(Budget(300_000, 60.0))
        middle = time.perf_counter()
        solution = solve(model)
        table.add_row(
            f"{steps}",
            f"{len(units)}",
            f"{model.peak(range(steps)) // 1024}",
            *(f"{model.peak(order) // 1024}" for order in orders),
            f"{solution.after // 1024}",
            f"{max(found.bound, solution.bound) // 1024}",
            "proved" if found.order is not None else "cut off",
            f"{found.nodes:,}",
            f"{middle - began:.2f}",
            f"{time.perf_counter() - middle:.2f}",
        )
    return table


def main() -> None:
    """Print the table asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--real", action="store_true", help="the tests' real models")
    parser.add_argument("--in-place", action="store_true", help="ExecuTorch's graphs, in-place reuse allowed")
    parser.add_argument("--search", action="store_true", help="exact search against heuristics")
    parser.add_argument("names", nargs="*", help="only these")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    if arguments.search:
        table = search_table()
    else:
        from irregular import IRREGULAR
        from models import REAL_MODELS

        models: dict[str, Any] = dict(REAL_MODELS if arguments.real else IRREGULAR)
        chosen = {name: models[name] for name in arguments.names or models}
        measure, where = (
            (on_executorch, "ExecuTorch, in place") if arguments.in_place else (exported, "torch.export")
        )
        table = networks_table(chosen, measure, f"Orders: {where}")
    Console(width=None if sys.stdout.isatty() else 140).print(table)


if __name__ == "__main__":
    main()
