"""ExecuTorch files that exist already: audited, planned again, and run before and after on the real runtime.

    python -m benchmarks.pte_files            # the tests' models, small and complete
    python -m benchmarks.pte_files --tiny     # Swin-Tiny, ConvNeXt-Tiny, ViT-Tiny, BERT-small ...
    python -m benchmarks.pte_files --zoo      # control-flow programs, against eager

Names after the option choose some. Files are those of the stock planner; "Lowtide" is the arena of the same
model lowered with Lowtide's pass. Seconds are those of ``repack``, audits and writing included.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from executorch.exir.passes import MemoryPlanningPass as StockPass
from rich import box
from rich.console import Console
from rich.table import Table

from lowtide.base.errors import LowtideError
from lowtide.executorch import MemoryPlanningPass, audit, repack

_TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(_TESTS / "helpers"))

Model = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


def models_table(models: dict[str, Callable[[], Model]]) -> Table:
    """One row a model; outputs before and after are compared bit for bit."""
    from runtime import differences, edge_of, lower, run_file

    table = Table("model", box=box.SIMPLE_HEAD, title="Stock files of real models, repacked")
    for column in ("flags", "before", "after", "bound", "Lowtide", "seconds", "file", "file after", "bits"):
        table.add_column(column, justify="right")
    for name, build in models.items():
        torch.manual_seed(0)
        model, inputs = build()
        edge = edge_of(model, inputs)
        stock = lower(edge, StockPass()).buffer
        mine = lower(edge, MemoryPlanningPass())
        found = repack(stock)
        calls = [inputs, inputs]
        same = not differences(run_file(stock, calls), run_file(found.data, calls), close=False)
        table.add_row(
            name,
            f"{len(found.before.findings)}",
            f"{sum(arena.before for arena in found.arenas):,}",
            f"{sum(arena.after for arena in found.arenas):,}",
            f"{sum(arena.lower_bound for arena in found.arenas):,}",
            f"{mine.arena_bytes():,}",
            f"{found.seconds:.2f}",
            f"{len(stock):,}",
            f"{len(found.data):,}",
            "equal" if same else "DIFFER",
        )
    return table


def zoo_table(names: list[str]) -> Table:
    """One row a control-flow program: what is flagged, and outputs against eager before and after."""
    from runtime import differences, eager, edge_of, lower, run_file
    from zoo import ZOO

    table = Table("program", box=box.SIMPLE_HEAD, title="Stock files of control-flow programs, repacked")
    for column in ("stock file", "flags", "before", "repacked", "after", "Lowtide", "Lowtide's flags"):
        table.add_column(column, justify="right")
    for name in names or ZOO:
        torch.manual_seed(0)
        model, calls = ZOO[name]()
        calls = [*calls, *reversed(calls)]
        expected, edge = eager(model, calls), edge_of(model, calls[0])

        def verdict(data: bytes, expected: Any = expected, calls: Any = calls) -> str:
            return "WRONG" if differences(expected, run_file(data, calls)) else "right"

        planned = lower(edge, MemoryPlanningPass())
        mine = (f"{planned.arena_bytes():,}", f"{len(audit(planned.buffer).findings)}")
        try:
            stock = lower(edge, StockPass())
        except Exception:
            table.add_row(name, "fails to lower", "", "", "", "", *mine)
            continue
        flags = len(audit(stock.buffer).findings)
        row = [name, verdict(stock.buffer), f"{flags}", f"{stock.arena_bytes():,}"]
        try:
            found = repack(stock.buffer)
            row += [verdict(found.data), f"{sum(arena.after for arena in found.arenas):,}"]
        except LowtideError:
            row += ["refused", ""]
        table.add_row(*row, *mine)
    return table


def main() -> None:
    """Print the table asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="published configurations at full size")
    parser.add_argument("--zoo", action="store_true", help="control-flow programs")
    parser.add_argument("names", nargs="*", help="only these")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    if arguments.zoo:
        table = zoo_table(arguments.names)
    else:
        from benchmarks.executorch_models import tiny_models

        from models import REAL_MODELS

        models = tiny_models() if arguments.tiny else dict(REAL_MODELS)
        table = models_table({name: models[name] for name in arguments.names or models})
    Console(width=None if sys.stdout.isatty() else 140).print(table)


if __name__ == "__main__":
    main()
