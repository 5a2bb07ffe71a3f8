"""Random programs with branches, maps and scans, lowered and run on the real runtime against eager."""

from __future__ import annotations

from itertools import islice

import pytest
from executorch.exir.passes import MemoryPlanningPass as StockPass
from torch.export.graph_signature import OutputKind

from emittable import expected, program
from lowtide.executorch import MemoryPlanningPass
from runtime import differences, edge_of, emitted, lower

CHUNKS, CHUNK = 15, 10
"""The slow tests run so many programs in all: 150."""

MISSING_KERNEL = "Failed to load method forward, error: 0x:14"
"""What the runtime says of a program with an operator that it has no kernel for."""


def ran(seed: int) -> bool:
    """Lower, run, compare; whether the program could be run at all.

    Each is planned twice: by lifetimes alone, then with everything that kernels and orders allow, which must
    not change a bit. Inputs are planned in two of three, and so are outputs. What ``torch.export`` or
    ``to_edge`` refuses never comes to a plan, and what needs a kernel that does not exist fails under every
    plan. Any other failure is a fault.
    """
    made = program(seed)
    try:
        edge = edge_of(made.module, made.inputs[0])
    except Exception:
        return False
    options = {"alloc_graph_input": seed % 3 != 1, "alloc_graph_output": seed % 3 != 2}
    planning = MemoryPlanningPass(**options)
    try:
        lowered = lower(edge, planning)
        found = lowered.run(made.inputs)
    except RuntimeError as error:
        if str(error) != MISSING_KERNEL:
            raise AssertionError(f"seed {seed}\n{made.source}") from error
        with pytest.raises(RuntimeError, match=f"^{MISSING_KERNEL}$"):
            lower(edge, StockPass(**options)).run(made.inputs)
        return False
    specs = edge.exported_program().graph_signature.output_specs
    written = [spec.target for spec in specs if spec.kind is OutputKind.USER_INPUT_MUTATION]
    # A layer norm of nearly equal numbers makes much of rounding; wrong bytes make far more.
    faults = differences(expected(made, written), found, tolerance=1e-2)
    assert faults == [], f"seed {seed}: {faults[0]}\n{made.source}"
    (plan,) = lowered.manager.executorch_program.execution_plan
    assert plan.non_const_buffer_sizes == emitted(planning.plan)
    smaller = MemoryPlanningPass(**options, in_place=True, elide_copies=True, reorder=True)
    faults = differences(found, lower(edge, smaller).run(made.inputs), close=False)
    assert faults == [], f"seed {seed}, every technique: {faults[0]}\n{made.source}"
    assert smaller.plan.arena_bytes <= planning.plan.arena_bytes
    return True


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk):
    """Seeds in order until ten programs were run and compared; most can be."""
    seeds = range(chunk * 200, chunk * 200 + 2 * CHUNK)
    assert len(list(islice(filter(ran, seeds), CHUNK))) == CHUNK


def test_a_few_random_programs():
    assert sum(map(ran, range(10_000, 10_003))) >= 2


def test_a_branch_captures_what_was_expanded():
    assert ran(509)


def test_programs_write_to_inputs():
    sources = [program(seed).source for seed in range(40)]
    assert sum("    x0." in source for source in sources) >= 10
