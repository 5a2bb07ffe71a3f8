"""Wrong plans in banks are refused: each way in which one may be wrong, on real data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import lowtide
from lowtide.base.errors import VerificationError
from lowtide.formats.csv.reading import read_csv
from lowtide.ir.memory_map import Bank, MemoryMap, Pin
from lowtide.ir.plan import Plan
from lowtide.ir.problem import Buffer, Problem

DATA = Path(__file__).parents[2] / "benchmarks" / "data" / "executorch-greedy"
FAST, SLOW = Bank("fast", 700_000, 1, alignment=16), Bank("slow", 1 << 23, 2, read_cost=8.0, write_cost=8.0)
MEMORY = MemoryMap((FAST, SLOW))


@pytest.fixture(scope="module")
def plan() -> Plan:
    found = lowtide.plan(read_csv(DATA / "vit_tiny.csv"), memory_map=MEMORY, timeout=5)
    lowtide.verify(found)
    lowtide.verify(found, read_csv(DATA / "vit_tiny.csv"), memory_map=MEMORY)
    return found


def kinds(plan: Plan, **against: object) -> set[str]:
    with pytest.raises(VerificationError) as caught:
        lowtide.verify(plan, **against)  # type: ignore[arg-type]
    return {violation.kind for violation in caught.value.violations}


def in_arena(plan: Plan, i: int, arena: int) -> Plan:
    """The plan with one buffer said to be in another bank, at the same offset."""
    buffers = list(plan.problem.buffers)
    buffers[i] = replace(buffers[i], arena=arena)
    return replace(plan, problem=replace(plan.problem, buffers=tuple(buffers)))


def test_a_buffer_beyond_its_bank(plan):
    i = next(i for i, b in enumerate(plan.problem.buffers) if b.arena == 1 and b.size)
    offsets = list(plan.offsets)
    offsets[i] = FAST.size // 16 * 16
    assert "capacity" in kinds(replace(plan, offsets=tuple(offsets)))


def test_every_buffer_moved_to_the_other_bank_is_noticed(plan):
    """Its accesses are counted where it is no longer, and it may lie over others."""
    for i, buffer in enumerate(plan.problem.buffers):
        if buffer.size:
            assert "totals" in kinds(in_arena(plan, i, 3 - buffer.arena)), buffer.id


def test_an_offset_off_its_banks_alignment(plan):
    i = next(i for i, b in enumerate(plan.problem.buffers) if b.arena == 1 and b.size)
    offsets = list(plan.offsets)
    offsets[i] += 1
    assert "alignment" in kinds(replace(plan, offsets=tuple(offsets)))


@pytest.mark.parametrize("change", [{"read_bytes": 1}, {"written_bytes": 1}, {"name": "slow"}, {"mem_id": 7}])
def test_what_is_said_of_a_bank_is_checked(plan, change):
    first, *rest = plan.banks
    assert "totals" in kinds(replace(plan, banks=(replace(first, **change), *rest)))


def test_a_bound_above_the_cost(plan):
    assert "totals" in kinds(replace(plan, cost_bound=plan.cost + 1))


def test_another_map_than_the_plan_is_of(plan):
    problem = read_csv(DATA / "vit_tiny.csv")
    for other in (
        replace(FAST, size=FAST.size + 16),
        replace(FAST, alignment=32),
        replace(FAST, read_cost=2.0),
    ):
        assert kinds(plan, source=problem, memory_map=MemoryMap((other, SLOW))) == {"misfit"}


def test_a_pin_that_is_not_kept():
    problem = Problem((Buffer("a", 16, ((0, 2),), kind="state"), Buffer("b", 16, ((1, 3),))))
    pinned = MemoryMap((Bank("fast", 64, 1), Bank("slow", 64, 2, read_cost=9.0)), (Pin("state", "slow"),))
    free = replace(pinned, pins=())
    assert lowtide.plan(problem, memory_map=pinned).problem.buffers[0].arena == 2
    assert kinds(lowtide.plan(problem, memory_map=free), source=problem, memory_map=pinned) == {"pin"}
