"""ExecuTorch: arena bytes with rewrites, every program run on the real runtime.

    python -m benchmarks.rewrites                   # all models
    python -m benchmarks.rewrites vgg opt           # only these
    python -m benchmarks.rewrites --linear          # for a device that has a kernel for linear
    python -m benchmarks.rewrites --markdown        # a table for the documentation

Outputs are compared bit for bit with those of the program that was not rewritten.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig
from executorch.exir.pass_manager import ExportedProgramPassManager
from executorch.exir.passes import MemoryPlanningPass as StockPass

from lowtide.executorch import FoldConstants, MemoryPlanningPass, Rewrite

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

_FOLD_LIMIT = 64 * 1024
_COLUMNS = ("stock", "planned", "folded", "rewritten", "both")


def measure(name: str, kernels: Sequence[str]) -> tuple[list[int], list[str]]:
    """Arena bytes by column, and the rules that were used.

    Raises:
        SystemExit: outputs differ in a bit.
    """
    from rewrite_models import REWRITE_MODELS
    from runtime import edge_of, lower

    torch.manual_seed(0)
    model, inputs = REWRITE_MODELS[name]()
    edge = edge_of(model, inputs)
    config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.linear.default])

    def lowered(*passes: Any) -> Any:
        changed = edge.transform(ExportedProgramPassManager(list(passes)), compile_config=config)
        planning = MemoryPlanningPass(in_place=True, elide_copies=True, reorder=True, timeout=1.0)
        return lower(changed if passes else edge, planning)

    rewriting, again = Rewrite(kernels=kernels), Rewrite(kernels=kernels)
    programs = [
        lower(edge, StockPass()),
        lowered(),
        lowered(FoldConstants(_FOLD_LIMIT)),
        lowered(rewriting),
        lowered(FoldConstants(_FOLD_LIMIT), again),
    ]
    expected = programs[1].run([inputs])[0]
    for column, program in zip(_COLUMNS, programs, strict=True):
        if not all(torch.equal(a, b) for a, b in zip(expected, program.run([inputs])[0], strict=True)):
            raise SystemExit(f"{name}, {column}: outputs differ")
    rules = [win.rule for win in rewriting.rewritten[0].wins]
    return [program.arena_bytes() for program in programs], rules


def main() -> None:
    """Measure, and print a line for each model."""
    from rewrite_models import REWRITE_MODELS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[[], *REWRITE_MODELS], help="models to measure")
    parser.add_argument("--linear", action="store_true", help="the kernel library has linear")
    parser.add_argument("--markdown", action="store_true", help="print a table for the documentation")
    options = parser.parse_args()
    between, around = (" | ", "| ") if options.markdown else ("  ", "")
    for name in options.models or REWRITE_MODELS:
        sizes, rules = measure(name, ("linear",) if options.linear else ())
        cells = [name, *(f"{size:,}" for size in sizes), f"{sizes[4] / sizes[2]:.2f}", ", ".join(rules)]
        print(around + between.join(cells) + around[::-1], flush=True)


if __name__ == "__main__":
    main()
