"""Kernels that give their output another shape than the file has, when they are prepared.

The interpreter then makes room for what the kernel says. Whoever goes by the file would plan too few bytes:
such a file is refused.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Shape = tuple[int, ...]

_VALID = 1


def made_elements(name: str, inputs: Sequence[Shape], options: Sequence[int]) -> int | None:
    """How many elements an operator's only output gets; None where it gets the shape that the file has.

    Args:
        name: of the operator.
        inputs: shapes.
        options: values of the fields that ``codes.OPTIONS`` names.
    """
    made = _MADE.get(name)
    try:
        return None if made is None else made(inputs, options)
    except (IndexError, ValueError, ZeroDivisionError):
        return None  # the kernel will not be prepared


def _gather(inputs: Sequence[Shape], options: Sequence[int]) -> int:
    (source, at), (axis, batches) = inputs, options
    batches += len(at) if batches < 0 else 0
    axis += len(source) if axis < 0 else 0
    return math.prod(source[:axis]) * math.prod(at[batches:]) * math.prod(source[axis + 1 :])


def _gather_nd(inputs: Sequence[Shape], options: Sequence[int]) -> int:
    source, at = inputs
    return math.prod(at[:-1]) * math.prod(source[at[-1] :])


def _same(inputs: Sequence[Shape], options: Sequence[int]) -> int:
    return math.prod(inputs[0])


def _pool(inputs: Sequence[Shape], options: Sequence[int]) -> int:
    (batches, height, width, channels), *_ = inputs
    padding, across, down, filter_width, filter_height = options
    if padding == _VALID:
        height, width = height - filter_height + 1, width - filter_width + 1
    return batches * -(-height // down) * -(-width // across) * channels


def _embedding_lookup(inputs: Sequence[Shape], options: Sequence[int]) -> int:
    at, table = inputs
    return at[0] * math.prod(table[1:])


def _batch_matmul(inputs: Sequence[Shape], options: Sequence[int]) -> int:
    left, right = inputs
    flipped_left, flipped_right = options
    rank = max(len(left), len(right))
    pairs = zip(_padded(left, rank)[:-2], _padded(right, rank)[:-2], strict=True)
    rows, columns = left[-1 if flipped_left else -2], right[-2 if flipped_right else -1]
    return math.prod(b if a == 1 else a for a, b in pairs) * rows * columns


def _padded(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape


_MADE: dict[str, Callable[[Sequence[Shape], Sequence[int]], int]] = {
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "DEPTH_TO_SPACE": _same,
    "SPACE_TO_DEPTH": _same,
    "L2_POOL_2D": _pool,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "BATCH_MATMUL": _batch_matmul,
}
