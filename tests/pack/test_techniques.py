"""Plans with and without what kernels allow: never more than without, told step by step, limits kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowtide.base.errors import InfeasibleError, InputError
from lowtide.ir.flow import FlowGraph
from lowtide.ir.memory_map import Bank, MemoryMap
from lowtide.ir.plan import Applied
from lowtide.ir.problem import Buffer, Problem
from lowtide.ir.program import Match, Program, Region, Step, Storage, Value
from lowtide.ir.request import Request
from lowtide.lifetimes.timeline import build_problem
from lowtide.pack.registry import Options
from lowtide.pack.techniques import Techniques, layouts_of, plan_layouts, plan_program
from lowtide.sources import load
from lowtide.verifier.checks import verify

EVERYTHING = Techniques(in_place=True, elide_copies=True)


def chain() -> Program:
    """x -> a -> b, each over the one before if the kernel may; then two parts joined to a whole."""
    names = ("x", "a", "b", "left", "right", "whole")
    sizes = (64, 64, 64, 64, 64, 128)
    kinds = ("input", "temporary", "temporary", "temporary", "temporary", "output")
    storages = tuple(
        Storage(f"root/{name}", size, kind, alignment=16)
        for name, size, kind in zip(names, sizes, kinds, strict=True)
    )
    values = tuple(Value(f"root/{name}", storage=i, layout="dense") for i, name in enumerate(names))
    steps = (
        Step("a", "relu", reads=(0,), writes=(1,), overwrites=((1, 0),)),
        Step("b", "relu", reads=(1,), writes=(2,), overwrites=((2, 1),)),
        Step("left", "mm", reads=(2,), writes=(3,)),
        Step("right", "mm", reads=(2,), writes=(4,)),
        Step("whole", "cat", reads=(3, 4), writes=(5,), matches=(Match(3, 5, 0), Match(4, 5, 64))),
    )
    return Program((Region(params=(0,), steps=steps, outputs=(5,)),), values, storages)


@pytest.mark.parametrize(
    ("techniques", "arena"),
    [
        (Techniques(), 256),  # both parts beside their whole
        (Techniques(in_place=True), 256),
        (Techniques(elide_copies=True), 192),  # b beside both parts, which are the whole
        (EVERYTHING, 192),
    ],
)
def test_what_each_technique_saves(techniques, arena):
    program = chain()
    plan = plan_program(program, techniques, options=Options(timeout=None))
    assert plan.arena_bytes == arena
    assert plan.is_optimal
    verify(plan, program)


def test_the_plan_tells_where_it_makes_use_of_what():
    plan = plan_program(chain(), EVERYTHING, options=Options(timeout=None))
    assert {use for use in plan.applied if use.technique == "elided-copy"} == {
        Applied("root/whole", "elided-copy", "root/whole", "root/left"),
        Applied("root/whole", "elided-copy", "root/whole", "root/right"),
    }
    for use in plan.applied:
        if use.technique == "in-place":
            assert plan.offset_of(use.written) == plan.offset_of(use.read)
    assert plan_program(chain(), Techniques(), options=Options(timeout=None)).applied == ()


def test_a_capacity_that_only_the_techniques_keep():
    program = chain()

    def limit(problem):
        return replace(problem, arenas=tuple(replace(arena, capacity=192) for arena in problem.arenas))

    assert plan_program(program, EVERYTHING, options=Options(timeout=None), limit=limit).arena_bytes == 192
    with pytest.raises(InfeasibleError, match="192"):
        plan_program(program, Techniques(), options=Options(timeout=None), limit=limit)


def test_a_part_that_is_written_later_stays_outside():
    program = chain()
    region = program.regions[0]
    late = Step("late", "fill", writes=(3,))
    used = Step("used", "copy", reads=(3,), writes=(2,))
    after = replace(program, regions=(replace(region, steps=(*region.steps, late, used), outputs=(5, 2)),))
    problem = build_problem(after, elide_copies=True)
    assert {placement.inner for placement in problem.placements} == {"root/right"}


def test_a_part_at_two_places_of_a_whole_stays_outside():
    program = chain()
    region = program.regions[0]
    twice = replace(region.steps[-1], reads=(3,), matches=(Match(3, 5, 0), Match(3, 5, 64)))
    steps = (*region.steps[:3], twice)
    problem = build_problem(replace(program, regions=(replace(region, steps=steps),)), elide_copies=True)
    assert problem.placements == ()


def test_what_is_read_later_is_not_written_over():
    program = chain()
    region = program.regions[0]
    later = replace(region, steps=(*region.steps, Step("again", "sum", reads=(0,), writes=(1,))))
    problem = build_problem(replace(program, regions=(later,)), in_place=True)
    pairs = set(map(frozenset, problem.may_coincide))
    assert {"root/a", "root/x"} not in pairs
    assert {"root/b", "root/a"} in pairs


def test_what_cannot_be_had_is_said():
    problem = build_problem(chain())
    loaded = load(problem, Request(in_place=True, reorder=True))
    assert loaded.remarks == ("Without effect, as there is no program to look at: in-place, reorder.",)
    with pytest.raises(InputError, match="fixed"):
        load(chain(), Request(fold_constants=True))


def test_no_more_is_proved_than_holds_with_everything_allowed():
    """What wins with less allowed is not the smallest there can be because it is the smallest of its kind."""
    _, flow = layouts_of(chain())(Techniques())
    wide = Problem(
        (Buffer("a", 64, ((0, 1),)), Buffer("b", 64, ((1, 2),)))
    )  # a naive packer takes 128 for 64
    narrow = Problem((Buffer("whole", 96, ((0, 2),)),))

    def layouts(choice: Techniques) -> tuple[Problem, FlowGraph]:
        return (wide if choice.in_place else narrow), flow

    found = plan_layouts(layouts, Techniques(in_place=True), packer="naive", options=Options())
    assert (found.arena_bytes, found.lower_bound_bytes, found.is_optimal) == (96, 64, False)
    verify(found)


def test_bounds_of_banks_are_those_of_the_choice_that_was_made():
    _, flow = layouts_of(chain())(Techniques())
    huge = Problem((Buffer("a", 4096, ((0, 1),)),))  # fits in no bank
    narrow = Problem((Buffer("a", 96, ((0, 2),)), Buffer("b", 64, ((0, 2),))))

    def layouts(choice: Techniques) -> tuple[Problem, FlowGraph]:
        return (huge if choice.in_place else narrow), flow

    banks = MemoryMap((Bank("fast", 100, 1), Bank("slow", 1024, 2, read_cost=9.0)))
    found = plan_layouts(layouts, Techniques(in_place=True), options=Options(), memory=banks)
    assert [(use.bytes, use.lower_bound_bytes) for use in found.uses] == [(96, 96), (64, 64)]
    verify(found)
