"""Which operators only move bytes: copies, reshapes, slices, concatenations.

What an operator copies is found by its view: ``aten.slice_copy`` copies what ``aten.slice`` shows. On meta
tensors the view tells where in its base the elements lie; if they are one run of bytes, in the order in which
the copy has them, the copy is the same bytes as that part of the base. A concatenation is the reverse: each
part is the same bytes as a slice of the result. A pad is none: kernels fill the whole before they copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lowtide.operators.conjugates import bits_of, with_bits
from lowtide.operators.executorch import ANY_ORDER, TRIED
from lowtide.operators.schemas import is_view, known_name
from lowtide.operators.sizes import extent_of

Move = tuple[torch.Tensor, torch.Tensor, int]
"""A tensor that is the same bytes as another's from some distance on: ``(inner, outer, bytes)``."""

_WHOLE = frozenset(
    {"clone", "contiguous", "to", "_to_copy", "lift_fresh_copy", "_clone_dim_order", "_to_dim_order_copy"}
)
"""These copy all of their first argument, to another order of dimensions or another type perhaps."""

_COPIES = {"_unsafe_view": "view", "_reshape_copy": "view", "reshape": "view", "flatten": "flatten"}
"""Copies whose names do not say of which view."""

_UNLIKELY = 2**20 + 7
"""From here on numbers stand for symbols."""

_JOINS = frozenset({"cat", "concat", "concatenate"})


@cache
def may_move(operator: Any) -> bool:
    """Whether an operator is one of those that only move bytes, whatever its arguments are."""
    name = known_name(operator)
    return name in _WHOLE | _JOINS | _COPIES.keys() | {
        "stack",
        "copy",
    } or name.endswith("_copy")


@cache
def copies_whole(operator: Any) -> bool:
    """Whether an operator copies all that it is given to one place, so that no size decides where it goes."""
    return str(operator._schema.name).split("::")[1] in _WHOLE


def moves_of(
    operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[torch.Tensor | None]
) -> Iterator[Move]:
    """What is the same bytes after a call; nothing where it does more than move bytes.

    Args:
        operator: an overload with a schema, of the functional form or of that with ``out``.
        args, kwargs: what it is given, without ``out``; tensors on the meta device, laid out as the real
            ones. One whose layout is not known must be None, as a call with it then has no moves.
        results: what it makes, laid out likewise; None for what is no tensor or has no known layout.
    """
    name, overload = known_name(operator), str(operator._schema.overload_name)
    if not args:
        return
    if name in _JOINS or name == "stack":
        dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        yield from _parts(args[0], results[0], dim, stacked=name == "stack")
    elif name == "copy" and len(args) > 1:
        yield from _shown(args[1], results, lambda base: base)
    elif name in _WHOLE:
        yield from _shown(args[0], results, lambda base: base)
    elif name in _COPIES or name.endswith("_copy"):
        view = _view(_COPIES.get(name, name.removesuffix("_copy")), overload)
        others = pytree.tree_leaves((args[1:], kwargs))
        if view is not None and not any(isinstance(leaf, torch.Tensor) for leaf in others):
            yield from _shown(args[0], results, lambda base: view(base, *args[1:], **kwargs))


def moves_of_kernel(
    operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[torch.Tensor | None]
) -> Iterator[Move]:
    """Those of ``moves_of``, whose arguments it has, that ExecuTorch's kernels make in place."""
    name = known_name(operator)
    if name not in TRIED:
        return
    for inner, outer, distance in moves_of(operator, args, kwargs, results):
        if name in ANY_ORDER or (inner.is_contiguous() and outer.is_contiguous()):
            yield inner, outer, distance


def _view(name: str, overload: str) -> Any:
    """The operator that shows what a copy copies; None if there is none."""
    packet = getattr(torch.ops.aten, name, None)
    operator = getattr(packet, overload.removesuffix("out").removesuffix("_") or "default", None)
    if operator is None and packet is not None and len(packet.overloads()) == 1:
        operator = getattr(packet, packet.overloads()[0])
    return operator if operator is not None and is_view(operator) else None


def _shown(
    base: Any, results: Sequence[torch.Tensor | None], view: Callable[[torch.Tensor], Any]
) -> Iterator[Move]:
    """Of the results of a call those that are one run of bytes in its argument."""
    if not isinstance(base, torch.Tensor):
        return
    try:
        shown = view(base)
    except RuntimeError:  # the layout has no such view: the operator rearranges elements
        return
    found = [shown] if isinstance(shown, torch.Tensor) else list(shown)
    if len(found) != len(results):
        return
    for result, piece in zip(results, found, strict=True):
        if result is not None and _same_bytes(result, piece):
            yield from _at(result, base, piece)


def _parts(given: Any, whole: torch.Tensor | None, dim: int, *, stacked: bool) -> Iterator[Move]:
    """The parts of a concatenation, each a slice of the result."""
    if whole is None or not isinstance(given, (list, tuple)):
        return
    at = 0
    for part in given:
        if not isinstance(part, torch.Tensor):
            return
        if part.numel() == 0:
            continue
        length = 1 if stacked else part.shape[dim]
        slot = whole.select(dim, at) if stacked else whole.narrow(dim, at, length)
        if _same_bytes(part, slot):
            yield from _at(part, whole, slot)
        at += length


def _at(inner: torch.Tensor, outer: torch.Tensor, slot: torch.Tensor) -> Iterator[Move]:
    """One tensor where a view of another is; nothing if that is known at run time only."""
    distance = slot.storage_offset()
    if type(distance) is int:
        yield inner, outer, distance * slot.element_size()


def _same_bytes(copy: torch.Tensor, piece: torch.Tensor) -> bool:
    """Whether both are the same elements at the same distances; a dimension of one element has none."""
    if copy.dtype != piece.dtype or copy.shape != piece.shape or copy.numel() == 0:
        return False
    if bits_of(copy) != bits_of(piece):
        return False
    pairs = zip(copy.shape, copy.stride(), piece.stride(), strict=True)
    return all(a == b for size, a, b in pairs if size > 1)


def laid_out(tensor: torch.Tensor, symbols: dict[Any, int]) -> torch.Tensor | None:
    """A tensor without bytes that is laid out as another from its first element on; None if there is none.

    Args:
        symbols: the number that stands for each symbolic size or stride, the same wherever it occurs, and one
            that no size is; found ones are added. So two tensors agree only if they do at run time.
    """

    def number(found: int | torch.SymInt) -> int:
        extent = extent_of(found)
        return extent if isinstance(extent, int) else symbols.setdefault(extent, _UNLIKELY + len(symbols))

    shape, strides = map(number, tensor.shape), map(number, tensor.stride())
    try:
        bare = torch.empty_strided(tuple(shape), tuple(strides), dtype=tensor.dtype, device="meta")
    except RuntimeError:  # too many symbols for numbers of 64 bits
        return None
    return with_bits(bare, bits_of(tensor))
