"""Bytes, shapes and layouts of fake tensors, symbolic dimensions at their upper bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from lowtide.base.constants import LIMIT
from lowtide.ir.problem import align_up

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

Extent = Any
"""A whole number, or a sympy expression over the symbols of a shape environment."""

UNBOUNDED = 2**48
"""A dimension that can reach this has no useful bound: torch writes ``int_oo`` or 2^63 - 2."""

MAX_ENUMERATED = 256
"""Expressions of one symbol with no more values than this are bounded by trying them all: interval
arithmetic is loose where a symbol occurs twice, as in ``n - n // 2``."""


def extent_of(number: int | torch.SymInt) -> Extent:
    """A dimension as a plain number, or as a sympy expression."""
    if isinstance(number, torch.SymInt):
        expression = number.node.expr
        return int(expression) if expression.is_number else expression
    return int(number)


def shape_of(tensor: torch.Tensor) -> tuple[int | str, ...]:
    """The shape for people: numbers, and symbolic dimensions as text."""
    return tuple(d if isinstance(d, int) else str(d) for d in map(extent_of, tensor.shape))


def dtype_of(tensor: torch.Tensor) -> str:
    """Short name of the element type, such as ``float32``."""
    return str(tensor.dtype).removeprefix("torch.")


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor is plain memory: not sparse, and not a stand-in left over from ``vmap``."""
    functorch = torch._C._functorch
    wrapped = functorch.is_batchedtensor(tensor) or functorch.is_gradtrackingtensor(tensor)
    return tensor.layout == torch.strided and not wrapped


def extent_bytes(tensor: torch.Tensor) -> Extent:
    """Bytes from the first to behind the last element: ``(1 + sum((d - 1) * stride)) * itemsize``.

    Zero if a dimension is zero. Symbolic if a dimension is.
    """
    shape = [extent_of(d) for d in tensor.shape]
    if any(d == 0 for d in shape):
        return 0
    strides = [extent_of(s) for s in tensor.stride()]
    if is_contiguous(shape, strides):
        return math.prod(shape) * tensor.itemsize
    return (1 + sum((d - 1) * s for d, s in zip(shape, strides, strict=True))) * tensor.itemsize


def is_contiguous(shape: list[Extent], strides: list[Extent]) -> bool:
    """Whether elements lie in row-major order without gaps; False if symbols leave it open."""
    expected: Extent = 1
    for d, s in zip(reversed(shape), reversed(strides), strict=True):
        if d != 1 and s != expected:
            return False
        expected = expected * d
    return True


def layout_key(tensor: torch.Tensor, storage_extent: Extent) -> str:
    """How the elements lie in a storage of so many bytes: ``C``, ``shape/strides``, or nothing.

    A key is given only if the tensor covers the storage from end to end without gaps or overlaps,
    so that two tensors of equal keys can take each other's bytes.
    """
    shape = [extent_of(d) for d in tensor.shape]
    strides = [extent_of(s) for s in tensor.stride()]
    if any(d == 0 for d in shape):
        return "C" if storage_extent == 0 else ""
    if math.prod(shape) * tensor.itemsize != storage_extent:
        return ""
    if is_contiguous(shape, strides):
        return "C"
    if _is_dense(shape, strides):  # a dimension of one element may have any stride
        wide = [(d, s) for d, s in zip(shape, strides, strict=True) if d != 1]
        return f"{','.join(str(d) for d, _ in wide)}/{','.join(str(s) for _, s in wide)}"
    return ""


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether several elements may be one in memory, as those of an expanded tensor are."""
    shape, strides = [extent_of(d) for d in tensor.shape], [extent_of(s) for s in tensor.stride()]
    if any(d == 0 for d in shape) or is_contiguous(shape, strides):
        return False
    wide = [(s, d) for d, s in zip(shape, strides, strict=True) if d != 1]
    if not all(isinstance(n, int) for pair in wide for n in pair):
        return any(s == 0 for s, _ in wide)
    reach = 0
    for stride, size in sorted(wide):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def same_places(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have their elements at the same distances from the first."""
    return a.shape == b.shape and all(
        s == t for d, s, t in zip(a.shape, a.stride(), b.stride(), strict=True) if d != 1
    )


def _is_dense(shape: list[Extent], strides: list[Extent]) -> bool:
    """Whether the dimensions, in some order, are contiguous."""
    open_dimensions = [(d, s) for d, s in zip(shape, strides, strict=True) if d != 1]
    expected: Extent = 1
    while open_dimensions:
        for i, (d, s) in enumerate(open_dimensions):
            if s == expected:
                expected = expected * d
                del open_dimensions[i]
                break
        else:
            return False
    return True


class Bounds:
    """Upper bounds of symbolic extents.

    Args:
        constraints: ranges by symbol name, such as an exported program's; they narrow what the
            shape environments know.
    """

    def __init__(self, constraints: Mapping[str, Any]) -> None:
        self._constraints = dict(constraints)
        self._known: dict[tuple[int, Any], int | None] = {}

    def bytes_of(self, tensor: torch.Tensor, alignment: int) -> int | None:
        """Bytes to reserve for a tensor, rounded up to the alignment; None if there is no bound."""
        extent = extent_bytes(tensor)
        if not isinstance(extent, int):
            bound = self._upper_extent(tensor, extent)
            if bound is None:
                return None
            extent = bound
        size = align_up(extent, alignment)
        return size if size < LIMIT else None

    def _upper_extent(self, tensor: torch.Tensor, extent: Extent) -> int | None:
        """The least of: every dimension at its bound, the expression as a whole at its bound."""
        env = _shape_env(tensor)
        upper = [self._upper(extent_of(d), env) for d in tensor.shape]
        if any(d is None for d in upper):
            return None
        if any(d is not None and d <= 0 for d in upper):
            return 0
        return self._upper(extent, env, limit=LIMIT)

    def _upper(self, extent: Extent, env: ShapeEnv | None, limit: int = UNBOUNDED) -> int | None:
        if isinstance(extent, int):
            return extent
        key = (id(env), extent)
        if key not in self._known:
            self._known[key] = self._evaluate(extent, env)
        bound = self._known[key]
        return bound if bound is not None and bound < limit else None

    def _evaluate(self, extent: Extent, env: ShapeEnv | None) -> int | None:
        ranges = {symbol: self._range(symbol, env) for symbol in extent.free_symbols}
        if len(ranges) == 1 and not extent.is_polynomial():
            ((symbol, values),) = ranges.items()
            if values.upper - values.lower < MAX_ENUMERATED:
                every = range(int(values.lower), int(values.upper) + 1)
                return max((int(extent.subs(symbol, value)) for value in every), default=0)
        upper = bound_sympy(extent, ranges).upper
        return int(upper) if upper.is_number and upper.is_integer and upper < LIMIT else None

    def _range(self, symbol: Any, env: ShapeEnv | None) -> Any:
        values = ValueRanges(0, int_oo)
        if env is not None and symbol in env.var_to_range:
            values = env.var_to_range[symbol]
        if symbol.name in self._constraints:
            values = values & self._constraints[symbol.name]
        return values


def _shape_env(tensor: torch.Tensor) -> ShapeEnv | None:
    for number in (*tensor.shape, *tensor.stride()):
        if isinstance(number, torch.SymInt):
            return number.node.shape_env
    return None
