"""Banks: the share of accessed bytes that a fast bank serves, beside two greedy rules; whether it is proved.

    python benchmarks/banks.py                     # every problem, a fast bank of 25, 50 and 75 % of the peak
    python benchmarks/banks.py vit_tiny            # only these
    python benchmarks/banks.py --markdown          # a table for the documentation

``size`` puts the largest buffers into the fast bank first, in the order of ExecuTorch 1.5's planner;
``density`` those with the most accesses per byte and step of life. Both look at live bytes only: a layout
need not exist for them, which favours them. Seconds are processor time of the whole of planning. The slow
bank costs ten times as much per byte.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from lowtide.formats.csv.reading import read_csv
from lowtide.ir.memory_map import Bank, MemoryMap
from lowtide.ir.problem import Buffer, Problem
from lowtide.pack.banks.planning import plan_in_banks
from lowtide.pack.bounds import live_peak
from lowtide.pack.registry import Options

DATA = Path(__file__).parent / "data" / "executorch-greedy"
SHARES = (25, 50, 75)
"""Sizes of the fast bank, in per cent of the live peak."""


def accessed(buffer: Buffer) -> int:
    """Bytes read and written in a run."""
    return sum(buffer.accesses)


def life(buffer: Buffer) -> int:
    """Ticks that a buffer is alive."""
    return sum(stop - start for start, stop in buffer.lifetime)


RULES: dict[str, Callable[[Buffer], float]] = {
    "size": lambda buffer: buffer.size,
    "density": lambda buffer: accessed(buffer) / max(buffer.size * life(buffer), 1),
}


def served_by_rule(problem: Problem, capacity: int, rule: Callable[[Buffer], float]) -> int:
    """Accessed bytes that the fast bank serves if buffers go to it in the order of a rule, while they fit."""
    load = [0] * max((buffer.lifetime[-1][1] for buffer in problem.buffers), default=0)
    served = 0
    for buffer in sorted(problem.buffers, key=rule, reverse=True):
        ticks = [tick for start, stop in buffer.lifetime for tick in range(start, stop)]
        if all(load[tick] + buffer.size <= capacity for tick in ticks):
            served += accessed(buffer)
            for tick in ticks:
                load[tick] += buffer.size
    return served


def rows(names: list[str]) -> Iterator[list[str]]:
    """One row per problem and size of the fast bank."""
    for path in sorted(DATA.glob("*.csv")):
        if names and path.stem not in names:
            continue
        problem = read_csv(path)
        peak, total = live_peak(problem), sum(map(accessed, problem.buffers))
        for share in SHARES:
            fast = Bank("fast", max(peak * share // 100, 1), 1)
            slow = Bank("slow", 1 << 40, 2, read_cost=10.0, write_cost=10.0)
            began = time.process_time()
            plan = plan_in_banks(
                problem,
                MemoryMap((fast, slow)),
                packer="auto",
                hierarchy="joint",
                options=Options(timeout=5.0),
            )
            seconds = time.process_time() - began
            plan.verify()
            proved = "proved" if plan.cost == plan.cost_bound else "open"
            rules = [served_by_rule(problem, fast.size, rule) / total for rule in RULES.values()]
            served = plan.banks[0].accessed_bytes / total
            yield [
                path.stem,
                f"{share} %",
                *(f"{value:.4f}" for value in (*rules, served)),
                proved,
                f"{seconds:.2f}",
            ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="only these problems")
    parser.add_argument("--markdown", action="store_true", help="print a table for the documentation")
    options = parser.parse_args()
    head = ["problem", "fast bank", *RULES, "Lowtide", "", "seconds"]
    if options.markdown:
        print("| " + " | ".join(head) + " |")
        print("|---|" + "---:|" * 4 + "---|---:|")
        for row in rows(options.names):
            print("| " + " | ".join(row) + " |", flush=True)
        return
    table = Table(*head, box=box.SIMPLE_HEAD)
    for row in rows(options.names):
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
