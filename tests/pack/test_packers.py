"""Packers: each gives a plan that the verifier accepts, honours what the problem asks, or refuses by name."""

from __future__ import annotations

import importlib.metadata
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide
from lowtide import (
    Arena,
    Buffer,
    InfeasibleError,
    InputError,
    Placement,
    Problem,
    RegionSpan,
    UnsupportedError,
)
from lowtide.pack import Options, Packing, names, register, registry
from lowtide.pack.hierarchy import POLICIES
from lowtide.pack.planner import plan_problem
from strategies import live_peak, problems

OWN = [name for name in names() if name not in ("naive", "greedy", "shared-objects")]


@pytest.mark.parametrize("packer", OWN)
@given(problem=problems(permissions=True))
def test_every_feature_of_a_problem_is_honoured(packer: str, problem: Problem) -> None:
    try:
        plan = plan_problem(problem, packer=packer, options=Options(timeout=0.5))
    except InfeasibleError:
        return  # capacities are tight: a heuristic may miss the plan that exists
    plan.verify()
    assert plan.arena_bytes >= plan.lower_bound_bytes


@pytest.mark.parametrize("packer", ["naive", "greedy", "shared-objects"])
@given(problem=problems(permissions=False, pins=False))
def test_simple_packers_on_what_they_can_do(packer: str, problem: Problem) -> None:
    try:
        plan = plan_problem(problem, packer=packer)
    except InfeasibleError:
        return
    plan.verify()
    assert plan.object_ids is None or len(plan.object_ids) == len(plan.offsets)


@given(problems(permissions=False, pins=False))
def test_the_live_peak_is_what_it_says(problem: Problem) -> None:
    for use, arena in zip(
        plan_problem(_unlimited(problem), packer="first-fit").uses, problem.arenas, strict=True
    ):
        part, _ = problem.part(arena)
        assert use.live_peak_bytes == live_peak(part.buffers) + arena.reserved
        assert use.bytes >= use.lower_bound_bytes >= use.live_peak_bytes


def _unlimited(problem: Problem) -> Problem:
    from dataclasses import replace

    return replace(problem, arenas=tuple(replace(arena, capacity=None) for arena in problem.arenas))


def test_naive_gives_every_buffer_its_own_bytes() -> None:
    problem = Problem((Buffer("a", 5, ((0, 1),)), Buffer("b", 8, ((5, 6),), alignment=8)))
    assert plan_problem(problem, packer="naive").offsets == (0, 8)


def test_greedy_takes_the_closest_size_and_gives_object_ids() -> None:
    problem = Problem(
        (
            Buffer("large", 100, ((0, 2),)),
            Buffer("small", 10, ((0, 2),)),
            Buffer("middle", 30, ((2, 4),)),
            Buffer("late", 90, ((2, 4),)),
        )
    )
    plan = plan_problem(problem, packer="greedy")
    assert plan.object_ids == (0, 1, 1, 0)  # 30 is closer to 10 than to 100, and object 1 grows
    assert plan.offsets == (0, 100, 100, 0)
    assert plan.arena_bytes == 130
    plan.verify()


def test_greedy_leaves_a_candidate_that_it_does_not_take_as_it_was() -> None:
    """The seed marks every candidate that it looks at as used; a later buffer then finds it taken."""
    problem = Problem(
        (
            Buffer("a", 50, ((0, 1),)),
            Buffer("b", 20, ((0, 1),)),
            Buffer("c", 21, ((1, 3),)),  # looks at a's object first, takes b's
            Buffer("d", 50, ((2, 3),)),  # a's object must still be free, and 50 bytes
        )
    )
    plan = plan_problem(problem, packer="greedy")
    assert plan.object_ids == (0, 1, 1, 0)
    assert plan.arena_bytes == 71


def test_shared_objects_are_optimal_where_greedy_is_not() -> None:
    problem = Problem(
        (
            Buffer("small", 10, ((0, 2),)),
            Buffer("large", 100, ((1, 3),)),
            Buffer("other", 90, ((2, 4),)),
            Buffer("last", 20, ((3, 5),)),
        )
    )
    best = plan_problem(problem, packer="shared-objects")
    best.verify()
    assert best.arena_bytes == best.lower_bound_bytes  # proved, of plans with objects
    assert best.arena_bytes <= plan_problem(problem, packer="greedy").arena_bytes
    assert best.object_ids is not None
    objects = {}
    for buffer, number in zip(problem.buffers, best.object_ids, strict=True):
        objects[number] = max(objects.get(number, 0), buffer.size)
    assert sum(objects.values()) == best.arena_bytes == 190


def test_simple_packers_refuse_what_they_cannot_honour() -> None:
    inside = Problem(
        (Buffer("a", 8, ((0, 4),)), Buffer("b", 4, ((1, 2),))), placements=(Placement("b", "a", 4),)
    )
    for packer in ("naive", "greedy", "shared-objects"):
        with pytest.raises(UnsupportedError, match=f"packer {packer}"):
            plan_problem(inside, packer=packer)
    assert plan_problem(inside).arena_bytes == 8


def test_a_capacity_that_nothing_fits_says_by_how_much() -> None:
    problem = Problem(
        (Buffer("a", 64, ((0, 2),)), Buffer("b", 64, ((1, 3),))), arenas=(Arena(1, capacity=100),)
    )
    with pytest.raises(InfeasibleError, match="capacity of 100 bytes, but no plan takes less than 128 bytes"):
        plan_problem(problem)


def test_an_empty_problem_has_an_empty_plan() -> None:
    assert plan_problem(Problem(())).arena_bytes == 0
    assert plan_problem(Problem((), arenas=(Arena(1, reserved=7),))).arena_bytes == 7


def test_unknown_packers_are_refused_with_a_list() -> None:
    with pytest.raises(InputError, match="there is no packer 'best': choose one of auto, exact, naive"):
        plan_problem(Problem(()), packer="best")


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


@pytest.mark.usefixtures("clean_registry")
def test_users_can_register_their_own() -> None:
    @register("upside-down")
    def upside_down(problem: Problem, options: Options) -> Packing:
        total = sum(buffer.size for buffer in problem.buffers)
        offsets = []
        for buffer in problem.buffers:
            total -= buffer.size
            offsets.append(total)
        return Packing(tuple(offsets))

    assert "upside-down" in names()
    plan = lowtide.plan(Problem((Buffer("a", 8, ((0, 4),)), Buffer("b", 4, ((1, 2),)))), packer="upside-down")
    assert plan.offsets == (4, 0)
    with pytest.raises(InputError, match="there is a packer 'upside-down' already"):
        register("upside-down")(upside_down)
    with pytest.raises(InputError, match="there is a packer 'auto' already"):
        register("auto")(upside_down)


def installed_packer(problem: Problem, options: Options) -> Packing:
    """Stands for a packer of another package."""
    return Packing(tuple(0 for _ in problem.buffers))


def test_packers_of_installed_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("theirs", "test_packers:installed_packer", registry.ENTRY_POINTS)

    def entry_points(**selection: Any) -> list[importlib.metadata.EntryPoint]:
        assert selection == {"group": registry.ENTRY_POINTS}
        return [point]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert "theirs" in names()
    assert plan_problem(Problem((Buffer("a", 8, ((0, 4),)),)), packer="theirs").offsets == (0,)


@given(problems(permissions=True), st.sampled_from(OWN))
def test_the_same_problem_gives_the_same_plan(problem: Problem, packer: str) -> None:
    problem = _unlimited(problem)
    options = Options(timeout=None, seed=3, threads=1)
    first = plan_problem(problem, packer=packer, options=options)
    assert plan_problem(problem, packer=packer, options=options) == first


def test_pins_that_contradict_each_other_are_named() -> None:
    problem = Problem((Buffer("a", 8, ((0, 4),), offset=0), Buffer("b", 8, ((1, 3),), offset=4)))
    for packer in names():
        with pytest.raises(InputError, match="the pins of buffer 'a' and 'b' cannot be kept"):
            plan_problem(problem, packer=packer)


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize(
    ("offsets", "message"),
    [((0,), "1 offsets for 2 buffers"), ((0, -8), "not a whole number"), ((0, 0), "overlap of 'a' and 'b'")],
)
def test_a_packer_that_misbehaves_is_found_out(offsets: tuple[int, ...], message: str) -> None:
    register("broken")(lambda problem, options: Packing(offsets))
    problem = Problem((Buffer("a", 8, ((0, 4),)), Buffer("b", 8, ((1, 3),))))
    with pytest.raises(lowtide.LowtideError, match=message):
        plan_problem(problem, packer="broken")


@pytest.mark.parametrize(
    "wrong", [{"seed": -1}, {"threads": -1}, {"timeout": -1.0}, {"timeout": float("nan")}]
)
def test_options_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Options(**wrong)


def test_history_of_several_arenas_only_improves() -> None:
    hard = [
        Buffer(f"{a}{i}", 10 + 7 * i % 13, ((i % 5, 5 + i % 4),), arena=a) for a in (1, 2) for i in range(30)
    ]
    history = plan_problem(Problem(tuple(hard)), options=Options(timeout=0.2)).history
    assert len(history) >= 2
    for before, after in itertools.pairwise(history):
        assert after.seconds >= before.seconds
        assert after.arena_bytes <= before.arena_bytes
        assert after.lower_bound_bytes >= before.lower_bound_bytes


@pytest.mark.parametrize("packer", names())
def test_a_bound_is_never_above_the_plan(packer: str) -> None:
    """Plans with objects have a bound of their own, which plans without them may beat."""
    regions = (
        RegionSpan("root", "root", ((0, 9),)),
        RegionSpan("root/a", "branch", ((1, 4),), "root"),
        RegionSpan("root/b", "branch", ((4, 7),), "root"),
    )
    for alignment in (1, 64):
        buffers = (
            Buffer("a1", 50, ((1, 3),), alignment, region="root/a"),
            Buffer("a2", 50, ((2, 4),), alignment, region="root/a"),
            Buffer("b", 100, ((4, 6),), region="root/b"),
        )
        before = 0
        for policy in POLICIES:
            plan = plan_problem(Problem(buffers, regions=regions), packer=packer, hierarchy=policy)
            plan.verify()
            assert plan.lower_bound_bytes <= plan.arena_bytes
            assert plan.arena_bytes >= before
            before = plan.arena_bytes


def test_exact_has_a_plan_however_little_time_there_is() -> None:
    many = tuple(Buffer(str(i), 16 + i % 97, ((i % 500, i % 500 + 20),)) for i in range(4000))
    assert plan_problem(Problem(many), packer="exact", options=Options(timeout=0.001)).verify() > 0
