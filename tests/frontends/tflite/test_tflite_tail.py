"""The arena's tail, and the least arena that starts, are known to the byte."""

from __future__ import annotations

import numpy as np
import pytest

import lowtide
from lowtide import InputError
from lowtide.frontends.tflite.interpreter import simulate
from lowtide.frontends.tflite.kernels import OVER
from lowtide.frontends.tflite.metadata import offsets_in
from lowtide.frontends.tflite.reading import read_model
from lowtide.frontends.tflite.scratch import probed_arena, probed_scratch
from lowtide.frontends.tflite.tail import Tail, tail_of
from lowtide.frontends.tflite.targets import CORTEX_M, PACKAGE, Target
from lowtide.frontends.tflite.writing import with_offsets
from tflite_building import Net
from tflite_kernel_cases import cases
from tflite_nets import NETS
from tflite_random_nets import random_net
from tflm import run, smallest_arena
from wake_words import wake_words


def predicted(data: bytes, target: Target = PACKAGE, *, probed: bool = False) -> tuple[Tail, int]:
    """The tail and the least arena."""
    model = read_model(data)
    scratch = probed_scratch(model) if probed else ()
    arena = simulate(model, offsets_in(model), scratch)
    tail = tail_of(model, arena, offsets_in(model), scratch, target)
    return tail, tail.arena(arena.head)


@pytest.mark.parametrize("name", [*NETS, *sorted(wake_words())])
def test_tail_and_least_arena(name):
    data = NETS[name]() if name in NETS else wake_words()[name]
    tail, least = predicted(data, probed=name == "scratch")
    assert tail.bytes == run(data, runs=1).tail
    assert least == smallest_arena(data, most=1 << 17)
    assert tail.unknown == ()


@pytest.mark.parametrize("seed", range(25))
def test_tails_of_random_models(seed):
    data = random_net(seed)
    assert predicted(data)[0].bytes == run(data, runs=1).tail


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1200, 50))
def test_least_arenas_of_random_models(first):
    for seed in range(first, first + 50):
        data = random_net(seed)
        tail, least = predicted(data)
        assert (tail.bytes, least) == (run(data, runs=1).tail, smallest_arena(data, most=1 << 17))


# Measured with the interpreter's sources of August 2026, built for 32-bit Arm with short enumerations.
ON_ARM = {
    "loop": (944, 8144),
    "branch": (736, 4848),
    "resource": (1952, 5024),
    "variable in a branch": (3024, 7136),
    "shared": (928, 10160),
    "branches 0": (2864, 23600),
    "alexa": (12612, 16272),
    "okay_nabu": (16740, 21648),
    "hey_mycroft": (13268, 17568),
}


@pytest.mark.parametrize("name", ON_ARM)
def test_tail_and_least_arena_on_a_32_bit_arm(name):
    if name not in NETS and name not in wake_words():
        pytest.skip("pymicro-wakeword is not installed")
    tail, least = predicted(NETS[name]() if name in NETS else wake_words()[name], CORTEX_M)
    assert (tail.bytes, least) == ON_ARM[name]


def test_offsets_change_no_tail():
    model = read_model(NETS["loop"]())
    offsets = [64 * i if i in model.arena_tensors else -1 for i in range(model.tensor_count)]
    data = with_offsets(model, offsets).data
    assert predicted(data)[0].bytes == run(data, runs=1).tail == predicted(model.data)[0].bytes


@pytest.mark.parametrize("name", OVER)
def test_what_kernels_keep(name):
    """The table of what each keeps, by its type of elements and by its shapes."""
    for type in sorted(OVER[name].types):
        for data in cases(name, type)[:2]:
            tail, _ = predicted(data, probed=name == "ADD_N")  # which asks for scratch
            assert tail.bytes == run(data, runs=1).tail, type


def convolved(name: str, type: str, channels: int, *, scales: int = 1) -> bytes:
    """A convolution, or a full connection, with a filter that is quantized by channel."""
    net = Net()
    main = net.graph()
    x = main.input((1, 6, 6, 4), type, 0.05 if type != "FLOAT32" else None)
    weights = "FLOAT32" if type == "FLOAT32" else "INT8"
    shapes = {
        "CONV_2D": ((channels, 3, 3, 4), (1, 4, 4, channels)),
        "DEPTHWISE_CONV_2D": ((1, 3, 3, 4), (1, 4, 4, 4)),
        "TRANSPOSE_CONV": ((channels, 3, 3, 4), (1, 13, 13, channels)),
        "FULLY_CONNECTED": ((channels, 144), (1, channels)),
    }
    filter_shape, shape = shapes[name]
    filter = main.constant(np.ones(filter_shape), weights, None if weights == "FLOAT32" else 0.02)
    output = main.tensor(shape, type, scale=None if type == "FLOAT32" else 0.5)
    if weights == "INT8" and scales > 1:
        main.tensors[filter].quantization.scale = [0.02] * scales
        main.tensors[filter].quantization.zeroPoint = [0] * scales
        main.tensors[filter].quantization.quantizedDimension = 3 if name.startswith("DEPTH") else 0
    if name == "TRANSPOSE_CONV":
        size = main.constant(shape, "INT32")
        main.op(name, [size, filter, x], [output], strideW=2, strideH=2, padding=1)
    elif name == "FULLY_CONNECTED":
        main.op(name, [x, filter, -1], [output])
    else:
        extra = {"depthMultiplier": 1} if name.startswith("DEPTH") else {}
        extra |= {"dilationWFactor": 1, "dilationHFactor": 1}
        main.op(name, [x, filter], [output], strideW=1, strideH=1, padding=1, **extra)
    main.outputs = [output]
    return net.finish()


@pytest.mark.parametrize("type", ["FLOAT32", "INT8"])
@pytest.mark.parametrize("name", ["CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"])
def test_what_kernels_keep_of_each_channel(name, type):
    for channels in (4, 9):
        scales = 4 if name == "DEPTHWISE_CONV_2D" else channels
        for data in (convolved(name, type, channels), convolved(name, type, channels, scales=scales)):
            assert predicted(data)[0].bytes == run(data, runs=1).tail, channels


@pytest.mark.parametrize("flipped", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("type", ["FLOAT32", "INT8"])
def test_products_of_matrices_keep_copies_of_what_they_turn_over(flipped, type):
    net = Net()
    main = net.graph()
    scale = None if type == "FLOAT32" else 0.05
    x = main.input((2, 5, 3) if flipped[0] else (2, 3, 5), type, scale)
    y = main.input((2, 7, 5) if flipped[1] else (2, 5, 7), type, scale)
    output = main.tensor((2, 3, 7), type, scale=scale)
    main.op("BATCH_MATMUL", [x, y], [output], adjX=flipped[0], adjY=flipped[1])
    main.outputs = [output]
    data = net.finish()
    assert predicted(data)[0].bytes == run(data, runs=1).tail


def test_the_least_arena_is_measured_on_request():
    for name in ("branch", "shared"):
        data = NETS[name]()
        assert probed_arena(data, name) == predicted(data)[1]
        done = lowtide.repack(data, probe_arena=True)
        assert done.changed
        least = predicted(done.data)[1]
        assert least < predicted(data)[1]
        assert any(f"in an arena of {least:,} bytes" in note for note in done.notes)
    net = Net()
    main = net.graph()
    main.outputs = [main.made("CUSTOM", [main.input((1, 16))], custom="Nobody's")]
    with pytest.raises(InputError, match="its arena cannot be probed: the interpreter does not start"):
        lowtide.plan(net.finish(), probe_arena=True)


def test_kernels_that_were_not_counted_are_named():
    net = Net()
    main = net.graph()
    x = main.input((1, 16))
    main.outputs = [main.made("CUSTOM", [main.made("NEG", [x])], custom="Nobody's")]
    tail, _ = predicted(net.finish())
    assert tail.unknown == ("Nobody's",)
