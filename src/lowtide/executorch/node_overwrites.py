"""What ExecuTorch's kernels may write over (``lowtide.operators.executorch``), asked of nodes with specs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import fx

from lowtide.executorch.specs import layouts_of, nodes_in, spec_of, specs_of
from lowtide.operators.executorch import ELEMENTWISE, FIRST
from lowtide.operators.schemas import known_name, schema_holder


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
