"""One-operator models of elementwise kernels, with the output in memory of its own or over an input."""

from __future__ import annotations

from lowtide.frontends.tflite.kernels import OVER
from lowtide.frontends.tflite.metadata import ONLINE
from lowtide.frontends.tflite.model import Model
from lowtide.frontends.tflite.reading import read_model
from lowtide.frontends.tflite.writing import with_offsets
from tflite_building import Net

SCALES = {"INT8": 0.05, "INT16": 0.0005}

SHAPES = (((1, 37),), ((2, 3, 5, 7),), ((1, 16, 24, 3),))
PAIRS = (
    ((1, 37), (1, 37)),
    ((2, 3, 5, 7), (2, 3, 5, 7)),
    ((2, 3, 5, 7), (1, 1, 1, 7)),
    ((2, 3, 5, 7), (2, 3, 5, 1)),
    ((2, 3, 5, 7), (2, 1, 5, 7)),
    ((2, 3, 5, 7), (1,)),
)


COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


def cases(name: str, type: str) -> list[bytes]:
    """Models of an operator on several shapes; each other order of the operands is one of its own."""
    if name == "ADD_N":
        return [_model(name, [shape] * OVER[name].inputs, type) for (shape,) in SHAPES]
    if name == "DYNAMIC_UPDATE_SLICE":
        return [_model(name, [shape, tuple(-(-n // 2) for n in shape)], type) for (shape,) in SHAPES]
    if OVER[name].inputs == 1 and name != "PRELU":
        return [_model(name, list(shapes), type) for shapes in SHAPES]
    orders = (1,) if name == "PRELU" else (1, -1)
    return [_model(name, list(shapes)[::order], type) for shapes in PAIRS for order in orders]


def _model(name: str, shapes: list[tuple[int, ...]], type: str) -> bytes:
    net = Net()
    main = net.graph()
    given = [main.input(shape, type, SCALES.get(type)) for shape in shapes]
    largest = max(shapes, key=lambda shape: (len(shape), sum(shape)))
    output = main.tensor(largest, type, scale=SCALES.get(type))
    operands = list(given)
    options = {}
    if name in COMPARISONS:
        main.tensors[output].type, main.tensors[output].quantization = 6, None
    if name == "L2_NORMALIZATION" and type in SCALES:
        main.tensors[output].quantization.scale = [1 / 128]
    if name == "LOG_SOFTMAX" and type in SCALES:
        main.tensors[output].quantization.scale = [16 / 256]
        main.tensors[output].quantization.zeroPoint = [127]
    if name == "DYNAMIC_UPDATE_SLICE":
        operands.append(main.constant([0] * (len(largest) - 1) + [largest[-1] // 3], "INT32"))
    if name == "CAST":
        main.tensors[output].type = main.tensors[given[0]].type
        if type in ("FLOAT32", "INT32"):
            main.tensors[output].type = 2 if type == "FLOAT32" else 0
    if name == "QUANTIZE" and type in SCALES:
        main.tensors[output].quantization.scale = [2 * SCALES[type]]
        main.tensors[given[0]].quantization.scale = [SCALES[type]]
    if name == "LOGISTIC" and type in SCALES:
        main.tensors[output].quantization.scale = [1 / 256 if type == "INT8" else 1 / 32768]
        main.tensors[output].quantization.zeroPoint = [-128 if type == "INT8" else 0]
    if name == "TANH" and type in SCALES:
        main.tensors[output].quantization.scale = [1 / 128 if type == "INT8" else 1 / 32768]
    if name == "SOFTMAX":
        options = {"beta": 1.0}
        if type in SCALES:
            main.tensors[output].quantization.scale = [1 / 256 if type == "INT8" else 1 / 32768]
            main.tensors[output].quantization.zeroPoint = [-128 if type == "INT8" else 0]
    if name == "LEAKY_RELU":
        options = {"alpha": 0.25}
    if name == "RESHAPE":
        operands.append(main.constant([-1, *largest[1:]][:1] + list(largest[1:]), "INT32"))
    if name == "EXPAND_DIMS":
        operands.append(main.constant([0], "INT32"))
        main.tensors[output].shape = [1, *largest]
    if name == "SQUEEZE":
        main.tensors[output].shape = [length for length in largest if length != 1]
    if name == "PRELU" and type in SCALES:
        main.tensors[given[1]].quantization.scale = [0.01]
    main.op(name, operands, [output], **options)
    main.outputs = [output]
    return net.finish()


def overlaid(data: bytes, position: int) -> bytes | None:
    """The model with its output exactly over an input; None if their sizes differ."""
    model = read_model(data)
    graph = model.subgraphs[0]
    output, source = graph.outputs[0], graph.inputs[position]
    if graph.tensors[output].size != graph.tensors[source].size:
        return None
    return with_offsets(model, _offsets(model, {output: source})).data


def _offsets(model: Model, over: dict[int, int]) -> list[int]:
    places, end = {}, 0
    for i, tensor in enumerate(model.subgraphs[0].tensors):
        if i in model.arena_tensors and i not in over:
            places[i], end = end, end + -(-tensor.size // 16) * 16
    places |= {i: places[source] for i, source in over.items()}
    return [places.get(i, ONLINE) for i in range(model.tensor_count)]
