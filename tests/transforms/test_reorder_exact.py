"""The exact search against all orders of thousands of tiny models and programs."""

from __future__ import annotations

import os
from random import Random

import pytest

pytest.importorskip("torch")

from lowtide.lifetimes.timeline import build_problem
from lowtide.pack.bounds import live_peak, lower_bound
from lowtide.pack.planner import plan_problem
from lowtide.pack.registry import Options
from lowtide.transforms.reorder import SearchBudget, reorder
from lowtide.transforms.reorder.branch_and_bound import Search
from lowtide.transforms.reorder.heuristics import beam, polish
from lowtide.transforms.reorder.modelling import Modeller
from lowtide.transforms.reorder.pieces import find_units
from lowtide.transforms.reorder.reordering import with_order
from lowtide.transforms.reorder.solving import cut, solve
from reorder_models import all_orders, least_peak, random_model, tiny_program

MODELS = int(os.environ.get("LOWTIDE_REORDER_MODELS", "2000"))
PROGRAMS = int(os.environ.get("LOWTIDE_REORDER_PROGRAMS", "120"))


@pytest.mark.parametrize("first", range(0, MODELS, 500))
def test_least_peak_of_all_orders(first):
    better = 0
    for seed in range(first, first + 500):
        model = random_model(Random(seed))
        least = least_peak(model)
        found = Search(model, find_units(model)).run(SearchBudget(10**6))
        assert found.order is not None, seed
        assert model.allows(found.order), seed
        assert model.peak(found.order) == max(found.bound, model.floor) == least, seed
        solution = solve(model)
        assert model.allows(solution.order), seed
        assert solution.bound == solution.after == model.peak(solution.order) == least, seed
        assert solution.before == model.peak(range(model.count)), seed
        better += least < solution.before
    assert better > 50


def test_bounds_and_orders_hold_without_a_search():
    for seed in range(500):
        model = random_model(Random(seed))
        solution = solve(model, SearchBudget(1))
        assert model.allows(solution.order), seed
        assert solution.bound <= least_peak(model) <= solution.after == model.peak(solution.order), seed


def test_units_keep_the_least_peak():
    """Every unit in one go, in all orders of units: nothing is lost."""
    merged = 0
    for seed in range(500):
        model = random_model(Random(seed), steps=7)
        units = find_units(model)
        merged += model.count - len(units)
        assert sorted(step for unit in units for step in unit.steps) == list(range(model.count))
        whole = tuple(
            sum(1 << j for j, other in enumerate(units) if other.members & unit.earlier) for unit in units
        )
        closed = _closure(whole)
        peaks = [
            model.peak([step for unit in order for step in units[unit].steps])
            for order in all_orders(closed, 10**6)
        ]
        assert min(peaks) == least_peak(model), seed
    assert merged > 500


def _closure(direct):
    found = list(direct)
    changed = True
    while changed:
        changed = False
        for unit, mask in enumerate(found):
            more = mask
            for other in range(len(found)):
                if mask >> other & 1:
                    more |= found[other]
            changed |= more != mask
            found[unit] = more
    return tuple(found)


def test_heuristics_keep_dependences_and_never_get_worse():
    for seed in range(300):
        model = random_model(Random(seed))
        for width in (1, 4):
            order = beam(model, find_units(model), 0, width)
            assert model.allows(order), seed
            polished = polish(model, order, 0, 4)
            assert model.allows(polished), seed
            assert least_peak(model) <= model.peak(polished) <= model.peak(order), seed


def test_pieces_are_one_after_the_other():
    several = 0
    for seed in range(500):
        model = random_model(Random(seed))
        pieces = cut(model)
        assert model.allows([step for piece in pieces for step in piece]), seed
        several += len(pieces) > 1
    assert several > 50


@pytest.mark.parametrize("in_place", [False, True])
def test_live_bytes_are_those_of_the_problem(in_place):
    """Under every order, the model's peak is the bound of the packing problem in that order."""
    compared = exact = 0
    for seed in range(PROGRAMS):
        program = tiny_program(Random(seed))
        model = Modeller(program, in_place=in_place).model(0)
        if model is None or not build_problem(program).buffers:
            continue
        least = None
        for order in all_orders(model.earlier, 24):
            problem = build_problem(with_order(program, 0, order), in_place=in_place)
            peak = lower_bound(problem) if in_place else live_peak(problem)
            assert model.peak(order) == peak or (in_place and model.peak(order) > peak), (seed, order)
            exact += model.peak(order) == peak
            least = peak if least is None else min(least, peak)
            compared += 1
        assert least is not None
        if not in_place and sum(1 for _ in all_orders(model.earlier, 25)) < 25:
            assert solve(model).after == least, seed
    assert compared > 8 * PROGRAMS
    assert exact > 0.99 * compared  # a buffer with several lives is not counted as shared


def _packed(program, in_place, options):
    problem = build_problem(program, in_place=in_place)
    return plan_problem(problem, packer="exact", options=options).arena_bytes


@pytest.mark.parametrize("in_place", [False, True])
def test_smallest_arena_over_orders_reuse_and_offsets(in_place):
    """The arena is the smallest of all orders, each packed exactly."""
    options = Options(timeout=None, threads=1)
    total = better = 0
    for seed in range(PROGRAMS // 2):
        program = tiny_program(Random(seed), steps=5)
        found = reorder(program, in_place=in_place, options=options)
        model = Modeller(program, in_place=in_place).model(0)
        assert model is not None
        orders = list(all_orders(model.earlier, 41))
        if len(orders) > 40 or not found.before.problem.buffers:
            continue
        smallest = min(_packed(with_order(program, 0, order), in_place, options) for order in orders)
        total += 1
        assert found.after.arena_bytes == smallest, seed
        better += smallest < found.before.arena_bytes
    assert total > PROGRAMS / 6
    assert better > 5
