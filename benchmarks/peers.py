"""Lowtide beside other planners, where they are installed, on the same instances.

Lowtide is its default packer, told no capacity. The others, none of which it needs:

- MiniMalloc, a binary that the environment variable LOWTIDE_MINIMALLOC names. It looks for a plan within a
  capacity and does not minimise, so it is told one: 1,048,576 bytes for its own eleven instances, for others
  what Lowtide reached. Its time is what is to be compared.
- OmniMalloc, the package ``omnimalloc`` on PyPI.
- CP-SAT of OR-tools, the package ``ortools`` on PyPI: an exact reference on instances of up to 300 buffers.

Each planner runs in a process of its own. Every plan is checked by one verifier. A cell has the arena as a
multiple of the live-bytes bound, the seconds that planning took, and in brackets those of all processors
together, which a busy machine distorts less; a star says that it is proved optimal.

    python benchmarks/peers.py minimalloc/A.1048576 idealloc/S_1 mixed:10000
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import importlib.util
import multiprocessing
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.table import Table

from instances import DATA, Instance, load
from lowtide import Buffer, Problem, _kernel
from lowtide.pack import Options
from lowtide.pack.planner import plan_problem

MINIMALLOC = "LOWTIDE_MINIMALLOC"

ELEVEN = [f"minimalloc/{path.stem}" for path in sorted((DATA / "minimalloc").glob("[A-K].*.csv"))]

INSTANCES = [
    *ELEVEN,
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

CPSAT_LIMIT = 300
"""Buffers beyond which CP-SAT would only use up its time."""

SHARE = 0.8
"""Of a peer's patience, for those that can be told how long to take."""


@dataclass(frozen=True)
class Limits:
    """What a planner is given: seconds, where it takes a deadline, and bytes, where it needs a capacity."""

    seconds: float
    capacity: int


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


Planner = Callable[[Instance, Limits], tuple[list[int], bool]]
"""Offsets, and whether the planner itself says that they are the best there are."""


def lowtide(instance: Instance, limits: Limits) -> tuple[list[int], bool]:
    """The default packer through the public interface."""
    rows = _rows(instance)
    buffers = tuple(Buffer(str(i), size, ((start, stop),)) for i, (size, start, stop) in enumerate(rows))
    plan = plan_problem(Problem(buffers), options=Options(timeout=limits.seconds))
    return list(plan.offsets), plan.is_optimal


def minimalloc(instance: Instance, limits: Limits) -> tuple[list[int], bool]:
    """A plan within the capacity, from a file and to a file, as it works."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "in.csv", Path(folder) / "out.csv"
        with given.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("id", "lower", "upper", "size"))
            writer.writerows((i, start, stop, size) for i, (size, start, stop) in enumerate(_rows(instance)))
        flags = (f"--capacity={limits.capacity}", f"--input={given}", f"--output={found}")
        subprocess.run([os.environ[MINIMALLOC], *flags], check=True, capture_output=True)
        with found.open(newline="") as file:
            offset = {int(row["id"]): int(row["offset"]) for row in csv.DictReader(file)}
    return [offset[i] for i in range(len(instance))], False


def _omnimalloc(allocator: str) -> Planner:
    def plan(instance: Instance, _limits: Limits) -> tuple[list[int], bool]:
        import omnimalloc

        buffers = [
            omnimalloc.Allocation(id=i, size=size, start=start, end=stop)
            for i, (size, start, stop) in enumerate(_rows(instance))
        ]
        placed = omnimalloc.allocate(buffers, allocator)
        return [buffer.offset for buffer in sorted(placed, key=lambda buffer: buffer.id)], False

    return plan


def cpsat(instance: Instance, limits: Limits) -> tuple[list[int], bool]:
    """Rectangles in time and space that do not overlap, under a ceiling that is to be as low as can be."""
    from ortools.sat.python import cp_model

    if len(instance) > CPSAT_LIMIT:
        raise OverflowError(f"over {CPSAT_LIMIT} buffers")
    model = cp_model.CpModel()
    rows = _rows(instance)
    highest = sum(size for size, _, _ in rows)
    ceiling = model.new_int_var(_kernel.live_peak(instance.problem()), highest, "ceiling")
    offsets, across, along = [], [], []
    for size, start, stop in rows:
        offset = model.new_int_var(0, highest - size, "")
        offsets.append(offset)
        across.append(model.new_fixed_size_interval_var(start, stop - start, ""))
        along.append(model.new_fixed_size_interval_var(offset, size, ""))
        model.add(offset + size <= ceiling)
    model.add_no_overlap_2d(across, along)
    model.minimize(ceiling)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limits.seconds
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise TimeoutError
    return [solver.value(offset) for offset in offsets], status == cp_model.OPTIMAL


def planners() -> dict[str, Planner]:
    """Those that can run here, by the heading of their column."""
    found: dict[str, Planner] = {"lowtide": lowtide}
    if os.environ.get(MINIMALLOC):
        found["minimalloc (told capacity)"] = minimalloc
    if importlib.util.find_spec("ortools"):
        found[f"cp-sat {importlib.metadata.version('ortools')}"] = cpsat
    if importlib.util.find_spec("omnimalloc"):
        version = importlib.metadata.version("omnimalloc")
        for allocator in ("omni", "greedy_by_all", "best_fit", "hill_climb", "supermalloc"):
            found[f"omnimalloc {version} {allocator}"] = _omnimalloc(allocator)
    return found


def _rows(instance: Instance) -> list[tuple[int, int, int]]:
    """Size, start and stop of each buffer, as Python's integers."""
    columns = (instance.sizes.tolist(), instance.starts.tolist(), instance.stops.tolist())
    return list(zip(*columns, strict=True))


def _cpu_seconds() -> float:
    """Of this process, its threads, and the children that it has waited for."""
    return sum(os.times()[:4])


def _run(planner: str, name: str, limits: Limits, out: Connection) -> None:
    instance = load(name)
    begin, cpu_begin = time.monotonic(), _cpu_seconds()
    try:
        offsets, proved = planners()[planner](instance, limits)
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
        process.kill()
        process.join()


def _compare(names: list[str], instance: str, seconds: float, patience: float) -> list[Outcome]:
    """Lowtide first: for instances that state no capacity, its arena is the one that others are told."""
    ours = run(names[0], instance, Limits(seconds, 0), patience)
    capacity = int(instance.rpartition(".")[2]) if instance in ELEVEN else ours.arena
    limits = Limits(SHARE * patience, capacity)
    return [ours, *(run(name, instance, limits, patience) for name in names[1:])]


def _summary(names: list[str], rows: list[list[Outcome]]) -> Table:
    """Each peer against Lowtide, over the instances that both have planned: geometric means and sums."""
    table = Table("planner", "planned", "arena / lowtide's", "CPU seconds", "lowtide's", title="Ratios")
    for column, name in enumerate(names):
        both = [(row[column], row[0]) for row in rows if not (row[column].failure or row[0].failure)]
        ratio = 1.0
        for theirs, ours in both:
            ratio *= (theirs.arena / ours.arena) ** (1 / len(both))
        theirs_total, ours_total = (sum(pair[k].cpu_seconds for pair in both) for k in (0, 1))
        cells = (f"{ratio:.5f}", f"{theirs_total:.2f}", f"{ours_total:.2f}") if both else ("", "", "")
        table.add_row(name, f"{len(both)} of {len(rows)}", *cells)
    return table


def main() -> None:
    """Print a row for each instance, then the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("instances", nargs="*", default=INSTANCES)
    parser.add_argument("--seconds", type=float, default=5.0, help="Lowtide's deadline")
    parser.add_argument("--patience", type=float, default=60.0, help="after which a peer is ended")
    parser.add_argument("--only", nargs="+", default=[], help="planners whose names contain one of these")
    options = parser.parse_args()
    names = [n for n in planners() if n == "lowtide" or not options.only or any(o in n for o in options.only)]
    console = Console(width=28 + 24 * len(names))
    table = Table("instance", *names, title="Arena over live bytes")
    rows = []
    for instance in options.instances:
        rows.append(_compare(names, instance, options.seconds, options.patience))
        table.add_row(instance, *map(str, rows[-1]))
    console.print(table)
    console.print(_summary(names, rows))


if __name__ == "__main__":
    main()
