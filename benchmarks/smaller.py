"""ExecuTorch: arena bytes below the live peak, technique by technique, every program run on the real runtime.

    python -m benchmarks.smaller                 # the tests' models, small and complete
    python -m benchmarks.smaller --tiny          # Swin-Tiny, ConvNeXt-Tiny, ViT-Tiny, BERT-small ...
    python -m benchmarks.smaller vit bert        # only these
    python -m benchmarks.smaller --markdown      # a table for the documentation

Outputs are compared bit for bit with those of the program that the stock pass planned. Seconds are processor
time of folding and of the pass, for the last column of bytes.
"""

from __future__ import annotations

import argparse
import copy
import logging
import math
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from benchmarks.executorch_models import TimedLowtide, tiny_models
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.pass_manager import ExportedProgramPassManager
from executorch.exir.passes import MemoryPlanningPass as StockPass
from rich import box
from rich.console import Console
from rich.table import Table

from lowtide.executorch import FoldConstants

_TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(_TESTS / "helpers"))

CHOICES: dict[str, dict[str, bool]] = {
    "-O0": {},
    "in place": {"in_place": True},
    "copies": {"elide_copies": True},
    "order": {"reorder": True},
    "folded": {"fold": True},
    "-O3": {"in_place": True, "elide_copies": True, "reorder": True, "fold": True},
}
"""Techniques by column: each alone, then all together."""


def measure(edge: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[list[int], list[bool], float, int]:
    """Arena bytes of the stock pass and of each choice, whether bits agree; seconds and file bytes of -O3."""
    from runtime import Lowered, differences

    def lowered(program: Any, planning: Any) -> tuple[int, Any, int]:
        manager = program.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
        found = Lowered(manager, manager.buffer)
        return found.arena_bytes(), found.run([inputs, inputs]), len(manager.buffer)

    stock, expected, file_bytes = lowered(copy.deepcopy(edge), StockPass())
    sizes, same, seconds, growth = [stock], [], 0.0, 0
    for choice in CHOICES.values():
        options, program = dict(choice), copy.deepcopy(edge)
        began = time.process_time()
        if options.pop("fold", False):
            program = program.transform(ExportedProgramPassManager([FoldConstants()]))
        seconds = time.process_time() - began
        planning = TimedLowtide(**options)
        size, outputs, length = lowered(program, planning)
        seconds, growth = seconds + planning.seconds, length - file_bytes
        sizes.append(size)
        same.append(not differences(expected, outputs, close=False))
    return sizes, same, seconds, growth


def rows(models: dict[str, Any]) -> Iterator[tuple[str, list[int], list[bool], float, int]]:
    """What was measured of each model."""
    from runtime import edge_of

    for name, build in models.items():
        torch.manual_seed(0)
        model, inputs = build()
        yield name, *measure(edge_of(model, inputs), inputs)


def main() -> None:
    """Print the table asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="published configurations at full size")
    parser.add_argument("--markdown", action="store_true", help="a Markdown table")
    parser.add_argument("names", nargs="*", help="only these")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    from models import REAL_MODELS

    models = tiny_models() if arguments.tiny else dict(REAL_MODELS)
    chosen = {name: models[name] for name in arguments.names or models}
    columns = ["model", "stock", *CHOICES, "/ stock", "seconds", "file", "bits"]
    table = Table(*columns, box=box.SIMPLE_HEAD, title="ExecuTorch: arena bytes, technique by technique")
    lines = [f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1)]
    ratios = []
    for name, sizes, same, seconds, growth in rows(chosen):
        ratios.append(sizes[-1] / sizes[0])
        bits = "equal" if all(same) else "DIFFER"
        cells = [name, *(f"{size:,}" for size in sizes), f"{ratios[-1]:.2f}", f"{seconds:.2f}"]
        cells += [f"{growth:+,}", bits]
        table.add_row(*cells)
        lines.append(f"| {' | '.join(cells)} |")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    table.caption = f"geometric mean of -O3 over stock: {mean:.3f}"
    if arguments.markdown:
        print("\n".join(lines))
        print(f"\nGeometric mean of -O3 over stock: {mean:.3f}")
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    main()
