"""Which of ExecuTorch's kernels may write their output exactly over an input.

The operators listed were tried on the real runtime, with the output over the input, in many shapes and
types (``tests/on_executorch/test_kernels.py``), and gave the bits that they give elsewhere. Their kernels,
portable and optimised, read an element, or a row, before they write it, and never look at it again. An
input counts if its elements lie in memory as the output's do: one type, the same sizes, the same order of
dimensions. So nothing that is broadcast counts, and no comparison into booleans.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import fx

from lowtide.executorch.specs import layout_of, nodes_in, spec_of, specs_of

# fmt: off
_ELEMENTWISE = frozenset(
    [
        "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
        "bitwise_not", "bitwise_or", "bitwise_xor", "ceil", "clamp", "cos", "cosh", "div", "elu",
        "erf", "exp", "expm1", "floor", "floor_divide", "fmod", "gelu", "hardtanh", "leaky_relu",
        "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or", "logical_xor",
        "logit", "masked_fill", "maximum", "minimum", "mul", "neg", "pow", "reciprocal", "relu",
        "remainder", "round", "rsqrt", "rsub", "sigmoid", "sign", "sin", "sinh", "sqrt", "sub",
        "tan", "tanh", "trunc", "where",
    ]
)
# fmt: on

_ROWS = frozenset(
    [
        "_softmax",
        "_log_softmax",
        "native_layer_norm",
        "native_group_norm",
        "_native_batch_norm_legit_no_training",
        "_native_batch_norm_legit",
        "cumsum",
    ]
)
"""These read whole rows: the first result may lie over the first argument, and over no other."""


def overwrites(node: fx.Node) -> Iterator[tuple[Any, Any]]:
    """Pairs of specs: what the node writes, and what it reads and may be written over."""
    name = operator_name(node)
    if name in _ELEMENTWISE:
        results, arguments = specs_of(node), nodes_in(node.args)
    elif name in _ROWS and node.args:
        results, arguments = specs_of(node)[:1], nodes_in(node.args[0])
    else:
        return
    for result in results:
        layout = "" if result is None else layout_of(result)
        for argument in arguments:
            spec = spec_of(argument)
            if layout and spec is not None and layout_of(spec) == layout:
                yield result, spec


def operator_name(node: fx.Node) -> str:
    """The operator's own name, without library and overload; empty if the node calls none of torch's."""
    schema = getattr(node.target, "_schema", None)
    return "" if schema is None else str(schema.name).split("::")[1]
