"""Which operands an operator looks at, and which it writes over unseen.

A schema tells what is written and aliased, but not that ``zeros_like`` wants a shape only, nor that
``fill_`` has no use for the old bytes. Without that, dead tensors stay alive until someone asks for
their shape. Factories are told by their names' form; the rest is one small table. What is missing here is
taken to be read, which costs bytes and is never wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import torch

_FILLS = frozenset(
    {"copy", "fill", "zero", "uniform", "random", "exponential", "geometric", "cauchy", "log_normal"}
)
"""Give every element a new value, whatever it was: in place with an underscore after the name, or as a
new tensor that takes only its shape from the old one."""

_FILLS_UNDER_ONE_NAME = frozenset({"normal_", "normal_functional", "bernoulli_"})
"""The same, but the other form is missing, or is an operator of its own: ``bernoulli`` reads its odds."""

_SHAPE_OF_OTHER = frozenset({"expand_as", "view_as", "reshape_as", "type_as", "to"})
"""Take the shape or the type of their argument ``other``."""

_METADATA = frozenset(
    {"_assert_tensor_metadata", "size", "stride", "numel", "dim", "is_same_size", "device", "layout", "dtype"}
)
"""Look at no byte of any argument, as ``sym_size`` and its like do not."""


_RETURN_ARGUMENTS = frozenset({"_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "lift", "set"})
"""Return what they are given, or views of it, although their schemas say that the result is new. Composite
operators that may do so are not here: they are known as such."""


@cache
def may_return_arguments(operator: torch._ops.OpOverload) -> bool:
    """Whether results may lie in the memory of an argument against what its schema says."""
    return _name(operator) in _RETURN_ARGUMENTS


@cache
def overwrites(operator: torch._ops.OpOverload) -> bool:
    """Whether it writes its argument ``self`` without looking at the old bytes: ``copy_``, ``fill_``..."""
    name = _name(operator)
    return name.endswith("_") and (name.removesuffix("_") in _FILLS or name in _FILLS_UNDER_ONE_NAME)


@cache
def looks_at(operator: torch._ops.OpOverload, argument: str) -> bool:
    """Whether the bytes of a tensor argument can make a difference, not just its shape, strides and type."""
    name = _name(operator)
    if name.startswith("sym_") or name in _METADATA:
        return False
    if argument == "self":
        factory = name.endswith("_like") or name.startswith("new_")
        return not (factory or name.removesuffix("_") in _FILLS or name in _FILLS_UNDER_ONE_NAME)
    return not (argument == "other" and name in _SHAPE_OF_OTHER)


@cache
def leaves_bytes_undefined(operator: torch._ops.OpOverload) -> bool:
    """Whether it makes a tensor and does not write it: ``empty`` and all of its kind."""
    made = _name(operator).startswith(("empty", "new_empty"))
    return made and not operator._schema.is_mutable


def schema_holder(target: Any) -> Any:
    """The operator with a schema behind a node's target, also behind ExecuTorch's edge dialect; else None."""
    if isinstance(target, torch._ops.OpOverload):
        return target
    inner = getattr(target, "_op", None)
    return inner if isinstance(inner, torch._ops.OpOverload) else None


def is_view(operator: torch._ops.OpOverload) -> bool:
    """Whether all that it returns is in memory that it was given."""
    returns = operator._schema.returns
    return bool(returns) and all(declared.alias_info is not None for declared in returns)


def based_on(operator: torch._ops.OpOverload, node: Any) -> Any:
    """The argument whose storage, as torch keeps it, ``as_strided`` and its kind count an offset from.

    None if the offset is that of the argument itself.
    """
    given = {a.name: value for a, value in schema_arguments(operator, node.args, node.kwargs)}
    absolute = _name(operator).startswith("as_strided") and given.get("storage_offset") is not None
    return given["self"] if absolute else None


def schema_arguments(
    operator: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: Any
) -> list[tuple[Any, Any]]:
    """Pairs of schema argument and what is passed for it; defaults are left out."""
    declared = operator._schema.arguments
    pairs = list(zip(declared, args, strict=False))
    pairs += [(a, kwargs[a.name]) for a in declared[len(args) :] if a.name in kwargs]
    return pairs


def hidden_writes(operator: torch._ops.OpOverload, given: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """Names of arguments that this call writes although the schema does not say so: batch norm's statistics.

    Args:
        operator: what is called.
        given: its arguments, as ``schema_arguments`` pairs them.
    """
    if not _is_secretly_mutable(operator):
        return frozenset()
    info = torch._C._SchemaInfo(operator._schema)
    pairs = list(given)
    for argument, value in pairs:
        if isinstance(value, bool):
            info.add_argument_value(argument.name, value)
    return frozenset(argument.name for argument, _ in pairs if info.is_mutable(argument.name))


@cache
def _is_secretly_mutable(operator: torch._ops.OpOverload) -> bool:
    return not operator._schema.is_mutable and bool(torch._C._SchemaInfo(operator._schema).is_mutable())


@cache
def known_name(operator: torch._ops.OpOverload) -> str:
    """Its name without library and overload; empty if it is of a library of which nothing is known.

    Known are ATen and what ExecuTorch's edge dialect puts in its place: what goes by the same name elsewhere
    may do anything.
    """
    space, name = operator._schema.name.split("::")
    return str(name) if space in ("aten", "dim_order_ops") else ""


def _name(operator: torch._ops.OpOverload) -> str:
    """Its name without overload; empty if it is none of PyTorch's own, of which nothing is known."""
    space, name = operator._schema.name.split("::")
    return str(name) if space in ("aten", "prim") or name.startswith("sym_") else ""
