"""What reference kernels keep in the arena's tail for as long as the interpreter lives.

Three kinds: an operator's options as the interpreter parses them, the kernel's own state, and what the
kernel takes besides when it is prepared, which depends on shapes and types. Sizes were computed by compilers
from the sources of August 2026 (``targets``), and compared with what the interpreter itself takes. Other
kernel libraries keep more: CMSIS-NN, Xtensa's and ESP-NN's were not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.frontends.tflite.targets import CORTEX_M, HOST, PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.frontends.tflite.model import Operator, Tensor
    from lowtide.frontends.tflite.targets import Target


@dataclass(frozen=True, slots=True)
class Kept:
    """What an operator keeps whatever its shapes are.

    Args:
        options: bytes of its options.
        alignment: of these.
        state: bytes of the kernel's own.
    """

    options: int = 0
    alignment: int = 1
    state: int = 0


# Operator; options as bytes/alignment on 64-bit Linux and on Cortex-M; state in bytes on both.
_TABLE = """
    ABS                               -     -   28   28
    ADD                             8/4   2/1   60   60
    ARG_MAX                         4/4   1/1    -    -
    ARG_MIN                         4/4   1/1    -    -
    AVERAGE_POOL_2D                40/4  40/4   32   32
    BATCH_MATMUL                    3/1   3/1   32   16
    CALL_ONCE                       4/4   4/4    8    8
    CAST                            8/4   2/1    -    -
    CIRCULAR_BUFFER                   -     -    8    8
    CONCATENATION                   8/4   8/4   40   24
    CONV_2D                        28/4  28/4   72   56
    CUMSUM                          2/1   2/1    -    -
    DEPTHWISE_CONV_2D              28/4  28/4   72   56
    DEPTH_TO_SPACE                  4/4   4/4    -    -
    DEQUANTIZE                        -     -   32   32
    DIV                             4/4   1/1   28   28
    ELU                               -     -  256  256
    EQUAL                             -     -   32   32
    FULLY_CONNECTED                16/4   5/1   64   48
    GATHER                          8/4   8/4    -    -
    GREATER                           -     -   32   32
    GREATER_EQUAL                     -     -   32   32
    HARD_SWISH                        -     -   20   20
    IF                              8/4   8/4    8    8
    L2_NORMALIZATION                4/4   1/1    4    4
    L2_POOL_2D                     40/4  40/4    -    -
    LEAKY_RELU                      4/4   4/4   24   24
    LESS                              -     -   32   32
    LESS_EQUAL                        -     -   32   32
    LOGISTIC                          -     -   16   16
    MAX_POOL_2D                    40/4  40/4   32   32
    MEAN                            1/1   1/1   44   44
    MIRROR_PAD                      4/4   1/1   20   20
    MUL                             4/4   1/1   36   36
    NOT_EQUAL                         -     -   32   32
    PACK                            8/4   8/4    -    -
    PAD                               -     -   56   56
    PADV2                             -     -   56   56
    PRELU                             -     -   28   28
    QUANTIZE                          -     -   32   32
    REDUCE_ALL                      1/1   1/1   44   44
    REDUCE_MAX                      1/1   1/1   44   44
    REDUCE_MIN                      1/1   1/1   44   44
    RELU                              -     -   28   28
    RELU6                             -     -    8    8
    RESHAPE                        36/4  36/4    -    -
    RESIZE_BILINEAR                 2/1   2/1    -    -
    RESIZE_NEAREST_NEIGHBOR         2/1   2/1    -    -
    RSQRT                             -     -   28   28
    SELECT_V2                         -     -    1    1
    SHAPE                           4/4   1/1    -    -
    SOFTMAX                         4/4   4/4   80   56
    SPACE_TO_BATCH_ND                 -     -    4    4
    SPACE_TO_DEPTH                  4/4   4/4    -    -
    SPLIT                           4/4   4/4    -    -
    SPLIT_V                         4/4   4/4    -    -
    SQUARED_DIFFERENCE                -     -  112  112
    SQUEEZE                        36/4  36/4    -    -
    STRIDED_SLICE                  24/4  24/4   84   84
    SUB                             8/4   2/1   52   52
    SUM                             1/1   1/1   44   44
    SVDF                           12/4   8/4   36   36
    TANH                              -     -   16   16
    TRANSPOSE_CONV                 20/4  16/4   80   72
    UNIDIRECTIONAL_SEQUENCE_LSTM   16/4  16/4  688  688
    UNPACK                          8/4   8/4    -    -
    VAR_HANDLE                     16/8   8/4    4    4
    WHILE                           8/4   8/4    8    8
"""

_NOTHING = """
    ADD_N ASSIGN_VARIABLE BATCH_TO_SPACE_ND BROADCAST_ARGS BROADCAST_TO CEIL COS
    DYNAMIC_UPDATE_SLICE EMBEDDING_LOOKUP EXP EXPAND_DIMS FILL FLOOR FLOOR_DIV FLOOR_MOD GATHER_ND
    LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOG_SOFTMAX MAXIMUM MINIMUM NEG READ_VARIABLE REVERSE_V2
    ROUND SIN SLICE SQRT SQUARE TRANSPOSE ZEROS_LIKE
"""
"""Operators that keep nothing of a fixed size."""


def _kept(options: str, state: str) -> Kept:
    size, alignment = map(int, options.split("/")) if options != "-" else (0, 1)
    return Kept(size, alignment, 0 if state == "-" else int(state))


_ROWS = [line.split() for line in _TABLE.strip().splitlines()]

_KERNELS: dict[str, dict[str, Kept]] = {
    HOST.name: {name: _kept(host, state) for name, host, _, state, _ in _ROWS},
    CORTEX_M.name: {name: _kept(device, state) for name, _, device, _, state in _ROWS},
}
for _known in _KERNELS.values():
    _known.update(dict.fromkeys(_NOTHING.split(), Kept()))

_PACKAGED = {
    "ASSIGN_VARIABLE": Kept(state=4),
    "CONCATENATION": Kept(8, 4, 80),
    "CONV_2D": Kept(28, 4, 80),
    "DEPTHWISE_CONV_2D": Kept(28, 4, 80),
    "FULLY_CONNECTED": Kept(32, 8, 72),
    "TRANSPOSE_CONV": Kept(20, 4, 88),
}
"""Operators that keep more in the build of the package: its kernels allow compressed tensors, and the options
of FULLY_CONNECTED have grown since August, as was measured."""

_KERNELS[PACKAGE.name] = {**_KERNELS[HOST.name], **_PACKAGED}

_CUSTOM = frozenset({"CIRCULAR_BUFFER"})
"""Custom operators in the table."""


def kept_by(operator: Operator, target: Target) -> Kept | None:
    """What an operator keeps whatever its shapes are; None if its kernel was not counted."""
    if operator.custom and operator.name not in _CUSTOM:
        return None
    return _KERNELS[target.name].get(operator.name)


_CHANNELS = {"CONV_2D": (1, 0), "DEPTHWISE_CONV_2D": (1, 3), "TRANSPOSE_CONV": (1, 0)}
"""Operators that keep a multiplier and a shift for each channel: which input the filter is, and which axis of
it the channels."""

_RESHAPED = frozenset(
    {
        "BATCH_MATMUL",
        "DEPTH_TO_SPACE",
        "EMBEDDING_LOOKUP",
        "GATHER",
        "GATHER_ND",
        "L2_POOL_2D",
        "SPACE_TO_DEPTH",
    }
)
"""Operators that keep a shape of their output."""

_QUANTIZED = {"ADD_N": (40, 40), "CUMSUM": (36, 36), "LOG_SOFTMAX": (40, 28)}
"""Operators that have state for INT8 only: bytes on 64-bit Linux and on Cortex-M."""

_LOOKUP = (16, 8)
_MATMUL = 28
_SOFTMAX_TABLE = 2 * 513


def made_while_prepared(operator: Operator, tensors: Sequence[Tensor], target: Target) -> Iterator[int]:
    """Bytes of each allocation that a kernel makes when it is prepared, besides its state.

    Args:
        operator: whose kernel.
        tensors: of its subgraph.
        target: how large pointers are.
    """
    if operator.custom or not operator.inputs:
        return
    inputs = [tensors[i] if i >= 0 else None for i in operator.inputs]
    first, column = inputs[0], int(target == CORTEX_M)
    if operator.name in _CHANNELS:
        position, axis = _CHANNELS[operator.name]
        filter = inputs[position] if position < len(inputs) else None
        if filter is not None and axis < len(filter.shape):
            yield from (4 * filter.shape[axis],) * 2
    elif operator.name == "FULLY_CONNECTED":
        filter = inputs[1] if len(inputs) > 1 else None
        if filter is not None and filter.scales > 1 and first is not None and first.type != "FLOAT32":
            yield from (4 * filter.scales,) * 2
    elif operator.name == "SOFTMAX" and first is not None and first.type == "INT16":
        yield from (_SOFTMAX_TABLE,) * 2
    elif operator.name in _QUANTIZED and first is not None and first.type == "INT8":
        yield _QUANTIZED[operator.name][column]
    elif operator.name == "EMBEDDING_LOOKUP":
        yield _LOOKUP[column]
    elif operator.name == "BATCH_MATMUL":
        yield from _matmul(operator, inputs, target)
    if operator.name in _RESHAPED:
        yield from (4 + 4 * len(tensors[i].shape) for i in operator.outputs[:1])


def _matmul(operator: Operator, inputs: Sequence[Tensor | None], target: Target) -> Iterator[int]:
    """A product of matrices keeps each operand that it must turn over as a copy of its own."""
    flipped_left, flipped_right = operator.options
    if inputs[0] is not None and inputs[0].type in ("INT8", "INT16"):
        yield _MATMUL
    for tensor, is_copied in zip(inputs, (flipped_left, not flipped_right), strict=False):
        if tensor is not None and is_copied:
            yield target.tensor
            yield 4 + 4 * len(tensor.shape)
            yield tensor.size
