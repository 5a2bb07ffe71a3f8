"""Real tensors as bytes: copies that share memory as the originals do, snapshots, comparisons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lowtide.operators.conjugates import PLAIN, bits_of, with_bits


def tensors_in(structure: Any) -> list[torch.Tensor]:
    """All dense tensors of a structure, in order."""
    leaves = pytree.tree_leaves(structure)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]


def address(tensor: torch.Tensor) -> int:
    """What tells one block of memory from another; 0 if it has no bytes."""
    return tensor.untyped_storage().data_ptr()


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All bytes of the memory that a tensor lies in."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))


def snapshot(tensors: Iterable[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Copies of all memory that tensors lie in, by address."""
    return {address(tensor): whole(tensor).clone() for tensor in tensors}


class Copies:
    """Copies of tensors, so that those that share memory still do.

    Args:
        poisoned: addresses of the memory whose copies hold nothing of worth.
    """

    def __init__(self, poisoned: Iterable[int] = ()) -> None:
        self._poisoned = frozenset(poisoned)
        self._made: dict[int, torch.Tensor] = {}

    def of(self, structure: Any) -> Any:
        """The structure with its tensors copied."""
        return pytree.tree_map_only(torch.Tensor, self._of_tensor, structure)

    def _of_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout != torch.strided:
            return tensor
        where = address(tensor)
        if where not in self._made:
            self._made[where] = whole(tensor).clone()
            if where in self._poisoned:
                self._made[where].fill_(0xFF)
        flat = torch.empty(0, dtype=tensor.dtype)
        flat.set_(self._made[where].untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
        return with_bits(flat, bits_of(tensor))


def over(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A tensor laid out as another from the first byte of a given one on."""
    plain = with_bits(tensor, PLAIN)
    start = plain.storage_offset() * plain.element_size()
    flat = torch.empty(0, dtype=like.dtype)
    flat.set_(plain.untyped_storage(), start // like.element_size(), like.shape, like.stride())
    return flat


def span(tensor: torch.Tensor) -> int:
    """Bytes from the first element to behind the last."""
    if tensor.numel() == 0:
        return 0
    reach = sum((d - 1) * s for d, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (reach + 1) * tensor.element_size()


def places(tensor: torch.Tensor) -> set[int]:
    """Where its elements begin."""
    found = torch.tensor(tensor.data_ptr())
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        found = found.unsqueeze(-1) + torch.arange(size) * stride * tensor.element_size()
    return set(found.flatten().tolist())


def raw(tensor: torch.Tensor) -> bytes:
    """The bytes of its elements in order, as they lie there: what bits of a view say is left out."""
    elements = with_bits(tensor.detach(), PLAIN).contiguous().clone()
    return bytes(whole(elements)[: elements.numel() * elements.element_size()].numpy())


def same_elements(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same elements, down to the last bit."""
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and raw(a.resolve_conj().resolve_neg()) == raw(b.resolve_conj().resolve_neg())
    )
