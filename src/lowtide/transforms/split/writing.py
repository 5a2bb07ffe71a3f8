"""A tape made into nodes: a copy of the program with a segment replaced by its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from lowtide.transforms.copying import copy_module, with_module
from lowtide.transforms.split.rules import value_of
from lowtide.transforms.split.tape import Entry, Ref, Tape

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_NOT_COPIED = ("val", "tensor_meta", "spec")


@dataclass(frozen=True)
class Dialect:
    """The operators that cut, pad and put together, as the program's own dialect has them."""

    slice: Any
    pad: Any
    scatter: Any
    cat: Any


def aten() -> Dialect:
    """ATen's own."""
    ops = torch.ops.aten
    return Dialect(ops.slice.Tensor, ops.constant_pad_nd.default, ops.slice_scatter.default, ops.cat.default)


def write(program: ExportedProgram, tapes: Sequence[Tape], dialect: Dialect) -> ExportedProgram:
    """A copy of a program with segments run in parts.

    Args:
        program: as it is; names, shapes and signature stay.
        tapes: of segments whose ranges do not overlap.
        dialect: of the program.
    """
    module, mapping = copy_module(program.graph_module)
    for tape in tapes:
        _replace(module.graph, tape, mapping, dialect)
    module.graph.lint()
    module.recompile()
    return with_module(program, module)


def _replace(graph: fx.Graph, tape: Tape, mapping: dict[fx.Node, fx.Node], dialect: Dialect) -> None:
    segment = tape.segment
    end = mapping[segment.end]
    behind = end.next
    for old in segment.after:
        behind.prepend(mapping[old])
    first = mapping[segment.after[0]] if segment.after else behind
    made: list[fx.Node] = []
    with graph.inserting_before(first):
        for entry in tape.entries:
            made.append(_make(graph, entry, made, mapping, dialect))
    old = {node: mapping[node] for node in segment.axes}
    for node, ref in tape.joined.items():
        old[node].replace_all_uses_with(made[ref.place])
        mapping[node] = made[ref.place]
    names = {node: node.name for node in old.values()}
    for node in reversed(old.values()):
        graph.erase_node(node)
    for node, ref in tape.joined.items():
        made[ref.place].name = names[old[node]]


def _make(
    graph: fx.Graph, entry: Entry, made: Sequence[fx.Node], mapping: dict[fx.Node, fx.Node], dialect: Dialect
) -> fx.Node:
    def of(leaf: Any) -> Any:
        if isinstance(leaf, Ref):
            return made[leaf.place]
        return mapping[leaf] if isinstance(leaf, fx.Node) else leaf

    args, kwargs = fx.node.map_aggregate((entry.args, entry.kwargs), of)
    targets = {
        "run": entry.node.target,
        "slice": dialect.slice,
        "pad": dialect.pad,
        "spread": dialect.pad,
        "scatter": dialect.scatter,
        "join": dialect.cat,
    }
    node = graph.call_function(targets[entry.kind], args, kwargs)
    node.meta = {key: value for key, value in entry.maker.meta.items() if key not in _NOT_COPIED}
    node.meta["val"] = _run_on_fakes(node, value_of(entry.node))
    return node


def _run_on_fakes(node: fx.Node, like: torch.Tensor | None) -> Any:
    """What a node computes, as a fake tensor."""
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    if getattr(node.target, "__name__", "") == "getitem":
        return args[0][args[1]]
    leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, FakeTensor)]
    mode = leaves[0].fake_mode if leaves else None
    if mode is None:
        assert isinstance(like, FakeTensor)
        mode = like.fake_mode
    with mode:
        return node.target(*args, **kwargs)
