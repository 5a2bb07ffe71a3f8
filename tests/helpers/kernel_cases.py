"""Calls of every operator whose kernel may write over an argument, and of some whose may not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from overlaid import Case

aten = torch.ops.aten

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
REAL = FLOATS + WHOLE
BITS = (*WHOLE, torch.bool)
ALL = (*REAL, torch.bool)

FLAT = ((), (1,), (3,), (17,), (1001,), (33, 65), (2, 3, 5), (2, 3, 4, 7), (1, 2, 3, 2, 5), (40007,))
"""Scalars, odd sizes, more than a vector, more than one thread's share, up to five dimensions."""

LAST = ((2, 5, 4, 7), (1, 3, 9, 8))
"""Shapes in the channels-last order."""

FEW = ((), (1001,), (2, 3, 5), (2, 3, 4, 7))
"""For types other than 32-bit floats, which run through the same code."""

Tensor = torch.Tensor
Make = Callable[[Tensor, "Maker"], Iterator[tuple[tuple[Any, ...], dict[str, Any], tuple[int, ...]]]]


class Maker:
    """Tensors with all kinds of values, reproducibly."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def like(self, tensor: Tensor) -> Tensor:
        return self.make(tuple(tensor.shape), tensor.dtype, tensor.dim_order())

    def make(
        self, shape: tuple[int, ...], dtype: torch.dtype, order: tuple[int, ...] | None = None
    ) -> Tensor:
        if dtype.is_floating_point:
            found = torch.randn(shape, generator=self.generator) * 2
            odd = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0, -1.0, 0.5])
            if found.numel() >= 32:
                found.view(-1)[: len(odd)] = odd
            found = found.to(dtype)
        elif dtype == torch.bool:
            found = torch.randint(0, 2, shape, generator=self.generator).to(dtype)
        else:
            low = 1 if dtype == torch.uint8 else -9
            found = torch.randint(low, 10, shape, generator=self.generator).to(dtype)
            found[found == 0] = 3  # a whole number is not divided by zero
        if order is not None and tuple(order) != tuple(range(len(shape))):
            found = found.contiguous(memory_format=torch.channels_last)
        return found


def unary(*args: Any, **kwargs: Any) -> Make:
    def make(x: Tensor, maker: Maker) -> Any:
        yield (x, *args), kwargs, (0,)

    return make


def binary(**kwargs: Any) -> Make:
    """Both arguments alike; one tensor twice; the other one smaller, on either side; a scalar tensor."""

    def make(x: Tensor, maker: Maker) -> Any:
        yield (x, maker.like(x)), kwargs, (0, 1)
        yield (x, x), kwargs, (0,)
        if 1 <= x.dim() <= 3 and x.is_contiguous():
            for shape in ((1,) * x.dim(), tuple(x.shape[1:]), (*x.shape[:-1], 1)):
                small = maker.make(shape, x.dtype)
                if small.shape != x.shape:
                    yield (x, small), kwargs, (0,)
                    yield (small, x), kwargs, (1,)

    return make


def scalar(*values: Any, **kwargs: Any) -> Make:
    def make(x: Tensor, maker: Maker) -> Any:
        for value in values:
            yield (x, value), kwargs, (0,)

    return make


def choose(x: Tensor, maker: Maker) -> Any:
    """``where``: conditions of the same and of smaller shapes; over either branch, over a condition too."""
    order = x.dim_order()
    pick = maker.make(tuple(x.shape), torch.bool, order)
    over = (1, 2) if x.dtype != torch.bool else (0, 1, 2)
    yield (pick, x, maker.like(x)), {}, over
    yield (pick, x, x), {}, (1,)
    if x.dim() and x.is_contiguous():
        yield (maker.make(tuple(x.shape[1:]), torch.bool), x, maker.make((1,), x.dtype)), {}, (1,)
        yield (pick, maker.make((*x.shape[:-1], 1), x.dtype), x), {}, (2,)


def filled(x: Tensor, maker: Maker) -> Any:
    if not x.is_contiguous():
        return
    yield (x, maker.make(tuple(x.shape), torch.bool, x.dim_order()), 2), {}, (0,)
    if x.dim():
        yield (x, maker.make((1,) * x.dim(), torch.bool), 2), {}, (0,)


def bounded(x: Tensor, maker: Maker) -> Any:
    """Between two numbers, which the kernels want to be of the tensor's type."""
    yield (x, *((2, 5) if x.dtype == torch.uint8 else (-1, 2))), {}, (0,)


def clamped(x: Tensor, maker: Maker) -> Any:
    yield (x, maker.like(x), maker.like(x)), {}, (0, 1, 2)
    yield (x, None, maker.like(x)), {}, (0, 1)
    if x.is_contiguous():
        yield (x, maker.make((), x.dtype), x), {}, (0,)


def rows(*rest: Any, scalars: bool = True) -> Make:
    """Along each dimension; the kernels take the usual order of dimensions only."""

    def make(x: Tensor, maker: Maker) -> Any:
        if not x.is_contiguous() or not (x.dim() or scalars):
            return
        for dim in {0, x.dim() - 1, x.dim() // 2} if x.dim() else {0}:
            yield (x, dim, *rest), {}, (0,)

    return make


def layer_norm(x: Tensor, maker: Maker) -> Any:
    if not x.dim() or not x.is_contiguous():
        return
    for first in {x.dim() - 1, 0}:
        shape = list(x.shape[first:])
        scale, shift = (maker.make(tuple(shape), x.dtype) for _ in range(2))
        yield (x, shape, scale, shift, 1e-5), {}, (0,)
        yield (x, shape, None, None, 1e-5), {}, (0,)


def group_norm(x: Tensor, maker: Maker) -> Any:
    if x.dim() < 3 or not x.is_contiguous():
        return
    n, c, *rest = x.shape
    scale, shift = (maker.make((c,), x.dtype) for _ in range(2))
    size = torch.Size(rest).numel()
    for groups in {1, c}:
        yield (x, scale, shift, n, c, size, groups, 1e-5), {}, (0,)
        yield (x, None, None, n, c, size, groups, 1e-5), {}, (0,)


def batch_norm(x: Tensor, maker: Maker) -> Any:
    if x.dim() < 2:
        return
    scale, shift, mean = (maker.make((x.shape[1],), x.dtype) for _ in range(3))
    variance = maker.make((x.shape[1],), x.dtype).abs() + 1
    yield (x, scale, shift, mean, variance, 0.1, 1e-5), {}, (0,)
    yield (x, None, None, mean, variance, 0.1, 1e-5), {}, (0,)


def batch_norm_of_batch(x: Tensor, maker: Maker) -> Any:
    if x.dim() < 2:
        return
    scale, shift = (maker.make((x.shape[1],), x.dtype) for _ in range(2))
    yield (x, scale, shift, True, 0.1, 1e-5), {}, (0,)


def index_put(x: Tensor, maker: Maker) -> Any:
    if not x.dim() or not x.is_contiguous():
        return
    index = torch.tensor([0, x.shape[0] - 1, 0])
    values = maker.make((3, *x.shape[1:]), x.dtype)
    yield (x, [index], values, False), {}, (0,)
    yield (x, [index], values, True), {}, (0,)


def scatter(value: bool) -> Make:
    def make(x: Tensor, maker: Maker) -> Any:
        if not x.dim() or not x.is_contiguous():
            return
        index = torch.randint(0, x.shape[0], tuple(x.shape), generator=maker.generator)
        yield (x, 0, index, 2 if value else maker.make(tuple(x.shape), x.dtype)), {}, (0,)

    return make


def select_scatter(x: Tensor, maker: Maker) -> Any:
    for dim in range(min(x.dim(), 2) if x.is_contiguous() else 0):
        shape = (*x.shape[:dim], *x.shape[dim + 1 :])
        yield (x, maker.make(shape, x.dtype), dim, x.shape[dim] - 1), {}, (0,)


def slice_scatter(x: Tensor, maker: Maker) -> Any:
    for dim in range(min(x.dim(), 2) if x.is_contiguous() else 0):
        for step in (1, 2):
            start = x.shape[dim] // 2
            shape = list(x.shape)
            shape[dim] = len(range(start, x.shape[dim], step))
            yield (x, maker.make(tuple(shape), x.dtype), dim, start, x.shape[dim], step), {}, (0,)


def masked_scatter(x: Tensor, maker: Maker) -> Any:
    if not x.is_contiguous():
        return
    mask = maker.make(tuple(x.shape), torch.bool)
    yield (x, mask, maker.make((x.numel(),), x.dtype)), {}, (0,)


_UNARY_REAL = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log10 log1p log2 neg "
)
_UNARY_REAL += "reciprocal relu round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
_KEEP_TYPE = frozenset({"abs", "ceil", "floor", "neg", "relu", "round", "sign", "trunc"})

SAFE: dict[str, list[tuple[Any, Make, tuple[torch.dtype, ...]]]] = {
    name: [(getattr(aten, name).default, unary(), REAL if name in _KEEP_TYPE else FLOATS)]
    for name in _UNARY_REAL.split()
}
SAFE |= {
    "add": [(aten.add.Tensor, binary(alpha=2), REAL), (aten.add.Scalar, scalar(3), REAL)],
    "sub": [(aten.sub.Tensor, binary(alpha=2), REAL), (aten.sub.Scalar, scalar(3), REAL)],
    "mul": [(aten.mul.Tensor, binary(), ALL), (aten.mul.Scalar, scalar(3), REAL)],
    "div": [
        (aten.div.Tensor, binary(), FLOATS),
        (aten.div.Scalar, scalar(3.0), FLOATS),
        (aten.div.Tensor_mode, binary(rounding_mode="floor"), REAL),
        (aten.div.Tensor_mode, binary(rounding_mode="trunc"), REAL),
    ],
    "rsub": [(aten.rsub.Scalar, scalar(3), REAL)],
    "floor_divide": [(aten.floor_divide.default, binary(), REAL)],
    "fmod": [(aten.fmod.Tensor, binary(), REAL), (aten.fmod.Scalar, scalar(3), REAL)],
    "remainder": [(aten.remainder.Tensor, binary(), REAL), (aten.remainder.Scalar, scalar(3), REAL)],
    "pow": [
        (aten.pow.Tensor_Tensor, binary(), FLOATS),
        (aten.pow.Tensor_Scalar, scalar(2.0, 3.0, 0.5), FLOATS),
        (aten.pow.Scalar, lambda x, maker: iter([((2.0, x), {}, (0,))]), FLOATS),
    ],
    "maximum": [(aten.maximum.default, binary(), ALL)],
    "minimum": [(aten.minimum.default, binary(), ALL)],
    "atan2": [(aten.atan2.default, binary(), FLOATS)],
    "where": [(aten.where.self, choose, ALL)],
    "masked_fill": [(aten.masked_fill.Scalar, filled, REAL)],
    "clamp": [
        (aten.clamp.default, bounded, REAL),
        (aten.clamp.default, unary(None, 2), REAL),
        (aten.clamp.Tensor, clamped, REAL),
    ],
    "hardtanh": [(aten.hardtanh.default, bounded, REAL)],
    "leaky_relu": [(aten.leaky_relu.default, unary(0.1), FLOATS)],
    "elu": [(aten.elu.default, unary(), FLOATS)],
    "gelu": [
        (aten.gelu.default, unary(), FLOATS),
        (aten.gelu.default, unary(approximate="tanh"), FLOATS),
    ],
    "logit": [(aten.logit.default, unary(1e-3), FLOATS[:2])],
    "bitwise_not": [(aten.bitwise_not.default, unary(), BITS)],
    "logical_not": [(aten.logical_not.default, unary(), (torch.bool,))],
    "isnan": [(aten.isnan.default, unary(), (torch.bool,))],
    "isinf": [(aten.isinf.default, unary(), (torch.bool,))],
    "_softmax": [(aten._softmax.default, rows(False), FLOATS)],
    "_log_softmax": [(aten._log_softmax.default, rows(False), tuple(set(FLOATS) - {torch.float64}))],
    "cumsum": [(aten.cumsum.default, rows(scalars=False), (*FLOATS, torch.int64))],
    "native_layer_norm": [(aten.native_layer_norm.default, layer_norm, FLOATS)],
    "native_group_norm": [(aten.native_group_norm.default, group_norm, FLOATS)],
    "_native_batch_norm_legit_no_training": [
        (aten._native_batch_norm_legit_no_training.default, batch_norm, FLOATS)
    ],
    "_native_batch_norm_legit": [(aten._native_batch_norm_legit.no_stats, batch_norm_of_batch, FLOATS)],
    "index_put": [(aten.index_put.default, index_put, ALL)],
    "scatter": [(aten.scatter.src, scatter(False), ALL), (aten.scatter.value, scatter(True), REAL)],
    "scatter_add": [(aten.scatter_add.default, scatter(False), REAL)],
    "select_scatter": [(aten.select_scatter.default, select_scatter, ALL)],
    "slice_scatter": [(aten.slice_scatter.default, slice_scatter, ALL)],
    "masked_scatter": [(aten.masked_scatter.default, masked_scatter, ALL)],
    "_clone_dim_order": [(aten.clone.default, unary(), ALL)],
}
SAFE |= {
    f"bitwise_{name}": [(getattr(aten, f"bitwise_{name}").Tensor, binary(), BITS)]
    for name in ("and", "or", "xor")
}
SAFE |= {
    f"bitwise_{name}_shift": [(getattr(aten, f"bitwise_{name}_shift").Tensor, binary(), WHOLE)]
    for name in ("left", "right")
}
SAFE |= {
    f"logical_{name}": [(getattr(aten, f"logical_{name}").default, binary(), (torch.bool,))]
    for name in ("and", "or", "xor")
}
SAFE |= {
    name: [(getattr(aten, name).Tensor, binary(), (torch.bool,))]
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
}


FLOAT = (torch.float32,)


WIDE = (600, 600)
"""Matrices that no block of an optimised product holds: small ones it packs before it writes anything."""


def square(x: Tensor, maker: Maker) -> Any:
    yield (maker.make(WIDE, x.dtype), maker.make(WIDE, x.dtype)), {}, (0, 1)


def added(x: Tensor, maker: Maker) -> Any:
    yield (maker.make(WIDE[1:], x.dtype), *(maker.make(WIDE, x.dtype) for _ in range(2))), {}, (1, 2)


def image(*rest: Any) -> Make:
    def make(x: Tensor, maker: Maker) -> Any:
        yield (maker.make((1, 4, 8, 8), x.dtype), *rest), {}, (0,)

    return make


def gathered(x: Tensor, maker: Maker) -> Any:
    index = torch.randint(0, 17, (17, 17), generator=maker.generator)
    yield (x, 0, index), {}, (0,)


def index_selected(x: Tensor, maker: Maker) -> Any:
    yield (x, 0, torch.arange(16, -1, -1)), {}, (0,)


def convolved(x: Tensor, maker: Maker) -> Any:
    weight = maker.make((4, 4, 3, 3), x.dtype)
    arguments = (maker.make((1, 4, 8, 8), x.dtype), weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    yield arguments, {}, (0,)


UNSAFE: dict[str, list[tuple[Any, Make, tuple[torch.dtype, ...]]]] = {
    "flip": [(aten.flip.default, unary([0]), FLOAT)],
    "roll": [(aten.roll.default, unary([5], [0]), FLOAT)],
    "permute_copy": [(aten.permute_copy.default, unary([1, 0]), FLOAT)],
    "transpose_copy": [(aten.transpose_copy.int, unary(0, 1), FLOAT)],
    "tril": [(aten.tril.default, unary(-1), FLOAT)],
    "mm": [(aten.mm.default, square, FLOAT)],
    "addmm": [(aten.addmm.default, added, FLOAT)],
    "gather": [(aten.gather.default, gathered, FLOAT)],
    "index_select": [(aten.index_select.default, index_selected, FLOAT)],
    "avg_pool2d": [(aten.avg_pool2d.default, image([3, 3], [1, 1], [1, 1]), FLOAT)],
    "max_pool2d_with_indices": [(aten.max_pool2d_with_indices.default, image([3, 3], [1, 1], [1, 1]), FLOAT)],
    "convolution": [(aten.convolution.default, convolved, FLOAT)],
    "pixel_shuffle": [(aten.pixel_shuffle.default, image(2), FLOAT)],
}
"""Kernels that come back to what they have written over, for matrices of 17 by 17 and small images."""


USUAL_ORDER = frozenset(
    {"native_group_norm", "_native_batch_norm_legit_no_training", "_native_batch_norm_legit"}
)
"""Their kernels refuse channels-last tensors, wherever the result lies."""


def cases(
    operators: dict[str, list[tuple[Any, Make, tuple[torch.dtype, ...]]]],
    dtype: torch.dtype,
    shapes: tuple[tuple[int, ...], ...] = FLAT,
    last: tuple[tuple[int, ...], ...] = LAST,
) -> Iterator[tuple[str, Case]]:
    """All cases of some operators in one type, by operator."""
    maker = Maker()
    orders = [(shape, None) for shape in shapes] + [(shape, (0, 2, 3, 1)) for shape in last]
    for name, forms in operators.items():
        for target, make, dtypes in forms:
            if dtype not in dtypes:
                continue
            for shape, order in orders:
                if order is not None and name in USUAL_ORDER:
                    continue
                for args, kwargs, over in make(maker.make(shape, dtype, order), maker):
                    for argument in over:
                        yield name, Case(target, args, kwargs, ((0, argument, 0),))
