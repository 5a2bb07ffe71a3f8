"""Lowtide beside every other planner that is installed, on every data set: arena, time and proof.

Lowtide is its default packer, told no capacity. The others are listed in ``planners.py``. MiniMalloc looks
for a plan within a capacity and does not minimise, so it is told one: 1,048,576 bytes for its own eleven
instances, and for others what Lowtide reached. Its time is what is to be compared.

Each planner runs in a process of its own. Every plan is checked by one verifier. A cell has the arena as a
multiple of the live-bytes bound, the seconds that planning took, and in brackets those of all processors
together, which a busy machine distorts less; a star says that the planner itself proved its arena optimal.

    python benchmarks/peers.py minimalloc/A.1048576 idealloc/S_1 mixed:10000
    python benchmarks/peers.py --page docs/yardstick.md
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import multiprocessing
import os
import platform
import signal
import time
from dataclasses import dataclass
from math import prod
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from instances import DATA, load
from lowtide import __version__, _kernel
from planners import Limits, planners

ELEVEN = [f"minimalloc/{path.stem}" for path in sorted((DATA / "minimalloc").glob("[A-K].*.csv"))]

RECORDED = [
    f"{path.parent.name}/{path.stem}"
    for folder in ("executorch-greedy", "idealloc")
    for path in sorted((DATA / folder).glob("*.csv"))
]

SYNTHETIC = [f"{name}:10000" for name in ("short-lived", "heavy-tailed", "training", "mixed", "staged")]

INSTANCES = [*ELEVEN, *RECORDED, *SYNTHETIC]

SHARE = 0.8
"""The part of a peer's patience that those planners are told which take a deadline."""


@dataclass(frozen=True)
class Outcome:
    """What became of one run: arena, bound and seconds, or in ``failure`` why there is no plan."""

    arena: int = 0
    bound: int = 1
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    proved: bool = False
    failure: str = ""

    def __str__(self) -> str:
        if self.failure:
            return self.failure
        star = "*" if self.proved else ""
        return f"{self.arena / self.bound:.5f}{star} in {self.seconds:.2f} s ({self.cpu_seconds:.2f})"


def _cpu_seconds() -> float:
    """Of this process, its threads, and the children that it has waited for."""
    return sum(os.times()[:4])


def _run(planner: str, name: str, limits: Limits, out: Connection) -> None:
    os.setsid()  # what the planner starts is ended with it
    instance = load(name)
    plan = planners()[planner]()
    begin, cpu_begin = time.monotonic(), _cpu_seconds()
    try:
        offsets, proved = plan(instance, limits)
    except Exception as error:
        out.send(Outcome(failure=str(error) if isinstance(error, OverflowError) else type(error).__name__))
        return
    elapsed, cpu = time.monotonic() - begin, _cpu_seconds() - cpu_begin
    problem = instance.problem()
    if _kernel.check(problem, offsets).violations:
        out.send(Outcome(failure="wrong plan"))
        return
    arena = max(offset + size for offset, size in zip(offsets, instance.sizes.tolist(), strict=True))
    out.send(Outcome(arena, _kernel.live_peak(problem), elapsed, cpu, proved))


def run(planner: str, name: str, limits: Limits, patience: float) -> Outcome:
    """What one planner makes of one instance, in a process of its own, ended when patience is."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(planner, name, limits, send))
    process.start()
    send.close()
    try:
        if not receive.poll(patience):
            return Outcome(failure=f"none in {patience:.0f} s")
        outcome: Outcome = receive.recv()
        return outcome
    except EOFError:
        return Outcome(failure="died")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.kill()
        process.join()


def compare(names: list[str], instance: str, seconds: float, patience: float) -> list[Outcome]:
    """Lowtide first: for instances that state no capacity, its arena is the one that others are told."""
    ours = run(names[0], instance, Limits(seconds, 0), patience)
    capacity = int(instance.rpartition(".")[2]) if instance in ELEVEN else ours.arena
    limits = Limits(SHARE * patience, capacity)
    return [ours, *(run(name, instance, limits, patience) for name in names[1:])]


Summary = list[tuple[str, str, str, str, str]]


def summary(names: list[str], rows: list[list[Outcome]]) -> Summary:
    """Each peer against Lowtide, over the instances that both have planned: geometric means and sums."""
    found: Summary = []
    for column, name in enumerate(names):
        both = [(row[column], row[0]) for row in rows if not (row[column].failure or row[0].failure)]
        cells = ("", "", "")
        if both:
            ratio = prod((theirs.arena / ours.arena) ** (1 / len(both)) for theirs, ours in both)
            theirs_total, ours_total = (sum(pair[k].cpu_seconds for pair in both) for k in (0, 1))
            cells = (f"{ratio:.5f}", f"{theirs_total:.2f}", f"{ours_total:.2f}")
        found.append((name, f"{len(both)} of {len(rows)}", *cells))
    return found


HEADINGS = ("planner", "planned", "arena / Lowtide's", "CPU seconds", "Lowtide's")


PAGE = """\
# The yardstick

`python benchmarks/peers.py --page docs/yardstick.md` writes this page. It runs every planner that is
installed on every data set in `benchmarks/data` and on five synthetic ones, each run in a process of
its own, and one verifier checks every plan.

Made on {made}. Lowtide had {seconds} s per
instance, and every other planner was ended after {patience} s.

A cell holds the arena as a multiple of the most bytes alive at once, which no plan is below, and the
seconds that planning took. A star says that the planner proved its arena the smallest there is.
MiniMalloc looks for a plan within a capacity and does not minimise, so it is told one: 1,048,576
bytes for its own instances A to K, and what Lowtide reached for all others.

{table}

## Ratios

Each line covers the instances that both planners planned: the geometric mean of the arenas, and the
processor time of all threads.

{ratios}

The instances A to K are from [MiniMalloc](https://github.com/google/minimalloc) (Apache-2.0),
`idealloc` is from [idealloc](https://github.com/cappadokes/idealloc) (MIT), and `executorch-greedy`
holds the lifetimes of twelve models as ExecuTorch 1.4.1 lowers them.
"""


def page(
    names: list[str], instances: list[str], rows: list[list[Outcome]], seconds: float, patience: float
) -> str:
    """The comparison as a page of the documentation."""

    def line(cells: tuple[str, ...]) -> str:
        return f"| {' | '.join(cells)} |"

    def cell(outcome: Outcome) -> str:
        if outcome.failure:
            return outcome.failure
        star = r"\*" if outcome.proved else ""
        return f"{outcome.arena / outcome.bound:.4f}{star} {outcome.seconds:.2f} s"

    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    table = [line(("instance", *names)), line(("---", *["---:"] * len(names)))]
    table += [line((name, *map(cell, row))) for name, row in zip(instances, rows, strict=True)]
    ratios = [line(HEADINGS), line(("---", *["---:"] * (len(HEADINGS) - 1)))]
    ratios += [line(cells) for cells in summary(names, rows)]
    return PAGE.format(
        made=f"{today} with Lowtide {__version__} on {machine}",
        seconds=f"{seconds:g}",
        patience=f"{patience:g}",
        table="\n".join(table),
        ratios="\n".join(ratios),
    )


def main() -> None:
    """Print a row for each instance, then the ratios; write the page if one is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("instances", nargs="*", default=INSTANCES)
    parser.add_argument("--seconds", type=float, default=5.0, help="Lowtide's deadline")
    parser.add_argument("--patience", type=float, default=60.0, help="after which a peer is ended")
    parser.add_argument("--only", nargs="+", default=[], help="planners whose names contain one of these")
    parser.add_argument("--page", type=Path, help="a Markdown file to write the comparison to")
    options = parser.parse_args()
    names = [n for n in planners() if n == "lowtide" or not options.only or any(o in n for o in options.only)]
    console = Console(width=28 + 24 * len(names))
    table = Table("instance", *names, title="Arena over live bytes")
    rows = []
    for instance in track(options.instances, "comparing", console=Console(stderr=True)):
        rows.append(compare(names, instance, options.seconds, options.patience))
        table.add_row(instance, *map(str, rows[-1]))
    console.print(table)
    ratios = Table(*HEADINGS, title="Ratios")
    for cells in summary(names, rows):
        ratios.add_row(*cells)
    console.print(ratios)
    if options.page:
        options.page.write_text(page(names, options.instances, rows, options.seconds, options.patience))


if __name__ == "__main__":
    main()
