"""Declarations of operators, as PyTorch writes them, read without PyTorch.

``aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)``: what a letter
marks is aliased, with ``!`` also written; what is written and follows the ``*`` is an output. Types and
defaults say nothing about memory and are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEAD = re.compile(r"([\w:]+)(?:\.(\w+))?\(")
_ALIAS = re.compile(r"\b(?:Tensor|[a-z]+)\(([\w*|]+)(!?)(?:\s*->\s*([\w*|]+))?\)")
"""A type's alias annotation: sets of letters before and after the call, and whether it is written."""

_QUOTED = re.compile(r"""(["'])(?:\\.|(?!\1)[^\\])*\1""")
"""A default that is text, which may hold anything."""

_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument, or a result, that an operator declares.

    Args:
        name: empty for most results.
        alias: the sets of memory that it is in, by their letters; ``*`` is any. Empty for memory of its own.
        is_write: whether it is written.
        is_out: whether it is an output that the caller hands over.
        kwarg_only: whether it is passed by name.
    """

    name: str
    alias: frozenset[str] = frozenset()
    is_write: bool = False
    is_out: bool = False
    kwarg_only: bool = False


@dataclass(frozen=True, eq=False)
class Signature:
    """What an operator declares.

    Args:
        namespace, base, overload: ``aten``, ``add``, ``out``; the overload is empty for the default.
        arguments, returns: in order.
        moves_memory: whether what it declares as written is where a tensor lies, or how, and not its bytes.
    """

    namespace: str
    base: str
    overload: str
    arguments: tuple[Parameter, ...]
    returns: tuple[Parameter, ...]
    moves_memory: bool = False


def name_in(text: str) -> str:
    """The name that a declaration begins with: ``aten::add.out``."""
    return text[: text.index("(")]


def parse_signature(text: str, *, moves_memory: bool = False) -> Signature:
    """Read a declaration.

    Raises:
        ValueError: it is none.
    """
    text = _QUOTED.sub("", text)
    head = _HEAD.match(text)
    if head is None:
        raise ValueError(f"no operator is declared by {text!r}")
    namespace, _, base = head[1].rpartition("::")
    stop = _closing(text, head.end() - 1)
    arrow, returned = text.find("->", stop), text[stop + 1 :].partition("->")[2].strip()
    if arrow < 0:
        raise ValueError(f"no operator is declared by {text!r}")
    whole = returned.startswith("(") and _closing(returned, 0) == len(returned) - 1
    results = _parts(returned[1:-1] if whole else returned)
    return Signature(
        namespace,
        base,
        head[2] or "",
        tuple(_arguments(text[head.end() : stop])),
        tuple(_parameter(result, named=False) for result in results),
        moves_memory,
    )


def _arguments(text: str) -> Iterator[Parameter]:
    kwarg_only = False
    for part in _parts(text):
        if part == "*":
            kwarg_only = True
        else:
            yield _parameter(part, kwarg_only=kwarg_only)


def _parameter(text: str, *, kwarg_only: bool = False, named: bool = True) -> Parameter:
    type, _, name = text.partition("=")[0].rpartition(" ") if named else (text, "", "")
    found = _ALIAS.search(type)
    if found is None:
        return Parameter(name, kwarg_only=kwarg_only)
    sets = frozenset("|".join(filter(None, (found[1], found[3]))).split("|"))
    is_write = bool(found[2])
    return Parameter(name, sets, is_write, is_write and kwarg_only, kwarg_only)


def _parts(text: str) -> list[str]:
    """What commas part, those in brackets left alone."""
    found, start, at = [], 0, 0
    while at < len(text):
        if text[at] in _CLOSING:
            at = _closing(text, at)
        elif text[at] == ",":
            found.append(text[start:at].strip())
            start = at + 1
        at += 1
    found.append(text[start:].strip())
    return [part for part in found if part]


def _closing(text: str, at: int) -> int:
    """Where the bracket that opens at a place closes."""
    closing = [_CLOSING[text[at]]]
    while closing:
        at += 1
        if at == len(text):
            raise ValueError(f"brackets are not closed in {text!r}")
        if text[at] in _CLOSING:
            closing.append(_CLOSING[text[at]])
        elif text[at] == closing[-1]:
            closing.pop()
    return at
