"""Lowtide beside other planners, where they are installed, on the same instances.

Each planner runs in a process of its own; every plan is checked by one verifier, and the table shows the
arena as a multiple of the live-bytes bound. OmniMalloc is the package `omnimalloc` on PyPI.

    python benchmarks/peers.py idealloc/S_1 mixed:10000
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from rich.console import Console
from rich.table import Table

from instances import Instance, load
from lowtide import _kernel

Planner = Callable[[Instance, float], list[int]]

INSTANCES = [
    "idealloc/resnet50",
    "idealloc/G_1",
    "idealloc/pangu_2.6B",
    "idealloc/S_1",
    "idealloc/Y_1",
    "short-lived:10000",
    "heavy-tailed:10000",
    "training:10000",
    "mixed:10000",
    "staged:10000",
]


def lowtide(instance: Instance, seconds: float) -> list[int]:
    """The near-linear portfolio on two threads."""
    return list(_kernel.improve(instance.problem(), seconds, threads=2).offsets)


def _omnimalloc(allocator: str) -> Planner:
    def plan(instance: Instance, _seconds: float) -> list[int]:
        import omnimalloc

        rows = zip(instance.sizes.tolist(), instance.starts.tolist(), instance.stops.tolist(), strict=True)
        buffers = [
            omnimalloc.Allocation(id=i, size=size, start=start, end=stop)
            for i, (size, start, stop) in enumerate(rows)
        ]
        placed = omnimalloc.allocate(buffers, allocator)
        return [buffer.offset for buffer in sorted(placed, key=lambda buffer: buffer.id)]

    return plan


def planners() -> dict[str, Planner]:
    """Those that can run here."""
    found: dict[str, Planner] = {"lowtide": lowtide}
    if importlib.util.find_spec("omnimalloc"):
        for allocator in ("omni", "greedy_by_all", "best_fit", "hill_climb", "supermalloc"):
            found[f"omnimalloc {allocator}"] = _omnimalloc(allocator)
    return found


def _run(planner: str, name: str, seconds: float, out: Connection) -> None:
    instance = load(name)
    begin = time.monotonic()
    try:
        offsets = planners()[planner](instance, seconds)
    except Exception as error:
        out.send(f"{type(error).__name__}")
        return
    elapsed = time.monotonic() - begin
    problem = instance.problem()
    if _kernel.check(problem, offsets).violations:
        out.send("wrong plan")
        return
    ends = (offset + size for offset, size in zip(offsets, instance.sizes.tolist(), strict=True))
    out.send(f"{max(ends) / _kernel.live_peak(problem):.5f} in {elapsed:.2f} s")


def run(planner: str, name: str, seconds: float, patience: float) -> str:
    """What one planner makes of one instance, as a cell of the table."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(planner, name, seconds, send))
    process.start()
    try:
        return str(receive.recv()) if receive.poll(patience) else f"none in {patience:.0f} s"
    except EOFError:
        return "died"
    finally:
        process.kill()
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("instances", nargs="*", default=INSTANCES)
    parser.add_argument("--seconds", type=float, default=3.0, help="Lowtide's deadline")
    parser.add_argument("--patience", type=float, default=60.0, help="after which a planner is ended")
    options = parser.parse_args()
    names = list(planners())
    table = Table("instance", *names, title="Arena over live bytes")
    for instance in options.instances:
        table.add_row(instance, *(run(name, instance, options.seconds, options.patience) for name in names))
    Console(width=40 + 22 * len(names)).print(table)


if __name__ == "__main__":
    main()
