"""Orders that keep the dependences compute the same, whatever is called, viewed, changed in place."""

from __future__ import annotations

from random import Random

import pytest

pytest.importorskip("torch")

from lowtide.ir.program import Call, Program, Region, Step, Storage, Value
from lowtide.lifetimes.liveness import solve
from lowtide.lifetimes.lowering import lower
from lowtide.testing import random_program
from lowtide.transforms.reorder import reorder
from lowtide.transforms.reorder.dependences import RegionLayout, dependences
from lowtide.transforms.reorder.modelling import Modeller
from lowtide.transforms.reorder.reordering import with_order
from lowtide.verifier.checks import verify
from reorder_models import all_orders, meaning


def shuffled(random: Random, earlier: tuple[int, ...]) -> tuple[int, ...]:
    """A random order that keeps a partial order."""
    order: list[int] = []
    done = 0
    while len(order) < len(earlier):
        ready = [s for s in range(len(earlier)) if not done >> s & 1 and not earlier[s] & ~done]
        order.append(random.choice(ready))
        done |= 1 << order[-1]
    return tuple(order)


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_every_order_means_the_same(first):
    moved = 0
    for seed in range(first, first + 100):
        random = Random(seed)
        program = random_program(random, steps=12, depth=seed % 3)
        changed = program
        for region in range(len(program.regions)):
            model = Modeller(changed).model(region)
            if model is not None:
                order = shuffled(random, model.earlier)
                moved += order != tuple(range(model.count))
                changed = with_order(changed, region, order)
        for path in range(4):
            assert meaning(changed, path) == meaning(program, path), seed
    assert moved > 80


def test_reordered_programs_mean_the_same_and_their_plans_are_right():
    better = 0
    for seed in range(150):
        program = random_program(Random(seed), steps=14, depth=2)
        found = reorder(program, in_place=True, elide_copies=True)
        assert verify(found.after, found.program).followed
        assert found.after.arena_bytes <= found.before.arena_bytes
        if not found.changed:
            assert found.program == program
            continue
        better += 1
        assert found.after.arena_bytes < found.before.arena_bytes
        for path in range(4):
            assert meaning(found.program, path) == meaning(program, path), seed
    assert better > 20


def test_twice_the_same():
    for seed in range(20):
        program = random_program(Random(seed), steps=14, depth=1)
        first, second = reorder(program), reorder(program)
        assert first.regions == second.regions
        assert first.program == second.program
        assert first.after == second.after


def chain(*steps: Step, outputs: tuple[int, ...] = (), kinds: tuple[str, ...] = ()) -> Program:
    """A program of one region whose value number k has a storage of its own, of 8 bytes."""
    count = 1 + max(value for step in steps for value in step.values)
    storages = tuple(
        Storage(f"root/s{k}", 8, kinds[k] if k < len(kinds) else "temporary")  # type: ignore[arg-type]
        for k in range(count)
    )
    values = tuple(Value(f"root/v{k}", 0, k, (), "C") for k in range(count))
    return Program((Region("root", (), steps, outputs),), values, storages)


def of(program: Program, edges: tuple[tuple[int, int], ...] = ()) -> tuple[int, ...]:
    """The dependences of the root."""
    flow = lower(program)
    layout = RegionLayout(flow, solve(flow))
    accesses = [layout.access(0, step) for step in range(len(program.regions[0].steps))]
    return dependences([accesses], edges, {})


def test_reads_and_writes():
    program = chain(
        Step("a", "f", writes=(0,)),
        Step("b", "f", reads=(0,), writes=(1,)),
        Step("c", "f", reads=(0,), writes=(2,)),
        Step("d", "f", partial=(0,)),
        Step("e", "f", writes=(3,)),
    )
    assert of(program) == (0, 0b1, 0b1, 0b111, 0)


def test_effects_and_state_keep_their_order():
    program = chain(
        Step("draw", "rand", writes=(0,), effects=True),
        Step("free", "f", writes=(1,)),
        Step("print", "print", reads=(1,), effects=True),
        Step("state", "f", partial=(2,)),
        kinds=("temporary", "temporary", "state"),
    )
    assert of(program) == (0, 0, 0b11, 0b111)


def test_what_the_caller_adds():
    program = chain(Step("a", "f", writes=(0,)), Step("b", "f", writes=(1,)), Step("c", "f", writes=(2,)))
    assert of(program) == (0, 0, 0)
    assert of(program, ((0, 1), (1, 2))) == (0, 0b1, 0b11)
    found = reorder(program, edges={0: ((0, 1), (1, 2))})
    assert not found.changed


def test_a_call_touches_what_its_region_does():
    storages = tuple(Storage(f"s{k}", 8) for k in range(3))
    values = (
        Value("a", 0, 0, (), "C"),
        Value("b", 0, 1, (), "C"),
        Value("param", 1),
        Value("inner", 1, 2, (), "C"),
    )
    steps = (
        Step("make", "f", writes=(0,)),
        Step("other", "f", writes=(1,)),
        Step("call", "call", call=Call("call", (1,), (0,)), effects=True),
        Step("use", "f", reads=(0,)),
        Step("use other", "f", reads=(1,)),
    )
    inner = (Step("change", "f", partial=(2,)), Step("temp", "f", writes=(3,)))
    regions = (Region("root", (), steps, (0,)), Region("root/body", (2,), inner, (), "call", 0))
    program = Program(regions, values, storages)
    assert of(program) == (0, 0, 0b1, 0b101, 0b10)
    assert len(list(all_orders(of(program), 100))) == 10
