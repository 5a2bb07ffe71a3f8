"""Comparing tensors bit for bit, and saying how far apart they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from lowtide.base.errors import ReplayError

if TYPE_CHECKING:
    from collections.abc import Sequence


def require_same(where: str, expected: Sequence[Any], found: Sequence[Any]) -> None:
    """Compare what the planned run has with what it should have.

    Raises:
        ReplayError: a bit differs; the message names the place, and which operand.
    """
    for k, (want, have) in enumerate(zip(expected, found, strict=True)):
        if want is not have and not same_bits(want, have):
            raise ReplayError(
                f"{where} (operand {k}) finds other bytes in the planned arena than were written to it"
            )


def same_bits(a: Any, b: Any) -> bool:
    """Whether two tensors are the same down to the sign of zero and the payload of NaN; or two numbers."""
    if not isinstance(a, torch.Tensor):
        return bool(a == b) or (a != a and b != b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(torch.equal(_raw(a), _raw(b)))


def largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest absolute difference between elements; of complex numbers, their distance.

    NaN where one is no number and the other is. 0 only if all are equal, whatever the sign of a zero or the
    payload of a NaN: whole numbers that differ beyond what a float tells apart differ by 1 at least.
    """
    gap = (_wide(a) - _wide(b)).abs().masked_fill((a == b) | (a.isnan() & b.isnan()), 0.0)
    if not a.is_floating_point() and not a.is_complex():
        gap = torch.where(a == b, gap, gap.clamp(min=1.0))
    return float(gap.max()) if gap.numel() else 0.0


def in_words(difference: float) -> str:
    """How far apart, as ``largest_difference`` says it: ``by 0.03``."""
    if math.isnan(difference):
        return "by NaN where the other has a number"
    return f"by {difference:.3g}" if difference else "only in the sign of a zero or the payload of a NaN"


def is_close(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    """Whether elements differ by no more than ``tolerance * (1 + |b|)``."""
    return bool(torch.allclose(_wide(a), _wide(b), rtol=tolerance, atol=tolerance, equal_nan=True))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single element may keep whatever stride it had, which a view of another type does not take.
    return plain.as_strided(plain.shape, (1,)).view(torch.uint8) if plain.numel() else plain
