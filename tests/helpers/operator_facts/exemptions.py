"""Where a claim may fail to hold, and why. The list may only shrink.

What is listed and does not happen is a fault. An entry says that one kind of fault may occur with one
operator, and nothing of the operator's other claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_DATA = "PyTorch does not trace it: what it does, or the shape of what it makes, depends on data"
_NEGATED = "PyTorch does not trace it: no kernel writes to several negatives that are not computed"
_RESIZED = "refused: it moves or grows a tensor's memory, which no plan can follow"
_SPARSE = "refused: its argument or its result is a sparse tensor"

EXEMPT: Mapping[tuple[str, str], str] = {
    ("allclose", "untraced"): _DATA,
    ("corrcoef", "untraced"): _DATA,
    ("cov", "untraced"): _DATA,
    ("equal", "untraced"): _DATA,
    ("item", "untraced"): _DATA,
    ("linalg.lstsq", "untraced"): _DATA,
    ("linalg.lstsq.grad_oriented", "untraced"): _DATA,
    ("narrow", "untraced"): _DATA,
    ("native_batch_norm", "untraced"): _NEGATED,
    ("nn.functional.batch_norm", "untraced"): _NEGATED,
    ("nn.functional.ctc_loss", "untraced"): _DATA,
    ("nn.functional.gaussian_nll_loss", "untraced"): _DATA,
    ("nn.functional.one_hot", "untraced"): _DATA,
    ("resize_", "refused"): _RESIZED,
    ("resize_as_", "refused"): _RESIZED,
    ("sparse.mm.reduce", "refused"): _SPARSE,
    ("sparse.sampled_addmm", "refused"): _SPARSE,
    ("to_sparse", "refused"): _SPARSE,
}


def reasons(operator: str) -> dict[str, str]:
    """The kinds of fault that an operator is exempt from, and why."""
    return {kind: why for (name, kind), why in EXEMPT.items() if name == operator}


def without_reason(operator: str, kinds: Iterable[str]) -> set[str]:
    """The kinds of fault that were found and are not exempt."""
    return set(kinds) - reasons(operator).keys()


def without_need(operator: str, kinds: Iterable[str]) -> set[str]:
    """The kinds of fault that an operator is exempt from and that were not found."""
    return reasons(operator).keys() - set(kinds)
