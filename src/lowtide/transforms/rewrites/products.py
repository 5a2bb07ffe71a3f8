"""Weights that are transposed only to be multiplied: a copy of all their bytes, in every run.

``linear`` takes a weight as it lies. Where the kernel library lacks it, or rounds otherwise, the product is
computed in parts of its columns, each with its own rows of the weight, or the operands change places:
``x @ w.T`` is ``(w @ x.T).T``, which transposes the activations instead.

For which of these the bits hold was tried on ExecuTorch's runtime: see
``tests/executorch/test_rewritten_bits.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowtide.transforms.rewrites.editing import bytes_of, operator_name, shape_of, tensor_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import fx

    from lowtide.transforms.rewrites.rule import Changed, Site

_MOST_PARTS = 16

_LEAST_ROWS = 4

_STEP = 16
"""Columns of which each part but the last has a multiple: kernels compute up to so many at once."""


@dataclass(frozen=True)
class _Product:
    """A product with a transposed weight.

    Args:
        node: the product.
        x: the left operand.
        weight: the right operand before it was transposed.
        bias: what is added; None for nothing.
        rows, inner, columns: the sizes of the product.
    """

    node: fx.Node
    x: fx.Node
    weight: fx.Node
    bias: fx.Node | None
    rows: int
    inner: int
    columns: int


def linear_of_product(site: Site) -> list[Changed]:
    """``mm`` by a transposed weight, as ``linear``; with few rows the kernels of ExecuTorch 1.4 differ."""

    def linear(product: _Product) -> fx.Node | None:
        return _linear(site, product) if product.bias is None and product.rows >= _LEAST_ROWS else None

    return _replace(site, linear, "is linear by {weight}")


def linear_with_bias(site: Site) -> list[Changed]:
    """``addmm`` by a transposed weight, as ``linear``."""

    def linear(product: _Product) -> fx.Node | None:
        return _linear(site, product) if product.bias is not None else None

    return _replace(site, linear, "is linear by {weight}")


def swap_with_bias(site: Site) -> list[Changed]:
    """``addmm`` by a transposed weight, with the operands in each other's places."""
    return _replace(
        site,
        lambda p: _swapped(site, p) if p.bias is not None else None,
        "multiplies {weight} by the transpose of its other operand",
    )


def swap_operands(site: Site) -> list[Changed]:
    """``mm`` by a transposed weight, with the operands in each other's places."""
    return _replace(
        site,
        lambda p: _swapped(site, p) if p.bias is None else None,
        "multiplies {weight} by the transpose of its other operand",
    )


def product_in_columns(site: Site) -> list[Changed]:
    """A product by a transposed weight in parts, each with a few of the weight's rows."""
    return _replace(site, lambda p: _in_columns(site, p), "takes {weight} in parts")


def _replace(site: Site, write: Callable[[_Product], fx.Node | None], what: str) -> list[Changed]:
    found: list[Changed] = []
    for node in site.edit.calls("mm", "addmm"):
        product = _product_of(node)
        if product is None or bytes_of(product.weight.meta["val"]) < site.worth:
            continue
        new = write(product)
        if new is not None:
            name, weight = node.name, product.weight.name
            site.edit.replace(node, new)
            found.append(((name,), f"{name} {what.format(weight=weight)}"))
    return found


def _product_of(node: fx.Node) -> _Product | None:
    has_bias = operator_name(node) == "addmm"
    if node.kwargs or len(node.args) != (3 if has_bias else 2):  # factors
        return None
    bias, x, transposed = node.args if has_bias else (None, *node.args)
    if operator_name(transposed) not in ("permute", "t", "transpose"):
        return None
    weight = transposed.args[0]
    shape, left, result = shape_of(weight), shape_of(x), tensor_of(node)
    turned = transposed.meta["val"]
    if shape is None or left is None or result is None or len(shape) != 2 or weight is x:
        return None
    if len(transposed.args) > 1 and list(transposed.args[1:]) not in (
        [[1, 0]],
        [[-1, 0]],
        [[1, -2]],
        [0, 1],
        [1, 0],
    ):
        return None
    if tuple(turned.shape) != (shape[1], shape[0]) or not result.numel() or not turned.numel():
        return None
    if bias is not None and (shape_of(bias) != (shape[0],)):
        return None
    return _Product(node, x, weight, bias, left[0], left[1], shape[0])


def _linear(site: Site, product: _Product) -> fx.Node:
    args = [product.x, product.weight, *([product.bias] if product.bias is not None else [])]
    return site.edit.call("linear", args, of=product.node)


def _swapped(site: Site, product: _Product) -> fx.Node | None:
    """``(w @ x.T).T``, if less is transposed so."""
    if product.rows * (product.inner + product.columns) >= product.inner * product.columns:
        return None
    of = product.node
    turned = site.edit.call("permute", (product.x, [1, 0]), of=of)
    if product.bias is None:
        other = site.edit.call("mm", (product.weight, turned), of=of)
    else:
        bias = site.edit.call("view", (product.bias, [product.columns, 1]), of=of)
        other = site.edit.call("addmm", (bias, product.weight, turned), of=of)
    return site.edit.call("permute", (other, [1, 0]), of=of)


def _in_columns(site: Site, product: _Product) -> fx.Node | None:
    """Columns in parts, each put where it belongs."""
    of, name = product.node, operator_name(product.node)
    step = -(-product.columns // _MOST_PARTS)
    step = -(-step // _STEP) * _STEP
    starts = list(range(0, product.columns, step))
    if len(starts) < 2:
        return None
    edit, whole, parts = site.edit, None, []
    for start, stop in zip(starts, [*starts[1:], product.columns], strict=True):
        rows = edit.call("slice", (product.weight, 0, start, stop), of=of, overload="Tensor")
        turned = edit.call("permute", (rows, [1, 0]), of=of)
        given: list[Any] = [product.x, turned]
        if product.bias is not None:
            given.insert(0, edit.call("slice", (product.bias, 0, start, stop), of=of, overload="Tensor"))
        part = edit.call(name, given, of=of)
        if product.rows == 1:
            parts.append(part)
        elif whole is None:
            whole = edit.call("constant_pad_nd", (part, [0, product.columns - stop], 0.0), of=of)
        else:
            whole = edit.call("slice_scatter", (whole, part, 1, start, stop), of=of)
    return whole if whole is not None else edit.call("cat", (parts, 1), of=of)
