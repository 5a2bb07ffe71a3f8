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
    "LOG_SOFTMAX": _tried("FLOAT32 INT8"),
    "L2_NORMALIZATION": _tried("FLOAT32 INT8"),
    "ADD_N": _tried("FLOAT32 INT8", 8),
    "EQUAL": _tried("INT8 BOOL", 2),
    "NOT_EQUAL": _tried("INT8 BOOL", 2),
    "LESS": _tried("INT8", 2),
    "LESS_EQUAL": _tried("INT8", 2),
    "GREATER": _tried("INT8", 2),
    "GREATER_EQUAL": _tried("INT8", 2),
    "DYNAMIC_UPDATE_SLICE": _tried(_NUMBERS),
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


def same_bytes(operator: Operator, tensors: Sequence[Tensor]) -> Iterator[tuple[int, int, int]]:
    """Tensors that are the same bytes afterwards: the inner one, the outer one, and how far into it in bytes.

    A reshape is its input again. What is joined or split along the first axis that is longer than one lies in
    the whole part after part, each one run of bytes, which its kernel copies to where it is already.
    """
    over = OVER.get(operator.name)
    if operator.custom or (over is None and operator.name not in PARTS):
        return
    if over is not None:
        if over.copy:
            yield from ((output, source, 0) for output, source in overwrites(operator, tensors))
        return
    joins, position = PARTS[operator.name]
    whole = operator.outputs[0] if joins else operator.inputs[position]
    distance = 0
    for part in operator.inputs if joins else operator.outputs:
        if min(part, whole) < 0 or not _is_run(tensors[part], tensors[whole]):
            return
        yield part, whole, distance
        distance += tensors[part].size


PARTS = {"CONCATENATION": (True, 0), "SPLIT": (False, 1), "SPLIT_V": (False, 0)}
"""Operators between a whole and its parts: whether they join these, and which input the whole is if not."""

PART_TYPES = frozenset({"FLOAT32", "INT8", "INT16", "INT32"})
"""Types of the elements with which they were tried."""


def _is_run(part: Tensor, whole: Tensor) -> bool:
    """Whether a part along the one axis in which the shapes differ is one run of the whole's bytes."""
    if part.type != whole.type or part.type not in PART_TYPES or len(part.shape) != len(whole.shape):
        return False
    differ = [i for i, (a, b) in enumerate(zip(part.shape, whole.shape, strict=True)) if a != b]
    return len(differ) == 1 and math.prod(whole.shape[: differ[0]]) == 1
