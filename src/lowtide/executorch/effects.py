"""What a node of an ExecuTorch graph does to memory, read off its schema."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from executorch.exir import memory
from torch import fx

from lowtide.executorch.specs import nodes_in, specs_of
from lowtide.frontends.torch_export.effects import schema_holder
from lowtide.frontends.torch_export.probe import schema_arguments

_NO_STEP = (memory.alloc, memory.view, memory.free, operator.getitem)
"""Nodes that run nothing: they name tensors that others write."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a node does.

    Args:
        reads: arguments whose tensors' bytes it reads.
        writes: specs of the tensors that it writes from end to end.
        partial: arguments whose tensors it changes in place.
    """

    reads: tuple[Any, ...]
    writes: tuple[Any, ...]
    partial: tuple[Any, ...] = ()


def effect_of(node: fx.Node) -> Effect | None:
    """What a node does; None if it runs nothing.

    A node that changes an argument in place, and whose result still has a spec of its own, is taken for the
    functional operator that it was made of: it reads the argument and writes the result (see ``inplace``).
    """
    if node.target in _NO_STEP:
        return None
    schema = schema_holder(node.target)
    results = [spec for spec in specs_of(node) if spec is not None]
    if schema is None:  # a delegate, or arithmetic on sizes
        return Effect((node.args, node.kwargs), tuple(results))
    reads: list[Any] = []
    writes: list[Any] = []
    partial: list[Any] = []
    changed: list[Any] = []
    for argument, passed in schema_arguments(schema, node.args, node.kwargs):
        info = argument.alias_info
        if info is None or not info.is_write:
            reads.append(passed)
        elif argument.is_out:
            writes += [spec for n in nodes_in(passed) for spec in specs_of(n) if spec is not None]
        else:
            mine = [spec for n in nodes_in(passed) for spec in specs_of(n)]
            functional = bool(results) and not any(spec in results for spec in mine)
            changed += mine
            if schema._schema.name == "aten::copy_" and not functional:
                writes += mine
            else:
                reads.append(passed)
                if not functional:
                    partial.append(passed)
    writes += [spec for spec in results if spec not in changed]
    if schema._schema.name.split("::")[1].startswith("sym_"):  # looks at sizes only
        reads = []
    return Effect(tuple(reads), tuple(dict.fromkeys(writes)), tuple(partial))
