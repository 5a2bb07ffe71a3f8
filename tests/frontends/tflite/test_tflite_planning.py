"""Planned arenas on the real interpreter: smaller, of the size that was foreseen, and the same bits."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest

from lowtide.base.errors import UnsupportedError
from lowtide.frontends.tflite.interpreter import Scratch, simulate
from lowtide.frontends.tflite.judging import judge
from lowtide.frontends.tflite.metadata import ONLINE
from lowtide.frontends.tflite.model import Model
from lowtide.frontends.tflite.planning import Planned, plan_model
from lowtide.frontends.tflite.programs import program_of
from lowtide.frontends.tflite.reading import read_model
from lowtide.frontends.tflite.scratch import probed_scratch
from lowtide.frontends.tflite.writing import with_offsets
from lowtide.pack.registry import Options
from lowtide.pack.techniques import Techniques
from tflite_nets import NETS, loop
from tflite_random_nets import random_net
from tflm import CrashedError, run
from wake_words import BOUND, STOCK, wake_words, with_features

PLAIN, SMALLEST = Techniques(), Techniques(in_place=True, elide_copies=True)
RUNS = 4


def planned(model: Model, techniques: Techniques = PLAIN, scratch: tuple[Scratch, ...] = ()) -> Planned:
    return plan_model(model, scratch, techniques=techniques, options=Options(timeout=0.3))


def check_on_interpreter(data: bytes, found: Planned, runs: int = RUNS) -> None:
    """The arena is as foreseen, with and without the plan, and no bit is another."""
    stock = run(data, runs=runs)
    assert found.stock.head == stock.head
    assert found.after.head <= found.before.head
    if found.offsets is None:
        assert found.after == found.before
        return
    ours = run(with_offsets(found.model, found.offsets).data, runs=runs)
    assert ours.head == found.after.head < stock.head
    assert ours.same_bits(stock)


@pytest.mark.parametrize("techniques", [PLAIN, SMALLEST], ids=["plain", "smallest"])
@pytest.mark.parametrize("name", NETS)
def test_models_made_by_hand(name, techniques):
    data = NETS[name]()
    model = read_model(data, name)
    scratch = probed_scratch(model) if name == "scratch" else ()
    check_on_interpreter(data, planned(model, techniques, scratch))


@pytest.mark.parametrize(
    ("name", "stock", "plain", "smallest"),
    [
        ("branch", 4112, 3072, 2064),
        ("loop", 7200, 4128, 3104),
        ("swapping loop", 7200, 5120, 3104),
        ("swapping loop that makes the first", 7200, 4128, 3088),
        ("swapping loop that makes both", 7200, 4128, 3088),
    ],
)
def test_branches_and_loops_are_as_small_as_they_should_be(name, stock, plain, smallest):
    model = read_model(NETS[name]())
    assert planned(model).stock.head == stock
    assert planned(model).after.head <= plain
    assert planned(model, SMALLEST).after.head <= smallest


def test_a_swapping_loop_that_hands_the_first_through_needs_five_places():
    """Two carries, the body's two inputs and what it makes: no two of them may share bytes.

    The exceptions are a copy that was left out, and one kernel in place: outputs and inputs of the body.
    """
    data = NETS["swapping loop"]()
    model = read_model(data)
    stock, (_, _, body) = run(data, runs=3), model.bases
    first, second, p, q, made = 4, 5, body + 1, body + 2, body + 6
    coincide = {(first, p), (first, q), (second, q), (second, made), (p, made)}
    places = {tensor: 2048 * i for i, tensor in enumerate(sorted(model.arena_tensors))}
    offsets = [places.get(i, ONLINE) for i in range(model.tensor_count)]
    assert run(with_offsets(model, offsets).data, runs=3).same_bits(stock)
    for pair in combinations((first, second, p, q, made), 2):
        shared = list(offsets)
        shared[pair[1]] = shared[pair[0]]
        assert run(with_offsets(model, shared).data, runs=3).same_bits(stock) == (pair in coincide)
    assert planned(model).after.head == planned(model).bound == 5 * 1024


@pytest.mark.parametrize("name", sorted(wake_words()))
def test_wake_words_are_at_their_bounds(name):
    data = wake_words()[name]
    found = planned(read_model(data, name))
    assert (found.before.head, found.after.head, found.bound) == (STOCK[name], BOUND[name], BOUND[name])
    check_on_interpreter(data, found, runs=60)


@pytest.mark.parametrize("name", sorted(wake_words()))
def test_wake_words_compute_the_same_features(name):
    """What comes out is one byte that seldom changes; what the last layer sees changes with every run."""
    data = with_features(wake_words()[name])
    found = planned(read_model(data, name), SMALLEST)
    assert found.offsets is not None
    check_on_interpreter(data, found, runs=60)
    seen = {outputs[-1].tobytes() for outputs in run(data, runs=60).outputs}
    assert len(seen) > 30


@pytest.mark.parametrize("seed", range(8))
def test_random_models(seed):
    data = random_net(seed)
    for techniques in (PLAIN, SMALLEST):
        check_on_interpreter(data, planned(read_model(data, str(seed)), techniques))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, 50))
def test_five_hundred_random_models(first):
    for seed in range(first, first + 50):
        data = random_net(1000 + seed)
        for techniques in (PLAIN, Techniques(in_place=True), SMALLEST):
            check_on_interpreter(data, planned(read_model(data, str(seed)), techniques))


def test_the_runs_tell_right_from_wrong():
    """All tensors at offset 0: the interpreter runs it, the bits are wrong, and the judge says why."""
    for name in ("branch", "loop", "shared", "resource"):
        data = NETS[name]()
        model = read_model(data, name)
        zeros = [0 if i in model.arena_tensors else ONLINE for i in range(model.tensor_count)]
        assert judge(model, program_of(model), zeros)
        assert not run(with_offsets(model, zeros).data, runs=RUNS).same_bits(run(data, runs=RUNS))


def test_what_the_interpreter_does_by_itself_is_judged_right():
    for name, make in NETS.items():
        model = read_model(make(), name)
        assert judge(model, program_of(model), None) == []


def test_offsets_that_the_judge_calls_right_are_right():
    """Single tensors of good plans are moved about: whatever passes has the bits of stock."""
    random, right, wrong = Random(3), 0, 0
    for name in ("branch", "pass_through", "shared", "swapping loop"):
        data = NETS[name]()
        model = read_model(data, name)
        stock, imported = run(data, runs=RUNS), program_of(model)
        best = planned(model).offsets
        assert best is not None
        for _ in range(12):
            offsets = list(best)
            for _ in range(random.randint(1, 2)):
                tensor = random.choice(sorted(model.arena_tensors))
                offsets[tensor] = random.choice([offsets[other] for other in sorted(model.arena_tensors)])
            if judge(model, imported, offsets):
                wrong += 1
            else:
                right += 1
                assert run(with_offsets(model, offsets).data, runs=RUNS).same_bits(stock)
    assert right > 3
    assert wrong > 3


def test_what_crashes_the_interpreter_is_left_alone():
    data = NETS["variable in a branch"]()
    model = read_model(data)
    found = planned(model)
    assert found.offsets is not None
    assert found.offsets[1] == ONLINE
    crash = list(found.offsets)
    crash[1] = 0
    with pytest.raises(CrashedError):
        run(with_offsets(model, crash).data)
    assert [fault.kind for fault in judge(model, program_of(model), crash)] == ["crash"]


def test_a_file_that_gets_no_smaller_stays_as_it_is():
    model = read_model(NETS["unused"]())
    found = planned(model)
    assert found.offsets is None
    better = planned(model, SMALLEST)
    assert better.offsets is not None
    again = planned(with_offsets(model, better.offsets), SMALLEST)
    assert again.offsets is None
    assert again.before.head == better.after.head


def test_wrong_offsets_are_found_and_put_right():
    data = NETS["shared"]()
    model = read_model(data)
    zeros = [0 if i in model.arena_tensors else ONLINE for i in range(model.tensor_count)]
    broken = with_offsets(model, zeros)
    found = planned(broken)
    assert found.faults
    assert found.offsets is not None
    assert run(with_offsets(broken, found.offsets).data, runs=RUNS).same_bits(run(data, runs=RUNS))


def test_scratch_counts():
    """A plan that knows of scratch is never worse than stock; one that does not, may be."""
    blind_worse = gained = 0
    for seed in range(12):
        random, model = Random(seed), read_model(random_net(seed))
        scratch = tuple(
            Scratch(i, j, random.choice((16, 100, 400, 1000)))
            for i, graph in enumerate(model.subgraphs)
            for j, operator in enumerate(graph.operators)
            if not operator.calls
            for _ in range(random.choice((0, 0, 1, 2)))
        )
        found, blind = planned(model, scratch=scratch), planned(model)
        assert found.after.head <= found.before.head
        blind_worse += simulate(model, blind.offsets, scratch).head > found.before.head
        gained += found.after.head < found.before.head
    assert blind_worse
    assert gained > 3


def test_a_variable_with_an_offset_shares_no_byte():
    model = read_model(NETS["variable"]())
    variable = next(i for i, tensor in enumerate(model.tensors) if tensor.variable)
    offsets = [ONLINE] * model.tensor_count
    offsets[variable] = 0
    assert run(with_offsets(model, offsets).data, runs=1).head == simulate(model, offsets).head
    offsets[0] = 0
    assert "overlap" in {fault.kind for fault in judge(model, program_of(model), offsets)}


def test_commands_for_an_ethos_u_are_left_alone():
    from tflite_building import Net

    net = Net()
    main = net.graph()
    x = main.input((1, 16))
    output = main.tensor((1, 16))
    main.op("CUSTOM", [x], [output], custom="ethos-u")
    main.outputs = [output]
    with pytest.raises(UnsupportedError, match="Ethos-U"):
        planned(read_model(net.finish()))


def test_operators_that_nobody_knows_are_planned_by_lifetimes():
    from tflite_building import Net

    net = Net()
    main = net.graph()
    x = main.input((1, 256))
    for _ in range(4):
        x = main.made("CUSTOM", [x], custom="Nobody's")
    main.outputs = [x]
    found = planned(read_model(net.finish()), SMALLEST)
    assert found.stock.head == found.bound == 2048


def test_loops_that_run_no_turn_and_many():
    for turns in (0, 1, 7):
        data = loop(swap=True, turns=turns)
        found = planned(read_model(data), SMALLEST)
        check_on_interpreter(data, found)
        outputs = run(data, runs=1).outputs[0]
        assert outputs[1] == np.array([turns])
