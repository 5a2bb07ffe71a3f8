"""Which of ExecuTorch's kernels may write their output exactly over an input.

Every operator listed was tried on the real runtime, with the output over the input, in many shapes, types and
memory formats (``tests/on_executorch/test_kernels.py``; the verdicts are in ``docs/inplace.md``), and gave
the bits that it gives elsewhere. Their kernels, portable and optimised, read an element, or a row, before
they write it, and never look at it again. An input counts if its elements lie in memory as the output's do:
one type, the same sizes (or symbols, where they are dynamic), the same order of dimensions. So nothing that
is broadcast counts, and no comparison of numbers into booleans.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import fx

from lowtide.executorch.specs import layouts_of, nodes_in, spec_of, specs_of
from lowtide.frontends.torch_export.effects import schema_holder
from lowtide.operators.schemas import known_name


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ELEMENTWISE = _words(
    """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor ceil clamp cos cosh div elu eq erf exp expm1 floor floor_divide fmod ge
    gelu gt hardtanh isinf isnan le leaky_relu log log10 log1p log2 logical_and logical_not logical_or
    logical_xor logit lt masked_fill maximum minimum mul ne neg pow reciprocal relu remainder round rsqrt rsub
    sigmoid sign sin sinh sqrt sub tan tanh trunc where _clone_dim_order
    """
)
"""Each element of the result depends on the same element of every argument: it may lie over any of them."""

FIRST = _words(
    """
    _softmax _log_softmax native_layer_norm native_group_norm _native_batch_norm_legit_no_training
    _native_batch_norm_legit cumsum index_put scatter scatter_add select_scatter slice_scatter masked_scatter
    """
)
"""These read whole rows, or change some elements: the first result may lie over the first argument, and over
no other."""


def overwrites(node: fx.Node) -> Iterator[tuple[Any, Any]]:
    """Pairs of specs: what the node writes, and what it reads and may be written over."""
    name = operator_name(node)
    if name in ELEMENTWISE:
        results, allowed = list(zip(specs_of(node), layouts_of(node), strict=True)), nodes_in(node.args)
    elif name in FIRST and node.args:
        results = list(zip(specs_of(node), layouts_of(node), strict=True))[:1]
        allowed = nodes_in(node.args[0])
    else:
        return
    passed = nodes_in((node.args, {name: value for name, value in node.kwargs.items() if name != "out"}))
    for result, layout in results:
        if not layout:
            continue
        alike = [n for n in allowed if spec_of(n) is not None and layouts_of(n) == [layout]]
        for argument in dict.fromkeys(map(spec_of, alike)):
            # What is read a second time, in another place of the call or as another shape, stays as it is.
            if sum(argument in specs_of(n) for n in passed) == sum(spec_of(n) is argument for n in alike):
                yield result, argument


def operator_name(node: fx.Node) -> str:
    """The operator's own name, without library and overload; empty if the node calls none that is known."""
    operator = schema_holder(node.target)
    return "" if operator is None else known_name(operator)
