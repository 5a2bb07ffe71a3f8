"""How tensors lie in their bytes: as the program was traced, not as the kernel of this machine has it.

Kernels and their fake counterparts differ in the strides of dimensions of one element, and a caller may pass
an input in any layout. A plan is made for the layouts of the trace: views are taken from them, and a result
lies over an argument only if both lie alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lowtide.operators.sizes import Extent, extent_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class Layouts:
    """The layouts of a trace, symbols at what they are in this run.

    Args:
        fakes: the fake tensor of each value with a storage of its own.
    """

    def __init__(self, fakes: Mapping[int, torch.Tensor]) -> None:
        self._fakes = fakes
        self._known: dict[Any, int] = {}

    def like(self, value: int, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor on the meta device: shape and type of a real one, strides as the trace has them.

        Where the trace leaves them open, or is of another shape, they are the real tensor's own.
        """
        strides = self._strides(value, tensor)
        return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device="meta")

    def _strides(self, value: int, tensor: torch.Tensor) -> tuple[int, ...]:
        fake = self._fakes[value]
        shape = [extent_of(d) for d in fake.shape]
        if len(shape) != tensor.dim():
            return tuple(tensor.stride())
        for extent, size in zip(shape, tensor.shape, strict=True):
            if getattr(extent, "is_Symbol", False):
                self._known[extent] = int(size)
        if [self._number(extent) for extent in shape] != list(tensor.shape):
            return tuple(tensor.stride())
        strides = [self._number(extent_of(s)) for s in fake.stride()]
        found = tuple(s for s in strides if s is not None)
        return found if len(found) == len(strides) else tuple(tensor.stride())

    def _number(self, extent: Extent) -> int | None:
        """An extent as it is in this run; None if that is not known."""
        if isinstance(extent, int):
            return extent
        found = extent.subs(self._known)
        return int(found) if found.is_number else None


def fill(placed: torch.Tensor, source: torch.Tensor) -> None:
    """Copy the elements; those that are one in memory, along a dimension of stride 0, only once."""
    for dim, (size, stride) in enumerate(zip(placed.shape, placed.stride(), strict=True)):
        if stride == 0 and size > 1:
            placed, source = placed.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    placed.copy_(source)
