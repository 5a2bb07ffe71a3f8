"""Tensors that are computed from constants alone, several times alike: once is enough.

A recurrent net starts every layer with zeros, a transformer builds one mask a layer. Each takes its own bytes
for as long as it lives. One of them serves all, if nobody writes into it; whether that pays is for the arena
to say, since the one lives longer than each did.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from lowtide.operators.schemas import schema_holder
from lowtide.transforms.rewrites.editing import is_random, operator_name

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lowtide.transforms.rewrites.rule import Changed, Site


def merge_equal(site: Site) -> list[Changed]:
    """Let the first of several equal computations of constants stand for all."""
    found: list[Changed] = []
    digests = _Digests(site)
    constant: dict[fx.Node, Hashable] = {}
    first: dict[Hashable, fx.Node] = {}
    for node in list(site.edit.graph.nodes):
        if node in site.constants:
            constant[node] = digests.key(node)
            continue
        if not _is_plain(node) or not all(source in constant for source in node.all_input_nodes):
            continue
        key = (node.target, _key(node.args, constant), _key(node.kwargs, constant))
        constant[node] = key
        owner = first.setdefault(key, node)
        if owner is not node and _may_be_shared(node) and _may_be_shared(owner):
            node.replace_all_uses_with(owner)
            site.edit.let_go(node)
            found.append(((node.name,), f"{owner.name} stands for {node.name}, which is equal"))
    return found


class _Digests:
    """What constants hold, looked at only where there are two of one size."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.kinds: dict[Hashable, int] = {}
        for tensor in site.constants.values():
            self.kinds[self._kind(tensor)] = self.kinds.get(self._kind(tensor), 0) + 1

    @staticmethod
    def _kind(tensor: torch.Tensor) -> Hashable:
        return tensor.dtype, tuple(tensor.shape)

    def key(self, node: fx.Node) -> Hashable:
        tensor = self.site.constants[node]
        kind = self._kind(tensor)
        if self.kinds[kind] == 1 or not tensor.numel():
            return kind
        flat = tensor.contiguous().reshape(-1).view(torch.uint8).cpu().numpy()
        return kind, hashlib.sha256(flat).digest()


def _is_plain(node: fx.Node) -> bool:
    """Whether a node computes one tensor, the same from the same, and does nothing else."""
    if not operator_name(node) or not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    found = schema_holder(node.target)
    return found is not None and not found._schema.is_mutable and not is_random(node) and not _is_empty(node)


def _is_empty(node: fx.Node) -> bool:
    """Whether the content of a new tensor is left open."""
    return "empty" in operator_name(node)


def _may_be_shared(node: fx.Node) -> bool:
    """Whether only operators read a tensor, which no loop or branch takes, and no output is."""
    for user in node.users:
        found = schema_holder(user.target) if user.op == "call_function" else None
        if found is None or found._schema.is_mutable:
            return False
    return True


def _key(value: Any, constant: dict[fx.Node, Hashable]) -> Hashable:
    """Arguments as something that can be compared: numbers of different types are different."""
    if isinstance(value, fx.Node):
        return constant[value]
    if isinstance(value, (list, tuple)):
        return tuple(_key(leaf, constant) for leaf in value)
    if isinstance(value, dict):
        return tuple((name, _key(leaf, constant)) for name, leaf in sorted(value.items()))
    return type(value).__name__, repr(value)
