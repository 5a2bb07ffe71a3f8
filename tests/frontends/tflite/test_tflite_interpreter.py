"""The interpreter's arena is known to the byte: with offsets, branches, loops, and scratch."""

from __future__ import annotations

from random import Random

import pytest

from lowtide.base.errors import InputError
from lowtide.frontends.tflite.interpreter import Scratch, simulate
from lowtide.frontends.tflite.metadata import ONLINE, offsets_in
from lowtide.frontends.tflite.model import Model
from lowtide.frontends.tflite.reading import read_model
from lowtide.frontends.tflite.scratch import declared_scratch, logged_scratch, probed_scratch
from lowtide.frontends.tflite.writing import with_offsets
from tflite_nets import NETS
from tflite_random_nets import random_net
from tflm import run
from wake_words import STOCK, wake_words


def some_offsets(model: Model, random: Random) -> list[int]:
    """Offsets for some tensors, right or wrong: the interpreter takes them as they are."""
    return [
        16 * random.randrange(200) if i in model.arena_tensors and random.random() < 0.5 else ONLINE
        for i in range(model.tensor_count)
    ]


@pytest.mark.parametrize("name", [name for name in NETS if name != "scratch"])
def test_the_head_is_known_with_and_without_offsets(name):
    data = NETS[name]()
    model = read_model(data, name)
    assert simulate(model).head == run(data, runs=1).head
    if "variable in" in name:
        return  # an offset in the wrong place crashes it
    offsets = some_offsets(model, Random(name))
    written = with_offsets(model, offsets)
    assert offsets_in(written) == tuple(offsets)
    assert simulate(model, offsets).head == run(written.data, runs=1).head


@pytest.mark.parametrize("seed", range(10))
def test_the_head_of_random_models_is_known(seed):
    data = random_net(seed)
    assert simulate(read_model(data)).head == run(data, runs=1).head


@pytest.mark.parametrize("name", sorted(wake_words()))
def test_the_head_of_wake_words_is_known(name):
    data = wake_words()[name]
    assert simulate(read_model(data, name)).head == run(data, runs=1).head == STOCK[name]


def test_scratch_is_found_by_asking_the_interpreter():
    data = NETS["scratch"]()
    model = read_model(data)
    found = probed_scratch(model)
    assert found[0] == Scratch(0, 0, 8 * 16 * 16 * 4)
    assert len(found) > 3  # MEAN asks more than once
    assert simulate(model, None, found).head == run(data, runs=1).head > simulate(model).head
    assert probed_scratch(read_model(NETS["loop"]())) == ()


def test_an_operator_without_kernel_cannot_be_probed():
    from tflite_building import Net

    net = Net()
    main = net.graph()
    x = main.input((1, 16))
    output = main.tensor((1, 16))
    main.op("CUSTOM", [x], [output], custom="Nobody's")
    main.outputs = [output]
    with pytest.raises(InputError, match=r"operator 0 \(Nobody's\) of subgraph 0"):
        probed_scratch(read_model(net.finish()))


def test_declared_scratch_names_operators():
    model = read_model(NETS["shared"]())
    assert declared_scratch(model, {"ADD": 100, "0": 32}) == (Scratch(0, 0, 32), Scratch(1, 1, 100))
    assert declared_scratch(model, {"2:1": 5}) == (Scratch(2, 1, 5),)
    for key, size in (("CONV_2D", 5), ("9", 5), ("7:0", 5), ("CONV_2D", 0), ("ADD", -1)):
        with pytest.raises(InputError, match=repr(key)):
            declared_scratch(model, {key: size})


def printed(model: Model, scratch: tuple[Scratch, ...]) -> str:
    """What a target prints when it has planned this, between lines of its own."""
    found = simulate(model, None, scratch)
    lines = ["boot: ready"]
    order = sorted(range(len(scratch)), key=lambda i: (scratch[i].subgraph, scratch[i].operator))
    for id, a in enumerate([*found.tensors.values(), *(found.scratch[i] for i in order)]):
        lines.append(
            f"I (24) {id % 10} (id={id}): size={a.size}, offset={a.offset}, "
            f"first_used={a.first} last_used={a.last}"
        )
    return "\r\n".join([*lines, "   0: 0000....1111 (3k)"])


def test_a_log_of_the_target_tells_scratch():
    model = read_model(NETS["shared"]())
    scratch = (Scratch(0, 2, 64), Scratch(1, 0, 112), Scratch(1, 0, 16), Scratch(2, 1, 48))
    log = printed(model, scratch)
    assert logged_scratch(model, log + "\nagain\n" + log) == scratch
    assert simulate(model, None, logged_scratch(model, log)).head == simulate(model, None, scratch).head
    with pytest.raises(InputError, match="is not of"):
        logged_scratch(read_model(NETS["loop"]()), log)
    with pytest.raises(InputError, match="has no line"):
        logged_scratch(model, "boot: ready")
    with pytest.raises(InputError, match="a line is missing before"):
        logged_scratch(model, "\n".join(line for line in log.splitlines() if "id=3" not in line))
