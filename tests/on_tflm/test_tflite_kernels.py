"""The table of kernels that may write over an input, tried on the real interpreter, each type and shape."""

from __future__ import annotations

import pytest
from kernel_cases import cases, overlaid
from tflm import run

from lowtide.frontends.tflite.kernels import OVER, overwrites
from lowtide.frontends.tflite.reading import read_model

RUNS = 3


def operands(name: str) -> int:
    return 2 if OVER[name].inputs == 2 or name == "PRELU" else 1


@pytest.mark.slow
@pytest.mark.parametrize("name", OVER)
def test_a_kernel_is_right_with_its_output_over_an_input(name):
    for type in sorted(OVER[name].types):
        tried = 0
        for data in cases(name, operands(name), type):
            stock = run(data, runs=RUNS)
            for position in range(OVER[name].inputs):
                model = overlaid(data, position)
                if model is not None:
                    assert run(model, runs=RUNS).same_bits(stock), (type, position)
                    tried += 1
        assert tried


def test_the_trial_tells_right_from_wrong():
    """FULLY_CONNECTED reads its input again for every output."""
    from building import Net

    net = Net()
    main = net.graph()
    x = main.input((1, 16))
    weights = main.constant([[(i * j) % 7 - 3 for i in range(16)] for j in range(16)])
    main.outputs = [main.made("FULLY_CONNECTED", [x, weights, -1])]
    data = net.finish()
    assert not run(overlaid(data, 0)).same_bits(run(data))
    assert list(overwrites(*_only(data))) == []


def test_an_input_that_is_repeated_is_not_written_over():
    from building import Net

    net = Net()
    main = net.graph()
    x, y = main.input((2, 8)), main.input((1, 8))
    output = main.tensor((2, 8))
    main.op("ADD", [y, x], [output])
    assert list(overwrites(*_only(net.finish()))) == [(output, x)]


def _only(data: bytes):
    graph = read_model(data).subgraphs[0]
    return graph.operators[0], graph.tensors
