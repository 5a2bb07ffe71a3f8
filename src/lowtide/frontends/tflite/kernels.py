"""Which reference kernels may write their output exactly over an input.

Each entry was tried on the interpreter, with every type of element that it has a kernel for, and gave the
bits that separate memory gives. It holds for the reference kernels alone; CMSIS-NN, Xtensa's and ESP-NN's
were not tried. What is not here may not: kernels that read an input again after they have written (convolution,
fully connected), and those that were right by an accident of shape (transpose, strided slice, SVDF).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.frontends.tflite.model import Operator, Tensor

LIBRARY = "TFLM reference kernels"
"""What the table is of."""

COPIES = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})
"""Operators whose output has the bytes of their first input, as they are."""

_FIRST = (0,)
_EITHER = (0, 1)

OVER: dict[str, tuple[int, ...]] = {
    "RESHAPE": _FIRST,
    "SQUEEZE": _FIRST,
    "EXPAND_DIMS": _FIRST,
    "ADD": _EITHER,
    "SUB": _EITHER,
    "MUL": _EITHER,
    "DIV": _EITHER,
    "MINIMUM": _EITHER,
    "MAXIMUM": _EITHER,
    "RELU": _FIRST,
    "LEAKY_RELU": _FIRST,
    "PRELU": _FIRST,
    "LOGISTIC": _FIRST,
    "NEG": _FIRST,
    "SQRT": _FIRST,
    "RSQRT": _FIRST,
    "SQUARE": _FIRST,
    "LOG": _FIRST,
    "SOFTMAX": _FIRST,
    "QUANTIZE": _FIRST,
    "CAST": _FIRST,
}
"""Positions of the inputs that the first output may lie over, by operator."""

_TYPES = {"SOFTMAX": frozenset({"INT8"})}
"""Types of the input where not every one was tried, or is right."""


def overwrites(operator: Operator, tensors: Sequence[Tensor]) -> Iterator[tuple[int, int]]:
    """Pairs of tensors, output and input, that may lie in exactly the same bytes.

    Only those of equal length in elements and bytes: an input that is repeated along an axis is read again.
    """
    if operator.custom or len(operator.outputs) != 1:
        return
    output = operator.outputs[0]
    for position in OVER.get(operator.name, ()):
        source = operator.inputs[position] if position < len(operator.inputs) else -1
        if source < 0 or source == output:
            continue
        a, b = tensors[source], tensors[output]
        if a.type not in _TYPES.get(operator.name, {a.type}):
            continue
        if a.size == b.size and math.prod(a.shape) == math.prod(b.shape):
            yield output, source
