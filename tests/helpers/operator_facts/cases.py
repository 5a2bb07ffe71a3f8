"""Calls to try: every operator of PyTorch's own table, in several types, as functions and in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

import torch
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool, torch.bfloat16, torch.float64)
"""In order of preference; float64 only stands in for float32."""

LARGEST = 50_000
"""Elements of all tensors of a call: larger ones say nothing more and take long."""

LOOKED_AT = 12
"""How many of an operator's samples are looked at."""


@dataclass(frozen=True)
class Case:
    """One call.

    Args:
        operator: full name, such as ``linalg.norm`` or ``std_mean.unbiased``.
        dtype: type of the sample.
        how: ``plain``; ``in place``; ``lazy``: arguments are conjugates or negatives that are not computed.
        decomposed: whether composite operators are traced as what they call.
        function: what is called.
        leaves, spec: its flat arguments, and their structure.
    """

    operator: str
    dtype: torch.dtype
    how: str
    decomposed: bool
    function: Callable[..., Any]
    leaves: tuple[Any, ...]
    spec: Any

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The different tensors among its arguments."""
        return list({id(leaf): leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)}.values())

    def __str__(self) -> str:
        kind = "decomposed" if self.decomposed else "as it is"
        return f"{self.operator} {str(self.dtype).removeprefix('torch.')} {self.how} {kind}"


def names_like(pattern: str) -> list[str]:
    """Full names of the operators that a pattern fits, in order."""
    return sorted(name for name in operators() if fnmatchcase(name, pattern))


_KNOWN: dict[str, Any] = {}


def operators() -> dict[str, Any]:
    """PyTorch's table by full name. Importing it takes seconds."""
    if not _KNOWN:
        from torch.testing._internal.common_methods_invocations import op_db

        _KNOWN.update((entry.full_name, entry) for entry in op_db)
    return _KNOWN


def cases_of(name: str, *, thorough: bool) -> Iterator[Case]:
    """Calls of an operator: one or two, or with ``thorough`` in all types and ways, each traced twice."""
    entry = operators()[name]
    for dtype in _dtypes(entry, thorough):
        samples = _samples(entry, dtype)
        several = thorough and dtype in (torch.float32, torch.complex64)
        for k, sample in enumerate(samples if several else samples[:1]):
            leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
            for how in _hows(entry, sample, dtype, first=k == 0, thorough=thorough):
                function = entry.inplace_variant if how == "in place" else entry.op
                for decomposed in (False, True) if thorough else (how == "plain",):
                    yield Case(name, dtype, how, decomposed, function, tuple(leaves), spec)


def _hows(entry: Any, sample: Any, dtype: torch.dtype, *, first: bool, thorough: bool) -> list[str]:
    if not thorough:
        return ["lazy"] if dtype.is_complex else ["plain"]
    found = ["plain"]
    if first and entry.inplace_variant is not None and not sample.broadcasts_input:
        found.append("in place")
    if dtype.is_complex or (dtype == torch.float32 and first):
        found.append("lazy")
    return found


def _dtypes(entry: Any, thorough: bool) -> list[torch.dtype]:
    supported = entry.supported_dtypes("cpu")
    found = [dtype for dtype in DTYPES if dtype in supported]
    if torch.float32 in found and torch.float64 in found:
        found.remove(torch.float64)
    if thorough or len(found) < 2:
        return found or list(supported)[:1]
    return found[:2] if torch.complex64 in found else found[:1]


def _samples(entry: Any, dtype: torch.dtype) -> list[Any]:
    """The first of an operator's samples, and one that differs most from it in its form."""
    torch.manual_seed(0)
    samples = islice(entry.sample_inputs("cpu", dtype, requires_grad=False), LOOKED_AT)
    small = [sample for sample in samples if _elements(sample) <= LARGEST]
    forms = {_form(sample): sample for sample in reversed(small)}
    first = small[:1]
    others = [sample for form, sample in forms.items() if first and form != _form(first[0])]
    return first + others[:1]


def _form(sample: Any) -> str:
    """Types of the arguments, and which are named: what is called, without shapes."""
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    return f"{spec} {[(type(leaf), getattr(leaf, 'ndim', None)) for leaf in leaves]}"


def _elements(sample: Any) -> int:
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))
