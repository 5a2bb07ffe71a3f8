"""The table of kernels that may write over an input, tried on the real interpreter, each type and shape."""

from __future__ import annotations

import pytest

from lowtide.frontends.tflite.kernels import OVER, PART_TYPES, PARTS, overwrites, same_bytes
from lowtide.frontends.tflite.metadata import ONLINE
from lowtide.frontends.tflite.reading import read_model
from lowtide.frontends.tflite.writing import with_offsets
from tflite_building import Net
from tflite_kernel_cases import SCALES, cases, overlaid
from tflm import run

RUNS = 3


@pytest.mark.slow
@pytest.mark.parametrize("name", OVER)
def test_a_kernel_is_right_with_its_output_over_an_input(name):
    for type in sorted(OVER[name].types):
        tried = 0
        for data in cases(name, type):
            stock = run(data, runs=RUNS)
            for position in range(OVER[name].inputs):
                model = overlaid(data, position)
                if model is not None:
                    assert run(model, runs=RUNS).same_bits(stock), (type, position)
                    tried += 1
        assert tried


def joined(type: str, shapes: list[tuple[int, ...]], axis: int) -> bytes:
    net = Net()
    main = net.graph()
    parts = [main.input(shape, type, SCALES.get(type)) for shape in shapes]
    whole = list(shapes[0])
    whole[axis] = sum(shape[axis] for shape in shapes)
    main.outputs = [main.made("CONCATENATION", parts, tuple(whole), axis=axis)]
    return net.finish()


def split(name: str, type: str, shapes: list[tuple[int, ...]], axis: int) -> bytes:
    net = Net()
    main = net.graph()
    shape = list(shapes[0])
    shape[axis] = sum(part[axis] for part in shapes)
    whole, along = main.input(tuple(shape), type, SCALES.get(type)), main.constant([axis], "INT32")
    main.outputs = [main.tensor(part, type, scale=SCALES.get(type)) for part in shapes]
    if name == "SPLIT":
        main.op(name, [along, whole], main.outputs, numSplits=len(shapes))
    else:
        sizes = main.constant([part[axis] for part in shapes], "INT32")
        main.op(name, [whole, sizes, along], main.outputs, numSplits=len(shapes))
    return net.finish()


@pytest.mark.parametrize("type", sorted(PART_TYPES))
@pytest.mark.parametrize("name", PARTS)
def test_parts_may_lie_in_their_whole(name, type):
    for shapes, axis in (
        ([(16, 3), (32, 3), (16, 3)], 0),
        ([(1, 16, 4), (1, 16, 4)], 1),
        ([(1, 1, 1, 64), (1, 1, 1, 16)], 3),
    ):
        if name == "SPLIT":
            shapes = shapes[:1] * 3
        data = joined(type, shapes, axis) if name == "CONCATENATION" else split(name, type, shapes, axis)
        model = read_model(data)
        graph = model.subgraphs[0]
        same = list(same_bytes(graph.operators[0], graph.tensors))
        assert len(same) == len(shapes)
        offsets = [0 if i in model.arena_tensors else ONLINE for i in range(model.tensor_count)]
        for inner, _, distance in same:
            offsets[inner] = distance
        stock, ours = run(data), run(with_offsets(model, offsets).data)
        assert ours.same_bits(stock)
        assert ours.head < stock.head


def test_parts_that_are_strewn_over_their_whole_are_copied():
    graph = read_model(joined("INT8", [(2, 16), (2, 16)], 1)).subgraphs[0]
    assert list(same_bytes(graph.operators[0], graph.tensors)) == []
    graph = read_model(joined("INT8", [(2, 16), (2, 32)], 1)).subgraphs[0]
    assert list(same_bytes(graph.operators[0], graph.tensors)) == []


def test_the_trial_tells_right_from_wrong():
    """FULLY_CONNECTED reads its input again for every output."""
    net = Net()
    main = net.graph()
    x = main.input((1, 16))
    weights = main.constant([[(i * j) % 7 - 3 for i in range(16)] for j in range(16)])
    main.outputs = [main.made("FULLY_CONNECTED", [x, weights, -1])]
    data = net.finish()
    assert not run(overlaid(data, 0)).same_bits(run(data))
    assert list(overwrites(*_only(data))) == []


def test_an_input_that_is_repeated_is_not_written_over():
    net = Net()
    main = net.graph()
    x, y = main.input((2, 8)), main.input((1, 8))
    output = main.tensor((2, 8))
    main.op("ADD", [y, x], [output])
    assert list(overwrites(*_only(net.finish()))) == [(output, x)]


def _only(data: bytes):
    graph = read_model(data).subgraphs[0]
    return graph.operators[0], graph.tensors
