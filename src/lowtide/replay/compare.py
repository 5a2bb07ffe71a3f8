"""Comparing tensors bit for bit, and saying how far apart they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lowtide.errors import ReplayError

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
    """The largest absolute difference between elements; of complex numbers, their distance."""
    gap = (_wide(a) - _wide(b)).abs()
    return float(gap.nan_to_num(0.0).max()) if gap.numel() else 0.0


def is_close(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    """Whether elements differ by no more than ``tolerance * (1 + |b|)``."""
    return bool(torch.allclose(_wide(a), _wide(b), rtol=tolerance, atol=tolerance, equal_nan=True))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single element may keep whatever stride it had, which a view of another type does not take.
    return plain.as_strided(plain.shape, (1,)).view(torch.uint8) if plain.numel() else plain
