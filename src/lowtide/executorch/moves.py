"""Which nodes only move bytes: copies, reshapes, slices, concatenations.

What an operator copies is found by its view: ``aten.slice_copy`` copies what ``aten.slice`` shows. On meta
tensors the view tells where in its base the elements lie; if they are one run of bytes, in the order in which
the copy has them, the copy is the same bytes as that part of the base. A concatenation is the reverse: each
part is the same bytes as a slice of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from lowtide.executorch.kernels import operator_name
from lowtide.executorch.specs import spec_of, specs_of

Move = tuple[Any, Any, int]
"""A spec that is the same bytes as another spec's from some distance on: ``(inner, outer, bytes)``."""

_WHOLE = frozenset({"clone", "_clone_dim_order", "_to_dim_order_copy", "_to_copy", "lift_fresh_copy"})
"""These copy all of their first argument, to another order of dimensions or another type perhaps."""


def moves(node: fx.Node) -> Iterator[Move]:
    """What is the same bytes after a node; nothing where it does more than move bytes."""
    name = operator_name(node)
    if not node.args:
        return
    if name in ("cat", "stack"):
        yield from _parts(node, stacked=name == "stack")
    elif name in _WHOLE:
        yield from _shown(node, lambda base: base)
    elif name.endswith("_copy"):
        yield from _copied(node, name.removesuffix("_copy"))


def _copied(node: fx.Node, view: str) -> Iterator[Move]:
    """What ``aten.<view>`` shows of the first argument."""
    packet = getattr(torch.ops.aten, view, None)
    overload = str(node.target).rpartition(".")[2].removesuffix("out").removesuffix("_") or "default"
    operator = getattr(packet, overload, None)
    rest = list(node.args[1:])
    plain = {k: v for k, v in node.kwargs.items() if k != "out"}
    if operator is None or any(isinstance(leaf, fx.Node) for leaf in pytree.tree_leaves((rest, plain))):
        return
    yield from _shown(node, lambda base: operator(base, *rest, **plain))


def _shown(node: fx.Node, view: Any) -> Iterator[Move]:
    """Of the results of a node those that are one run of bytes in its first argument."""
    base = spec_of(node.args[0])
    tensor = None if base is None else _meta(base)
    if tensor is None:
        return
    try:
        shown = view(tensor)
    except RuntimeError:  # the layout has no such view: the operator rearranges elements
        return
    results = specs_of(node)
    found = [shown] if isinstance(shown, torch.Tensor) else list(shown)
    if len(found) != len(results):
        return
    for result, piece in zip(results, found, strict=True):
        copy = None if result is None else _meta(result)
        if copy is not None and copy.dtype == piece.dtype and _same_order(copy, piece):
            yield result, base, piece.storage_offset() * piece.element_size()


def _parts(node: fx.Node, *, stacked: bool) -> Iterator[Move]:
    """The parts of a concatenation, each a slice of the result."""
    whole = spec_of(node)
    tensor = None if whole is None else _meta(whole)
    given = node.args[0]
    if tensor is None or not isinstance(given, (list, tuple)):
        return
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    at = 0
    for argument in given:
        spec = spec_of(argument)
        part = None if spec is None else _meta(spec)
        if part is None:
            return
        if part.numel() == 0:
            continue
        length = 1 if stacked else part.shape[dim]
        slot = tensor.select(dim, at) if stacked else tensor.narrow(dim, at, length)
        if part.dtype == slot.dtype and _same_order(part, slot):
            yield spec, whole, slot.storage_offset() * slot.element_size()
        at += length


def _meta(spec: Any) -> torch.Tensor | None:
    """A tensor without bytes that is laid out as the spec's; None if that is known at run time only."""
    if not spec.is_static_shape_tensor:
        return None
    shape = [int(size) for size in spec.shape]
    strides, step = [0] * len(shape), 1
    for dim in reversed([int(d) for d in spec.dim_order]):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return torch.empty_strided(shape, strides, dtype=spec.dtype, device="meta")


def _same_order(copy: torch.Tensor, piece: torch.Tensor) -> bool:
    """Whether both list the same elements at the same distances; a dimension of one element has none."""
    if copy.shape != piece.shape or copy.numel() == 0:
        return False
    pairs = zip(copy.shape, copy.stride(), piece.stride(), strict=True)
    return all(a == b for size, a, b in pairs if size > 1)
