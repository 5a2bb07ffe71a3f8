"""Which nodes only move bytes: ``frontends.torch_export.moves``, for tensors that ExecuTorch has specs of.

The kernels still run. Each was tried on the real runtime with source and destination in one place, or one
inside the other (``tests/executorch/test_kernels_moves.py``): it writes what it reads to where it was.
Pads are left out, since their kernel refuses tensors that overlap; and so is, but for clones, any other order
of dimensions than the usual, since ``cat`` takes no notice of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from lowtide.executorch.specs import layouts_of, own_spec_of, spec_of, specs_of
from lowtide.operators.executorch import WHOLE
from lowtide.operators.moves import moves_of_kernel
from lowtide.operators.schemas import schema_holder

Move = tuple[Any, Any, int]
"""A spec that is the same bytes as another spec's from some distance on: ``(inner, outer, bytes)``."""


def moves(node: fx.Node) -> Iterator[Move]:
    """What is the same bytes after a node; nothing where it does more than move bytes."""
    operator = schema_holder(node.target)
    if operator is None:
        return
    if str(operator._schema.name).split("::")[1] in WHOLE and not _all_static(node):
        yield from _dynamic_copy(node)
        return
    spec_behind: dict[int, Any] = {}

    def stand_in(spec: Any, laid_out_as: Any) -> torch.Tensor | None:
        tensor = None if spec is None else _meta(laid_out_as)
        if tensor is not None:
            spec_behind[id(tensor)] = spec
        return tensor

    def passed(leaf: Any) -> Any:
        return stand_in(spec_of(leaf), own_spec_of(leaf)) if isinstance(leaf, fx.Node) else leaf

    args = pytree.tree_map(passed, node.args)
    kwargs = {name: pytree.tree_map(passed, leaf) for name, leaf in node.kwargs.items() if name != "out"}
    results = [stand_in(spec, spec) for spec in specs_of(node)]
    for inner, outer, distance in moves_of_kernel(operator, args, kwargs, results):
        yield spec_behind[id(inner)], spec_behind[id(outer)], distance


def _all_static(node: fx.Node) -> bool:
    specs = [*specs_of(node), *(spec for source in node.all_input_nodes for spec in specs_of(source))]
    return all(spec is None or spec.is_static_shape_tensor for spec in specs)


def _dynamic_copy(node: fx.Node) -> Iterator[Move]:
    """The copy of a whole, of which only symbols are known: it is the same bytes if they are the same."""
    (result,), source = specs_of(node), spec_of(node.args[0])
    if None not in (result, source) and layouts_of(node) == layouts_of(node.args[0]) != [""]:
        yield result, source, 0


def _meta(spec: Any) -> torch.Tensor | None:
    """A tensor without bytes that is laid out as the spec's; None if that is known at run time only."""
    if spec is None or not spec.is_static_shape_tensor:
        return None
    shape = [int(size) for size in spec.shape]
    strides, step = [0] * len(shape), 1
    for dim in reversed([int(d) for d in spec.dim_order]):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return torch.empty_strided(shape, strides, dtype=spec.dtype, device="meta")
