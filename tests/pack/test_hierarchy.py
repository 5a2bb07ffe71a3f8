"""Hierarchy policies: the formulas hold exactly, and looser is never larger."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.base.errors import InputError, UnsupportedError
from lowtide.ir.problem import Buffer, Problem, RegionSpan
from lowtide.ir.program import Call, Program
from lowtide.lifetimes.timeline import build_problem
from lowtide.pack.hierarchy import POLICIES
from lowtide.pack.planner import plan_problem
from lowtide.verifier.checks import verify
from sketch import Sketch

PACKERS = ["naive", "greedy", "first-fit", "best-fit", "auto"]

sizes = st.integers(1, 1000).map(lambda n: 16 * n)


def seed_example(a: int, b: int, c: int, d: int) -> Program:
    """root [a] calls child0 [b], which calls child0.child0 [c], and then child1 [d]."""
    s = Sketch()
    child0 = s.region("child0")
    grandchild = s.region("child0", child0)
    child1 = s.region("child1")
    kept = s.op("a", size=a, alignment=16)
    for region, size, inner in ((grandchild, c, None), (child0, b, grandchild), (child1, d, None)):
        value = s.op("own", region=region, size=size, alignment=16)
        if inner is not None:
            s.step("call", region, call=Call("call", (inner,)))
        s.step("use", region, reads=(value,))
    s.step("call0", call=Call("call", (child0,)))
    s.step("call1", call=Call("call", (child1,)))
    s.step("use", reads=(kept,))
    return s.build()


@pytest.mark.parametrize("packer", PACKERS)
@given(sizes, sizes, sizes, sizes)
def test_the_seeds_example(packer: str, a: int, b: int, c: int, d: int) -> None:
    program = seed_example(a, b, c, d)
    problem = build_problem(program)
    arena = {}
    for policy in POLICIES:
        plan = plan_problem(problem, packer=packer, hierarchy=policy)
        verify(plan, program)
        arena[policy] = plan.arena_bytes
    if packer != "naive":
        assert arena["joint"] == a + max(b + c, d)
    assert arena["sum"] == a + b + c + d
    assert arena["stacked"] == max(c + b, d) + a


def test_formulas_hold_for_each_arena() -> None:
    s = Sketch()
    child0, child1 = s.region("child0"), s.region("child1")
    kept = [s.op(f"a{arena}", size=100 * arena, arena=arena) for arena in (1, 2)]
    for region, size in ((child0, 30), (child1, 50)):
        own = [s.op(f"own{arena}", region=region, size=size * arena, arena=arena) for arena in (1, 2)]
        s.step("use", region, reads=own)
    s.step("call0", call=Call("call", (child0,)))
    s.step("call1", call=Call("call", (child1,)))
    s.step("use", reads=kept)
    problem = build_problem(s.build())
    assert plan_problem(problem, hierarchy="sum").arenas == {1: 180, 2: 360}
    assert plan_problem(problem, hierarchy="stacked").arenas == {1: 150, 2: 300}


def test_block_puts_a_child_into_a_hole_of_its_caller() -> None:
    s = Sketch()
    child = s.region("child")
    x = s.input("x", size=100)
    wide = s.op("wide", x, size=200)  # dead before the call: stacked cannot use its bytes
    narrow = s.op("narrow", wide, size=50)
    s.step("use", child, reads=(s.op("own", region=child, size=150),))
    s.step("call", call=Call("call", (child,)))
    s.returns(s.op("out", narrow, size=10))
    program = s.build()
    problem = build_problem(program)
    arena = {p: plan_problem(problem, hierarchy=p).arena_bytes for p in POLICIES}
    assert arena == {"joint": 300, "block": 300, "stacked": 450, "sum": 450}


def test_exclusive_branches_share_their_blocks() -> None:
    s = Sketch()
    p = s.input("p")
    yes, no = s.region("yes"), s.region("no")
    for region, size in ((yes, 70), (no, 90)):
        s.step("use", region, reads=(s.op("own", region=region, size=size),))
    s.step("cond", call=Call("cond", (yes, no), selector=p))
    problem = build_problem(s.build())
    assert plan_problem(problem, hierarchy="sum").arena_bytes == 16 + 70 + 90
    assert plan_problem(problem, hierarchy="block").arena_bytes == 90  # p is dead after the jump


def test_a_region_called_from_two_regions_lies_below_both() -> None:
    s = Sketch()
    first = s.region("first")
    shared = s.region("shared", first)
    second = s.region("second")
    s.step("use", shared, reads=(s.op("own", region=shared, size=32),))
    for region, size in ((first, 64), (second, 160)):
        value = s.op("own", region=region, size=size)
        s.step("call", region, call=Call("call", (shared,)))
        s.step("use", region, reads=(value,))
    s.step("call0", call=Call("call", (first,)))
    s.step("call1", call=Call("call", (second,)))
    program = s.build()
    problem = build_problem(program)
    for policy, arena in (("sum", 256), ("stacked", 192), ("block", 192), ("joint", 192)):
        plan = plan_problem(problem, hierarchy=policy)  # type: ignore[arg-type]
        verify(plan, program)
        assert plan.arena_bytes == arena


def test_delegate_scratch_is_a_block_of_its_own() -> None:
    from dataclasses import replace

    s = Sketch()
    delegate = s.region("delegate")
    x = s.input("x", size=64)
    s.new("scratch", delegate, size=128, kind="scratch")
    out = s.new("out", size=32)
    s.step("delegate", reads=(x,), writes=(out,))
    s.returns(out)
    program = s.build()
    step = replace(program.regions[0].steps[0], scratch=(1,))
    program = replace(program, regions=(replace(program.regions[0], steps=(step,)), *program.regions[1:]))
    problem = build_problem(program)
    assert {b.name: b.lifetime for b in problem.buffers}["root/delegate/scratch"] == ((1, 2),)
    for policy in POLICIES:
        plan = plan_problem(problem, hierarchy=policy)
        verify(plan, program)
        assert plan.arena_bytes == 224


@st.composite
def trees(draw: st.DrawFn) -> Problem:
    """A random tree of regions on one clock, with buffers of each."""
    regions: list[RegionSpan] = []
    buffers: list[Buffer] = []
    clock = 0

    def region(name: str, parent: str | None, depth: int) -> None:
        nonlocal clock
        start, place = clock, len(regions)
        regions.append(RegionSpan(name, "call", ((0, 1),), parent))
        mine: list[tuple[int, int]] = []
        for k in range(draw(st.integers(0, 3 if depth else 4))):
            mine.append((k, clock))
            clock += 1
            if depth < 3 and draw(st.booleans()):
                region(f"{name}/{k}", name, depth + 1)
        clock += 1
        regions[place] = RegionSpan(name, "call", ((start, clock),), parent)
        for k, born in mine:
            dies = draw(st.integers(born + 1, clock))
            size = draw(st.integers(0, 9)) * 8
            arena = draw(st.sampled_from((1, 1, 2)))
            buffers.append(Buffer(f"{name}.{k}", size, ((born, dies),), 8, arena, region=name))

    region("root", None, 0)
    return Problem(tuple(buffers), regions=tuple(regions))


@given(trees(), st.sampled_from(PACKERS))
def test_looser_is_never_larger(problem: Problem, packer: str) -> None:
    before: dict[int, int] | None = None
    for policy in reversed(POLICIES):
        plan = plan_problem(problem, packer=packer, hierarchy=policy)
        plan.verify()
        if before is not None:
            assert all(plan.arenas[id] <= before[id] for id in before)
        before = plan.arenas


def test_an_unknown_policy_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="no hierarchy 'tall': choose one of joint, block, stacked, sum"):
        plan_problem(build_problem(seed_example(16, 16, 16, 16)), hierarchy="tall")  # type: ignore[arg-type]


def test_pins_go_with_joint_only() -> None:
    problem = Problem(
        (Buffer("a", 8, ((0, 4),), offset=8), Buffer("b", 8, ((1, 3),), region="root/c")),
        regions=(RegionSpan("root", "root", ((0, 4),)), RegionSpan("root/c", "call", ((1, 3),), "root")),
    )
    assert plan_problem(problem).arena_bytes == 16
    with pytest.raises(UnsupportedError, match="use joint"):
        plan_problem(problem, hierarchy="stacked")
