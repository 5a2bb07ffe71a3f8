"""Other planners, each as a function from an instance to offsets; none of them is needed to plan.

A planner is listed by ``planners()`` where it is installed: MiniMalloc is a binary that the environment
variable LOWTIDE_MINIMALLOC names, OmniMalloc, OR-tools and ExecuTorch are packages. TensorFlow Lite Micro's
planner is the simulation of it that Lowtide's front end holds, which is tested against the interpreter.
"""

from __future__ import annotations

import csv
import functools
import importlib.metadata
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from instances import Instance
from lowtide import Buffer, Problem, _kernel
from lowtide.frontends.tflite.interpreter import ONLINE, place_greedily
from lowtide.pack import Options
from lowtide.pack.planner import plan_problem

MINIMALLOC = "LOWTIDE_MINIMALLOC"

CPSAT_LIMIT = 300
"""Buffers beyond which CP-SAT would only use up its time."""


@dataclass(frozen=True)
class Limits:
    """What a planner is given: seconds, where it takes a deadline, and bytes, where it needs a capacity."""

    seconds: float
    capacity: int


Planner = Callable[[Instance, Limits], tuple[list[int], bool]]
"""Offsets, and whether the planner itself says that they are the best there are."""

Maker = Callable[[], Planner]
"""Imports a planner's package, so that the import is not counted as planning."""


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
    import omnimalloc

    def plan(instance: Instance, _limits: Limits) -> tuple[list[int], bool]:
        buffers = [
            omnimalloc.Allocation(id=i, size=size, start=start, end=stop)
            for i, (size, start, stop) in enumerate(_rows(instance))
        ]
        placed = omnimalloc.allocate(buffers, allocator)
        return [buffer.offset for buffer in sorted(placed, key=lambda buffer: buffer.id)], False

    return plan


def _cpsat() -> Planner:
    from ortools.sat.python import cp_model

    def plan(instance: Instance, limits: Limits) -> tuple[list[int], bool]:
        """Rectangles in time and space that do not overlap, under a ceiling that is minimised."""
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

    return plan


@dataclass(eq=False)
class _Spec:
    """As much of ExecuTorch's TensorSpec as its planner reads."""

    allocated_memory: int
    lifetime: list[int]
    mem_id: int | None = None
    storage_base: None = None

    def realign(self, alignment: int) -> None:
        """Do nothing: instances state sizes that are aligned as they should be."""


@dataclass(frozen=True)
class _Graph:
    """As much of a graph module as ExecuTorch's planner reads: no inputs of a submodule."""

    input_mem_buffer_sizes: list[int] = field(default_factory=list)


def _executorch_greedy() -> Planner:
    from executorch.exir.memory_planning import greedy

    def plan(instance: Instance, _limits: Limits) -> tuple[list[int], bool]:
        """ExecuTorch's default planner itself, told each buffer's lifetime, which includes both ends."""
        specs = [_Spec(size, [start, stop - 1]) for size, start, stop in _rows(instance)]
        found = greedy(1, dict.fromkeys(specs), _Graph(), None).spec_dict
        return [found[spec].mem_offset for spec in specs], False

    return plan


def micro_greedy(instance: Instance, _limits: Limits) -> tuple[list[int], bool]:
    """TensorFlow Lite Micro's GreedyMemoryPlanner; its lifetimes include both ends."""
    rows = _rows(instance)
    intervals = [(start, stop - 1) for _, start, stop in rows]
    return place_greedily([size for size, _, _ in rows], intervals, [ONLINE] * len(rows)), False


def planners() -> dict[str, Maker]:
    """Those that can run here, by the heading of their column."""
    found: dict[str, Maker] = {"lowtide": lambda: lowtide, "tflm greedy (simulated)": lambda: micro_greedy}
    if importlib.util.find_spec("executorch"):
        found[f"executorch {importlib.metadata.version('executorch')} greedy"] = _executorch_greedy
    if os.environ.get(MINIMALLOC):
        found["minimalloc (told capacity)"] = lambda: minimalloc
    if importlib.util.find_spec("ortools"):
        found[f"cp-sat {importlib.metadata.version('ortools')}"] = _cpsat
    if importlib.util.find_spec("omnimalloc"):
        version = importlib.metadata.version("omnimalloc")
        for allocator in ("omni", "greedy_by_all", "best_fit", "hill_climb", "supermalloc"):
            found[f"omnimalloc {version} {allocator}"] = functools.partial(_omnimalloc, allocator)
    return found


def _rows(instance: Instance) -> list[tuple[int, int, int]]:
    """Size, start and stop of each buffer, as Python's integers."""
    columns = (instance.sizes.tolist(), instance.starts.tolist(), instance.stops.tolist())
    return list(zip(*columns, strict=True))
