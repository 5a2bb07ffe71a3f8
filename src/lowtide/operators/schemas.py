"""What an operator does to each of its arguments, read off its declaration: one reader for all front ends.

A declaration tells what is written and aliased, but not that ``zeros_like`` wants a shape only, that
``fill_`` has no use for the old bytes, nor that batch norm writes its statistics. Without that, dead tensors
stay alive until someone asks for their shape, or bytes change that nobody said would. Factories are told by
their names' form; the rest is a few small tables. What is missing in them is taken to be read, which costs
bytes and is never wrong.

An operator is PyTorch's own overload, or the ``Signature`` of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Literal, TypeVar

from lowtide.operators.signatures import Parameter, Signature, parse_signature

Passed = TypeVar("Passed")

Role = Literal["shape", "read", "viewed", "changed", "filled", "out"]
"""What becomes of the bytes of an argument: nobody looks at them; they are read; a result may lie in them,
and they are read if it does not; they are read and changed; they are written from end to end, whatever they
were; or they are what the call's result is written to."""

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

_STATISTICS = {
    **dict.fromkeys(
        (
            "batch_norm",
            "_batch_norm_impl_index",
            "cudnn_batch_norm",
            "miopen_batch_norm",
            "native_batch_norm",
        ),
        "training",
    ),
    "instance_norm": "use_input_stats",
}
"""Write ``running_mean`` and ``running_var``, which no declaration says, unless this truth is false."""


def signature_of(operator: Any) -> Signature:
    """What an operator declares."""
    return operator if isinstance(operator, Signature) else _signature_of_overload(operator)


@cache
def _signature_of_overload(overload: Any) -> Signature:
    import torch

    return parse_signature(
        str(overload._schema), moves_memory=torch.Tag.inplace_view in getattr(overload, "tags", ())
    )


def roles(
    operator: Any,
    given: Iterable[tuple[Parameter, Passed]],
    content: Callable[[Passed], Any] = lambda passed: passed,
) -> Iterator[tuple[Parameter, Passed, Role]]:
    """What a call does to the bytes of each of its arguments.

    Args:
        operator: what is called.
        given: its arguments, as ``schema_arguments`` pairs them.
        content: the number, truth or text that an argument is, where it is one.
    """
    pairs = list(given)
    hidden = hidden_writes(operator, ((parameter, content(passed)) for parameter, passed in pairs))
    for parameter, passed in pairs:
        yield parameter, passed, _role(operator, parameter, parameter.name in hidden)


@cache
def _role(operator: Any, parameter: Parameter, hidden: bool) -> Role:
    if parameter.is_write and not signature_of(operator).moves_memory:
        return "out" if parameter.is_out else "filled" if overwrites(operator) else "changed"
    if hidden:
        return "changed"
    if parameter.alias:
        return "viewed"
    return "read" if looks_at(operator, parameter.name) else "shape"


@cache
def may_return_arguments(operator: Any) -> bool:
    """Whether results may lie in the memory of an argument against what its schema says."""
    return _name(operator) in _RETURN_ARGUMENTS


@cache
def overwrites(operator: Any) -> bool:
    """Whether it writes its argument ``self`` without looking at the old bytes: ``copy_``, ``fill_``..."""
    name = _name(operator)
    return name.endswith("_") and (name.removesuffix("_") in _FILLS or name in _FILLS_UNDER_ONE_NAME)


@cache
def looks_at(operator: Any, argument: str) -> bool:
    """Whether the bytes of a tensor argument can make a difference, not just its shape, strides and type."""
    name = _name(operator)
    if name.startswith("sym_") or name in _METADATA:
        return False
    if argument == "self":
        factory = name.endswith("_like") or name.startswith("new_")
        return not (factory or name.removesuffix("_") in _FILLS or name in _FILLS_UNDER_ONE_NAME)
    return not (argument == "other" and name in _SHAPE_OF_OTHER)


@cache
def leaves_bytes_undefined(operator: Any) -> bool:
    """Whether it makes a tensor and does not write it: ``empty`` and all of its kind."""
    made = _name(operator).startswith(("empty", "new_empty"))
    return made and not any(argument.is_write for argument in signature_of(operator).arguments)


def schema_holder(target: Any) -> Any:
    """The operator with a schema behind a node's target, also behind ExecuTorch's edge dialect; else None."""
    import torch

    if isinstance(target, torch._ops.OpOverload):
        return target
    inner = getattr(target, "_op", None)
    return inner if isinstance(inner, torch._ops.OpOverload) else None


def is_view(operator: Any) -> bool:
    """Whether all that it returns is in memory that it was given."""
    returns = signature_of(operator).returns
    return bool(returns) and all(declared.alias for declared in returns)


def based_on(operator: Any, node: Any) -> Any:
    """The argument whose storage, as torch keeps it, ``as_strided`` and its kind count an offset from.

    None if the offset is that of the argument itself.
    """
    given = {a.name: value for a, value in schema_arguments(operator, node.args, node.kwargs)}
    absolute = _name(operator).startswith("as_strided") and given.get("storage_offset") is not None
    return given["self"] if absolute else None


def schema_arguments(operator: Any, args: tuple[Any, ...], kwargs: Any) -> list[tuple[Parameter, Any]]:
    """Pairs of schema argument and what is passed for it; defaults are left out."""
    declared = signature_of(operator).arguments
    pairs = list(zip(declared, args, strict=False))
    pairs += [(a, kwargs[a.name]) for a in declared[len(args) :] if a.name in kwargs]
    return pairs


def hidden_writes(operator: Any, given: Iterable[tuple[Parameter, Any]]) -> frozenset[str]:
    """Names of arguments that this call writes although it does not declare it: batch norm's statistics.

    Args:
        operator: what is called.
        given: its arguments, as ``schema_arguments`` pairs them.
    """
    truth = _STATISTICS.get(_name(operator))
    if truth is None or any(parameter.name == truth and value is False for parameter, value in given):
        return frozenset()
    return frozenset({"running_mean", "running_var"})


@cache
def known_name(operator: Any) -> str:
    """Its name without library and overload; empty if it is of a library of which nothing is known.

    Known are ATen and what ExecuTorch's edge dialect puts in its place: what goes by the same name elsewhere
    may do anything.
    """
    found = signature_of(operator)
    return found.base if found.namespace in ("aten", "dim_order_ops") else ""


def _name(operator: Any) -> str:
    """Its name without overload; empty if it is none of PyTorch's own, of which nothing is known."""
    found = signature_of(operator)
    return found.base if found.namespace in ("aten", "prim") or found.base.startswith("sym_") else ""
