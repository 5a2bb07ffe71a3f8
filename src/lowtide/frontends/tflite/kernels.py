"""Which reference kernels may write their output exactly over an input.

Each entry was tried on the interpreter, with each type of element that it names, operands repeated along an
axis among them, and gave the bits that separate memory gives. It holds for the reference kernels alone;
CMSIS-NN, Xtensa's and ESP-NN's were not tried. What is not here may not: kernels that read an input again
after they have written (convolution, fully connected), and those that were right by an accident of shape
(transpose, strided slice, SVDF).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.frontends.tflite.model import Operator, Tensor

LIBRARY = "the reference kernels of TensorFlow Lite Micro"
"""What the table is of."""


@dataclass(frozen=True, slots=True)
class Over:
    """What one kernel allows.

    Args:
        types: of the elements of its first input, that were tried.
        inputs: how many inputs, from the first on, its output may lie over.
        copy: whether its output has the bytes of its first input, as they are.
    """

    types: frozenset[str]
    inputs: int = 1
    copy: bool = False


def _tried(types: str, inputs: int = 1, *, copy: bool = False) -> Over:
    return Over(frozenset(types.split()), inputs, copy)


_SMALL = "FLOAT32 INT8 INT16"
_NUMBERS = "FLOAT32 INT8 INT16 INT32"
_ALL = "FLOAT32 INT8 INT16 INT32 BOOL"

OVER: dict[str, Over] = {
    "RESHAPE": _tried(_ALL, copy=True),
    "SQUEEZE": _tried(_ALL, copy=True),
    "EXPAND_DIMS": _tried(_SMALL, copy=True),
    "ADD": _tried(_NUMBERS, 2),
    "SUB": _tried(_NUMBERS, 2),
    "MUL": _tried(_NUMBERS, 2),
    "DIV": _tried("FLOAT32 INT8 INT32", 2),
    "MINIMUM": _tried(_NUMBERS, 2),
    "MAXIMUM": _tried(_NUMBERS, 2),
    "SQUARED_DIFFERENCE": _tried(_NUMBERS, 2),
    "FLOOR_DIV": _tried("FLOAT32", 2),
    "FLOOR_MOD": _tried("FLOAT32", 2),
    "LOGICAL_AND": _tried("BOOL", 2),
    "LOGICAL_OR": _tried("BOOL", 2),
    "LOGICAL_NOT": _tried("BOOL"),
    "RELU": _tried(_SMALL),
    "RELU6": _tried(_SMALL),
    "LEAKY_RELU": _tried(_SMALL),
    "PRELU": _tried("FLOAT32 INT8"),
    "HARD_SWISH": _tried("FLOAT32 INT8"),
    "ELU": _tried("FLOAT32 INT8"),
    "LOGISTIC": _tried(_SMALL),
    "TANH": _tried(_SMALL),
    "ABS": _tried(_SMALL),
    "NEG": _tried("FLOAT32"),
    "EXP": _tried("FLOAT32"),
    "LOG": _tried("FLOAT32"),
    "SIN": _tried("FLOAT32"),
    "COS": _tried("FLOAT32"),
    "SQRT": _tried("FLOAT32"),
    "RSQRT": _tried("FLOAT32"),
    "SQUARE": _tried("FLOAT32"),
    "FLOOR": _tried("FLOAT32"),
    "CEIL": _tried("FLOAT32"),
    "ROUND": _tried("FLOAT32"),
    "SOFTMAX": _tried(_SMALL),
    "QUANTIZE": _tried("INT8 INT16"),
    "CAST": _tried(_ALL),
}
"""What was tried, by operator."""


def overwrites(operator: Operator, tensors: Sequence[Tensor]) -> Iterator[tuple[int, int]]:
    """Pairs of tensors, output and input, that may lie in exactly the same bytes.

    Only those of equal length in elements and bytes: an input that is repeated along an axis is read again.
    """
    over = OVER.get(operator.name)
    if over is None or operator.custom or len(operator.outputs) != 1:
        return
    output = operator.outputs[0]
    for source in operator.inputs[: over.inputs]:
        if source < 0 or source == output:
            continue
        a, b = tensors[source], tensors[output]
        if a.type in over.types and a.size == b.size and math.prod(a.shape) == math.prod(b.shape):
            yield output, source


def is_copy(operator: Operator) -> bool:
    """Whether the output has the bytes of the first input, as they are."""
    over = OVER.get(operator.name)
    return over is not None and over.copy and not operator.custom
