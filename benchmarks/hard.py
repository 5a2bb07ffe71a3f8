"""MiniMalloc's eleven hard instances, and disguises of them, planned without being told the capacity.

Each is a whole run of ``lowtide plan FILE --timeout SECONDS``, start-up included. Every plan is verified.

    python benchmarks/hard.py --seconds 1 --disguises
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lowtide import Buffer, Problem
from lowtide.formats.csv.reading import read_csv
from lowtide.formats.csv.writing import problem_to_csv
from lowtide.formats.json.reading import plan_from_json

DATA = Path(__file__).parent / "data" / "minimalloc"


def disguises(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """The same problem under another face: a solver that knows the instances by heart fails here."""
    buffers = list(problem.buffers)
    yield "sizes times 7", Problem(tuple(replace(b, size=7 * b.size) for b in buffers))
    shuffled = random.Random(1).sample(buffers, len(buffers))
    yield "ids permuted", Problem(tuple(replace(b, id=str(i)) for i, b in enumerate(shuffled)))
    ticks = sorted({t for b in buffers for interval in b.lifetime for t in interval})
    random.seed(2)
    clock, at = 0, {}
    for tick in ticks:
        clock += random.randint(1, 1000)
        at[tick] = clock
    remapped = [replace(b, lifetime=tuple((at[s], at[e]) for s, e in b.lifetime)) for b in buffers]
    yield "times remapped", Problem(tuple(remapped))
    later = [_shifted(b, ticks[-1]) for b in buffers]
    yield "twice in a row", Problem((*buffers, *later))


def _shifted(buffer: Buffer, by: int) -> Buffer:
    lifetime = tuple((start + by, stop + by) for start, stop in buffer.lifetime)
    return replace(buffer, id=f"{buffer.id}'", lifetime=lifetime)


def run(path: Path, seconds: float) -> tuple[float, int, int]:
    """Wall seconds of the whole process, arena bytes and proved bound."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "lowtide", "plan", str(path), "--timeout", str(seconds), "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    elapsed = time.perf_counter() - began
    plan = plan_from_json(done.stdout)
    plan.verify()
    return elapsed, plan.arena_bytes, json.loads(done.stdout)["lower_bound_bytes"]


def main() -> None:
    """Print a row for each instance and, if asked, for each disguise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each, as --timeout")
    parser.add_argument("--disguises", action="store_true", help="also the same instances disguised")
    options = parser.parse_args()
    table = Table("instance", "buffers", "arena", "bound", "ratio", "seconds", "", title="Hard instances")
    total = 0.0
    proved = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(DATA.glob("[A-K].*.csv")):
            problem = read_csv(path)
            faces = [("", problem), *(disguises(problem) if options.disguises else [])]
            for face, disguised in faces:
                file = Path(folder) / "instance.csv"
                file.write_text(problem_to_csv(disguised))
                elapsed, arena, bound = run(file, options.seconds)
                if arena == bound and not face:
                    total += elapsed
                    proved += 1
                table.add_row(
                    f"{path.name[0]} {face}".strip(),
                    str(len(disguised.buffers)),
                    f"{arena:,}",
                    f"{bound:,}",
                    f"{arena / bound:.4f}",
                    f"{elapsed:.2f}",
                    "optimal" if arena == bound else "",
                )
    console = Console()
    console.print(table)
    console.print(f"{proved} instances proved optimal in {total:.2f} s of whole processes")


if __name__ == "__main__":
    main()
