"""How time, memory and gap grow: with the buffers of synthetic problems, with the steps of programs.

For each distribution and count, in a process of its own: one pass of first fit by size (the CPU seconds from
whose growth the exponent is fitted), and the default packer through the public interface under a deadline,
which its cheap first plans may exceed. Every plan is checked.

For programs, in processes of their own too: CPU seconds of planning with the packer first-fit, in-place reuse
allowed at every step, and of following every byte through the program.

    python benchmarks/growth.py --counts 1000 10000 100000 1000000 --seconds 15
    python benchmarks/growth.py --counts --steps 3000 10000 30000 100000 --loops 10 30 100
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

import lowtide
from grown_programs import loops, straight
from instances import load
from lowtide import Buffer, Problem, _kernel
from lowtide.pack import Options
from lowtide.pack.planner import plan_problem
from synthetic import DISTRIBUTIONS

if TYPE_CHECKING:
    from multiprocessing.context import SpawnContext

LOOP_STEPS = 100
"""Of each loop, where loops are nested."""


@dataclass(frozen=True)
class Growth:
    """One row: CPU seconds and gap of one pass; wall seconds and gap of the default packer; peak memory."""

    distribution: str
    count: int
    pass_seconds: float
    pass_ratio: float
    first_plan_seconds: float
    seconds: float
    ratio: float
    check_seconds: float
    peak_mb: float


def _verified(problem: _kernel.Problem, offsets: list[int]) -> float:
    begin = time.process_time()
    violations = _kernel.check(problem, offsets).violations
    if violations:
        raise AssertionError(f"the plan is wrong: {violations[:3]}")
    return time.process_time() - begin


def measure(distribution: str, count: int, seconds: float, threads: int, seed: int) -> Growth:
    """Plans one synthetic problem and measures it; run it in a fresh process, for the peak of memory."""
    instance = load(f"{distribution}:{count}", seed)
    problem = instance.problem()
    bound = _kernel.live_peak(problem)

    begin = time.process_time()
    packing = _kernel.first_fit(problem, _kernel.order_by(problem, "size"))
    pass_seconds = time.process_time() - begin
    check_seconds = _verified(problem, packing.offsets)

    begin = time.monotonic()
    columns = zip(instance.sizes.tolist(), instance.starts.tolist(), instance.stops.tolist(), strict=True)
    asked = Problem(tuple(Buffer(str(i), size, ((a, b),)) for i, (size, a, b) in enumerate(columns)))
    begin = time.monotonic()
    plan = plan_problem(asked, options=Options(timeout=seconds, threads=threads, seed=seed))
    elapsed = time.monotonic() - begin
    plan.verify()
    return Growth(
        distribution,
        count,
        pass_seconds,
        packing.arena / bound,
        plan.history[0].seconds,
        elapsed,
        plan.arena_bytes / plan.lower_bound_bytes,
        check_seconds,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def exponent(rows: list[Growth]) -> float:
    """The slope of log time over log count, by least squares."""
    counts = np.log([row.count for row in rows])
    return float(np.polyfit(counts, np.log([row.pass_seconds for row in rows]), 1)[0])


def measure_program(kind: str, count: int) -> tuple[int, float, float, float]:
    """Steps, CPU seconds of plan and of verify, peak MB; run it in a fresh process, for the peak."""
    program = straight(count) if kind == "straight" else loops(count, LOOP_STEPS)
    begin = time.process_time()
    plan = lowtide.plan(program, packer="first-fit", in_place=True)
    planned = time.process_time()
    lowtide.verify(plan, program)
    verified = time.process_time()
    steps = sum(len(region.steps) for region in program.regions)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return steps, planned - begin, verified - planned, peak


def grow_programs(spawn: SpawnContext, asked: dict[str, list[int]]) -> Table:
    """One row for each kind and size of program."""
    table = Table(title="Programs")
    table.add_column("program")
    for heading in ("steps", "plan, CPU s", "verify, CPU s", "peak MB"):
        table.add_column(heading, justify="right")
    for kind, counts in asked.items():
        for count in counts:
            with spawn.Pool(1) as pool:
                steps, plan, verify, peak = pool.apply(measure_program, (kind, count))
            name = kind if kind == "straight" else f"{count} nested loops"
            table.add_row(name, f"{steps:,}", f"{plan:.1f}", f"{verify:.1f}", f"{peak:.0f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--counts", type=int, nargs="*", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument(
        "--distributions", nargs="+", default=list(DISTRIBUTIONS), choices=list(DISTRIBUTIONS)
    )
    parser.add_argument(
        "--steps",
        type=int,
        nargs="*",
        default=[3_000, 10_000, 30_000, 100_000],
        help="of straight programs",
    )
    parser.add_argument(
        "--loops", type=int, nargs="*", default=[10, 30, 100], help=f"nested, of {LOOP_STEPS} steps each"
    )
    parser.add_argument("--seconds", type=float, default=15.0, help="deadline of the default packer")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    table = Table(title="Growth")
    table.add_column("distribution")
    for heading in (
        "buffers",
        "pass, CPU s",
        "ratio",
        "first plan, s",
        "plan, s",
        "ratio",
        "check, s",
        "peak MB",
        "exponent",
    ):
        table.add_column(heading, justify="right")
    spawn = multiprocessing.get_context("spawn")
    for distribution in options.distributions if options.counts else ():
        rows: list[Growth] = []
        for count in options.counts:
            with spawn.Pool(1) as pool:
                rows.append(
                    pool.apply(measure, (distribution, count, options.seconds, options.threads, options.seed))
                )
        for row in rows:
            last = row is rows[-1]
            table.add_row(
                row.distribution,
                f"{row.count:,}",
                f"{row.pass_seconds:.3f}",
                f"{row.pass_ratio:.4f}",
                f"{row.first_plan_seconds:.2f}",
                f"{row.seconds:.2f}",
                f"{row.ratio:.5f}",
                f"{row.check_seconds:.2f}",
                f"{row.peak_mb:.0f}",
                f"{exponent(rows):.2f}" if last and len(rows) > 1 else "",
                end_section=last,
            )
    console = Console(width=120)
    if options.counts:
        console.print(table)
    if options.steps or options.loops:
        console.print(grow_programs(spawn, {"straight": options.steps, "loops": options.loops}))


if __name__ == "__main__":
    main()
