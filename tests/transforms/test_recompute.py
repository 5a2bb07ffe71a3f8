"""Advice on recomputation: carried out, it saves what it says and computes the same."""

from __future__ import annotations

from random import Random

import pytest

pytest.importorskip("torch")

from lowtide.ir.program import Program, Region, Step, Storage, Value
from lowtide.lifetimes.timeline import build_problem
from lowtide.pack.bounds import live_peak
from lowtide.testing import random_program
from lowtide.transforms.recompute import _candidates, advise, work_of
from reorder_models import meaning


def skip(size: int = 64, *, operator: str = "aten.relu.default") -> Program:
    """A large value made cheaply of a small input, kept over a peak, and used at the end."""
    sizes = {"x": 8, "wide": size, "a": size, "b": size, "c": 8, "y": size}
    names = list(sizes)
    kinds = {"x": "input", "y": "output"}
    storages = tuple(
        Storage(f"root/{n}", sizes[n], kinds.get(n, "temporary"), shape=(sizes[n],))  # type: ignore[arg-type]
        for n in names
    )
    values = tuple(Value(f"root/{n}", 0, k, (), "C") for k, n in enumerate(names))
    x, wide, a, b, c, y = range(6)
    steps = (
        Step("wide", operator, (x,), (wide,)),
        Step("a", "aten.sin.default", (wide,), (a,)),
        Step("b", "aten.cos.default", (a,), (b,)),
        Step("c", "aten.sum.default", (b,), (c,)),
        Step("y", "aten.add.Tensor", (wide, c), (y,)),
    )
    return Program((Region("root", (x,), steps, (y,)),), values, storages)


def test_a_cheap_producer_is_run_again():
    (advice,) = advise(skip(), dearest=0.5)
    assert advice.steps == ("root/wide",)
    assert advice.before == "root/y"
    assert advice.peak_before == 3 * 64 == live_peak(build_problem(skip()))
    assert advice.saves == 64 - 8  # x is kept instead
    assert advice.work == 8 + 64
    total = sum(work_of(skip(), step) for step in skip().regions[0].steps)
    assert advice.share == pytest.approx(72 / total)


def test_dear_or_random_producers_are_kept():
    assert advise(skip(), dearest=0.01) == ()
    assert advise(skip(operator="aten.rand_like.default"), dearest=0.5) == ()


def test_contractions_are_dear():
    storages = (
        Storage("a", 4 * 6 * 8, "input", shape=(6, 8)),
        Storage("b", 4 * 8 * 5, "constant", planned=False, shape=(8, 5)),
        Storage("c", 4 * 6 * 5, "output", shape=(6, 5)),
    )
    values = tuple(Value(s.name, 0, k, (), "C") for k, s in enumerate(storages))
    step = Step("mm", "aten.mm.default", (0, 1), (2,))
    program = Program((Region("root", (0,), (step,), (2,)),), values, storages)
    assert work_of(program, step) == 6 * 5 * 8


def test_what_is_run_again_means_the_same():
    """Contents are terms of what made them: a step that runs again makes the same term of the same inputs."""
    tried = 0
    for seed in range(200):
        program = random_program(Random(seed), steps=14, depth=seed % 2)
        for again in _candidates(program, 1e9):
            tried += 1
            changed = again.apply(program)
            for path in range(3):
                assert meaning(program, path) == meaning(changed, path), seed
    assert tried > 50


def test_advice_adds_up():
    found = 0
    for seed in range(40):
        program = random_program(Random(seed), steps=16, depth=seed % 2)
        peak = live_peak(build_problem(program)) if build_problem(program).buffers else 0
        for advice in advise(program, dearest=1.0):
            assert advice.peak_before == peak
            assert advice.saves > 0
            peak = advice.peak_after
            found += 1
        assert advise(program, dearest=1.0) == advise(program, dearest=1.0)
    assert found > 3
