"""Which of ATen's CPU kernels may write their output exactly over an input, and the variants that do.

PyTorch tags what is element-wise; those kernels take an ``out`` that is one of their inputs, as in-place
operators do. A few that read whole rows take it too. Each was tried with ``out`` over the input, in many
shapes, types and strides (``tests/operators/test_aten.py``). An input counts if its elements lie as the
output's do: one type, the same sizes, the same strides. Where there are two complex inputs none counts: their
products and quotients are rounded by the loop that strides and compiler make, which is another one in place.
What has no ``out`` variant is left out, since nobody could run it in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lowtide.operators.conjugates import bits_of

FIRST = frozenset({"_softmax", "_log_softmax", "cumsum", "cumprod", "native_layer_norm", "native_group_norm"})
"""These read whole rows: the first result may lie over the first argument."""


@cache
def may_overwrite(operator: Any) -> bool:
    """Whether there are arguments that the operator may write its result over."""
    return _is_elementwise(operator) or _reads_rows(operator)


def overwrites_of(
    operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[torch.Tensor | None]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs of tensors: what a call makes, and what it is given and may write over.

    Args:
        operator: the overload called.
        args, kwargs: what it is given; tensors on the meta device, laid out as the real ones.
        results: what it makes, laid out likewise; None for what is no tensor or has no known layout.
    """
    allowed = args if _is_elementwise(operator) else args[:1] if _reads_rows(operator) else ()
    given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    candidates = [leaf for leaf in pytree.tree_leaves(allowed) if isinstance(leaf, torch.Tensor)]
    for result in results[:1]:
        if result is not None and result.is_complex() and len(given) > 1:
            return  # rounding depends on the loop, and that on whether memory overlaps
        for argument in {id(a): a for a in candidates}.values():
            often = sum(a is argument for a in given) == sum(a is argument for a in candidates)
            if result is not None and often and _lie_alike(result, argument):
                yield result, argument


def _lie_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Strides of dimensions of one element count as well: ATen calls other ones a partial overlap."""
    alike = a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
    return bool(alike and bits_of(a) == bits_of(b))


@cache
def _is_elementwise(operator: Any) -> bool:
    name = _name(operator)
    return bool(
        name
        and torch.Tag.pointwise in operator.tags
        and torch.Tag.nondeterministic_seeded not in operator.tags
        and len(operator._schema.returns) == 1
        and out_variant(operator) is not None
    )


@cache
def _reads_rows(operator: Any) -> bool:
    return _name(operator) in FIRST and out_variant(operator) is not None


def _name(operator: Any) -> str:
    """Its name without overload; empty if it is none of PyTorch's own, or writes in place."""
    schema = operator._schema
    space, name = schema.name.split("::")
    return "" if space != "aten" or schema.is_mutable else str(name)


@cache
def out_variant(operator: Any) -> tuple[Any, tuple[str, ...]] | None:
    """The overload that does the same and writes into tensors that it is given, and what these are called.

    None if there is none.
    """
    space, name = operator._schema.name.split("::")
    packet = getattr(getattr(torch.ops, space), name)
    wanted = [(a.name, str(a.type)) for a in operator._schema.arguments]
    for overload in packet.overloads():
        found = getattr(packet, overload)
        outs = tuple(a.name for a in found._schema.arguments if a.is_out)
        rest = [(a.name, str(a.type)) for a in found._schema.arguments if not a.is_out]
        if outs and len(outs) == len(operator._schema.returns) and rest == wanted:
            return found, outs
    return None
