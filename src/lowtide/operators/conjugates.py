"""Conjugates and negatives that are not computed: views that mark what lies under them.

``x.conj()`` is the bytes of ``x`` and a bit. Who copies it computes: ``clone`` of such a view has other
bytes than its base. The bits belong to views; what an operator makes anew, and what a program is given,
holds its elements as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

Bits = tuple[bool, bool]
"""Whether a tensor is the conjugate, and whether it is the negative, of its bytes."""

PLAIN: Bits = (False, False)


def bits_of(tensor: torch.Tensor) -> Bits:
    """The bits of a tensor; one that is not dense memory has none."""
    if tensor.layout != torch.strided:
        return PLAIN
    return bool(tensor.is_conj()), bool(tensor.is_neg())


def mark_of(tensor: torch.Tensor) -> str:
    """The bits of a tensor as a mark of its layout; empty if it has none."""
    conjugate, negative = bits_of(tensor)
    return "-" * negative + "*" * conjugate


def with_bits(tensor: torch.Tensor, bits: Bits) -> torch.Tensor:
    """The same memory seen through these bits; the tensor itself if they are its own."""
    conjugate, negative = bits
    has_conjugate, has_negative = bits_of(tensor)
    if has_conjugate != conjugate:
        tensor = torch._conj(tensor)
    if has_negative != negative:
        tensor = torch._neg_view(tensor)
    return tensor


def plain(result: Any) -> Any:
    """A fake result of any structure, its tensors without bits."""
    return pytree.tree_map_only(torch.Tensor, lambda tensor: with_bits(tensor, PLAIN), result)


def may_be_lazy(leaf: Any) -> bool:
    """Whether views of an argument may come with bits: it is complex, or has some itself."""
    return isinstance(leaf, torch.Tensor) and (leaf.is_complex() or bits_of(leaf) != PLAIN)
