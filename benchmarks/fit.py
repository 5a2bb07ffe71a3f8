"""ExecuTorch: how small ``Fit`` makes arenas, at which price, every fitted program run on the real runtime.

    python -m benchmarks.fit                       # all models
    python -m benchmarks.fit mobilenet_v2_224 opt # only these
    python -m benchmarks.fit --markdown            # a table for the documentation

``stock`` is ExecuTorch's own planner, ``planned`` Lowtide's pass with in_place, elide_copies and reorder on
the program with constants folded, and the floor is what running in parts cannot avoid. Outputs are compared
bit for bit with those of the stock program.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import torch
from executorch.exir.pass_manager import ExportedProgramPassManager
from executorch.exir.passes import MemoryPlanningPass as StockPass

from lowtide.executorch import Fit, FoldConstants, MemoryPlanningPass
from lowtide.transforms.fit.floor import floor_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

_FOLD_LIMIT = 64 * 1024
_HEADINGS = ("model", "stock", "planned", "fitted", "of stock", "floor", "multiply-adds", "file", "seconds")


def models() -> dict[str, Callable[[], Any]]:
    """What is measured."""
    from fit_models import keyword_net, mobilenet_v2, transformer
    from models import REAL_MODELS
    from rewrite_models import REWRITE_MODELS

    own = {"keyword_net": keyword_net, "transformer": transformer}
    return {"mobilenet_v2_224": lambda: mobilenet_v2(224), **own, **REWRITE_MODELS, **REAL_MODELS}


def measure(name: str, max_macs: float) -> tuple[float, list[str]]:
    """Fitted over stock, and a line of the table.

    Raises:
        SystemExit: outputs differ in a bit.
    """
    from runtime import edge_of, lower

    torch.manual_seed(0)
    model, inputs = models()[name]()
    edge = edge_of(model, inputs)

    def lowered(one: Any) -> Any:
        changed = edge.transform(ExportedProgramPassManager([one]))
        planning = MemoryPlanningPass(in_place=True, elide_copies=True, reorder=True, timeout=1.0)
        return lower(changed, planning)

    stock = lower(edge, StockPass())
    planned = lowered(FoldConstants(_FOLD_LIMIT))
    began, fit = time.monotonic(), Fit(max_macs=max_macs)
    fitted = lowered(fit)
    seconds = time.monotonic() - began
    pairs = zip(stock.run([inputs])[0], fitted.run([inputs])[0], strict=True)
    if not all(torch.equal(a, b) for a, b in pairs):
        raise SystemExit(f"{name}: outputs differ")
    (found,) = fit.fitted
    sizes = [program.arena_bytes() for program in (stock, planned, fitted)]
    cells = [f"{size:,}" for size in sizes]
    cells += [f"{sizes[2] / sizes[0]:.3f}", f"{floor_of(edge.exported_program()).bytes / sizes[0]:.3f}"]
    work = found.macs_after / found.macs_before if found.macs_before else 1.0
    growth = len(fitted.buffer) / len(stock.buffer)
    return sizes[2] / sizes[0], [name, *cells, f"{work:.3f}", f"{growth:.3f}", f"{seconds:.0f}"]


def main() -> None:
    """Measure, and print a line for each model, then the geometric mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="*", help="models to measure; all if none is named")
    parser.add_argument(
        "--max-macs", type=float, default=1.10, help="multiply-adds allowed, over the model's"
    )
    parser.add_argument("--markdown", action="store_true", help="print a table for the documentation")
    options = parser.parse_args()
    between, around = (" | ", "| ") if options.markdown else ("  ", "")
    print(around + between.join(_HEADINGS) + around[::-1])
    if options.markdown:
        print(f"|---|{'---:|' * (len(_HEADINGS) - 1)}")
    ratios = []
    for name in options.models or models():
        ratio, cells = measure(name, options.max_macs)
        ratios.append(ratio)
        print(around + between.join(cells) + around[::-1], flush=True)
    print(f"\nGeometric mean of {len(ratios)}: {prod(ratios) ** (1 / len(ratios)):.3f} of stock.")


if __name__ == "__main__":
    main()
