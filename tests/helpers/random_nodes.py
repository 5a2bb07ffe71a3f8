"""Nodes of random fx graphs: operators, views and writes in place, on fake tensors.

``random_graphs`` builds whole programs of them.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.node import map_arg

# An operator that does not take what it is offered is left out: no reason to log it.
logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)

aten = torch.ops.aten
hop = torch.ops.higher_order

CONTROLS = 8
"""How many numbers the first input has; each branch and loop looks at one of them."""

MOST_TRIPS = 3
SHAPES = ((3, 4), (3, 4), (3, 4), (4, 3), (2, 3, 4), (12,))


@dataclass
class Draft:
    """A graph under construction; ``live`` is every tensor that can be read now."""

    graph: fx.Graph
    control: fx.Node
    attributes: dict[str, Any] = field(default_factory=dict)
    live: list[fx.Node] = field(default_factory=list)


def storage_of(node: fx.Node) -> int:
    """Identity of the fake memory behind a node's tensor."""
    return int(node.meta["val"].untyped_storage()._cdata)


def alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()


def all_alike(nodes: Sequence[fx.Node]) -> bool:
    return all(alike(nodes[0].meta["val"], node.meta["val"]) for node in nodes[1:])


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the dimensions, in some order, are contiguous."""
    expected = 1
    for size, stride in sorted(zip(tensor.shape, tensor.stride(), strict=True), key=lambda pair: pair[1]):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


class NodeMaker:
    """Makes nodes.

    Args:
        random: every decision.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.mutating = random.random() < 0.5
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.fixed: set[int] = set()  # fake memory that must not be written
        self.constants: list[torch.Tensor] = []
        self.names = 0

    # Graphs.

    def fake(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        with self.mode:
            return torch.empty(tuple(shape), dtype=dtype)

    def like(self, tensor: torch.Tensor) -> torch.Tensor:
        """A fake with memory of its own."""
        with self.mode:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)

    def open(self, takes: Sequence[torch.Tensor], writable: Sequence[bool]) -> tuple[Draft, list[fx.Node]]:
        """A graph whose first placeholder is the control."""
        graph = fx.Graph()
        placeholders = []
        for i, (tensor, may_write) in enumerate(zip(takes, writable, strict=True)):
            node = graph.placeholder(f"p{i}")
            node.meta["val"] = self.like(tensor)
            if not may_write:
                self.fixed.add(storage_of(node))
            placeholders.append(node)
        numbers = [p for p in placeholders if p.meta["val"].dtype == torch.int64]
        control = next(p for p in numbers if p.meta["val"].shape == (CONTROLS,))
        live = [p for p in placeholders if p not in numbers]
        return Draft(graph, control, live=live), placeholders

    def close(self, draft: Draft, returned: Sequence[Any], bare: bool = False) -> fx.GraphModule:
        draft.graph.output(returned[0] if bare else tuple(returned))
        return fx.GraphModule(draft.attributes, draft.graph)

    def emit(self, draft: Draft, target: Any, *args: Any, **kwargs: Any) -> list[fx.Node]:
        """A node for an operator, with ``getitem`` nodes for several results; nothing if it refuses."""
        fake_args, fake_kwargs = map_arg((args, kwargs), lambda n: n.meta["val"])
        try:
            with self.mode, torch.no_grad():
                found = target(*fake_args, **fake_kwargs)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return []
        return self.node(draft, target, args, kwargs, found)

    def node(self, draft: Draft, target: Any, args: Any, kwargs: Any, found: Any) -> list[fx.Node]:
        node = draft.graph.call_function(target, args, kwargs)
        node.meta["val"] = found
        made = [node]
        if isinstance(found, (tuple, list)):
            made = []
            for i, tensor in enumerate(found):
                made.append(draft.graph.call_function(operator.getitem, (node, i)))
                made[-1].meta["val"] = tensor
        draft.live += [n for n in made if isinstance(n.meta["val"], torch.Tensor)]
        return made

    def attribute(self, draft: Draft, thing: Any, prefix: str) -> fx.Node:
        name = f"{prefix}{self.names}"
        self.names += 1
        draft.attributes[name] = thing
        return draft.graph.create_node("get_attr", name)

    # Decisions.

    def chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def pick(self, draft: Draft, where: Callable[[torch.Tensor], bool] = lambda t: True) -> fx.Node:
        """A tensor to use; recent ones more often, so that others die."""
        found = [n for n in draft.live if where(n.meta["val"])]
        if not found:
            return self.fresh(draft, self.fake((3, 4)))
        if self.chance(2):
            found = found[-4:]
        return self.random.choice(found)

    def pick_float(self, draft: Draft) -> fx.Node:
        return self.pick(draft, lambda t: t.dtype == torch.float32)

    def matching(self, draft: Draft, tensor: torch.Tensor) -> fx.Node:
        """A live tensor that looks like this one, or a new one that depends on live ones."""
        found = [n for n in draft.live if alike(n.meta["val"], tensor)]
        if not found or self.chance(4):
            return self.fresh(draft, tensor)
        return self.random.choice(found)

    def fresh(self, draft: Draft, tensor: torch.Tensor) -> fx.Node:
        (made,) = self.emit(draft, aten.full.default, list(tensor.shape), 1, dtype=tensor.dtype)
        floats = [n for n in draft.live if n.meta["val"].dtype == torch.float32]
        if tensor.dtype == torch.float32 and floats:
            (total,) = self.emit(draft, aten.mean.default, self.random.choice(floats))
            (made,) = self.emit(draft, aten.add.Tensor, made, total)
        if tensor.stride() != made.meta["val"].stride():
            order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
            shape = [tensor.shape[d] for d in order]
            (made,) = self.emit(draft, aten.reshape.default, made, shape)
            (made,) = self.emit(
                draft, aten.permute.default, made, [order.index(d) for d in range(len(order))]
            )
        return made

    # Nodes.

    def unary(self, draft: Draft) -> None:
        operators = (aten.relu, aten.neg, aten.sin, aten.tanh, aten.abs, aten.sigmoid, aten.clone)
        self.emit(draft, self.random.choice(operators).default, self.pick_float(draft))

    def binary(self, draft: Draft) -> None:
        first = self.pick_float(draft)
        second = self.matching(draft, first.meta["val"])
        operators = (aten.add.Tensor, aten.mul.Tensor, aten.sub.Tensor, aten.maximum.default)
        self.emit(draft, self.random.choice(operators), first, second)

    def view(self, draft: Draft) -> None:
        base = self.pick(draft)
        shape = list(base.meta["val"].shape)
        last = len(shape) - 1
        kinds: tuple[tuple[Any, ...], ...] = (
            (aten.view.default, [-1]),
            (aten.reshape.default, [-1]),
            (aten.reshape.default, shape[::-1]),
            (aten.transpose.int, 0, last),
            (aten.permute.default, list(range(last + 1))[::-1]),
            (aten.slice.Tensor, 0, 1, 3),
            (aten.slice.Tensor, last, 0, 3, 2),
            (aten.select.int, 0, 1),
            (aten.unsqueeze.default, 0),
            (aten.expand.default, [2, *shape]),
            (aten.split.Tensor, 2),
            (aten.unbind.int,),
            (aten.chunk.default, 2, last),
            (aten.detach.default,),
            (aten.alias.default,),
            (aten.contiguous.default,),
            (aten.flatten.using_ints,),
            (aten.to.dtype, torch.float32),
            (aten.diagonal.default,),
            (aten.dropout.default, 0.5, False),
        )
        target, *args = self.random.choice(kinds)
        self.emit(draft, target, base, *args)

    def several(self, draft: Draft) -> None:
        base = self.pick_float(draft)
        kinds: tuple[tuple[Any, ...], ...] = (
            (aten.max.dim, 0),
            (aten.sort.default,),
            (aten.aminmax.default,),
            (aten.split_with_sizes_copy.default, [1, 2]),
            (aten.native_layer_norm.default, list(base.meta["val"].shape)[-1:], None, None, 1e-5),
        )
        target, *args = self.random.choice(kinds)
        # Fake tensors let it pass, but nothing has no greatest element.
        if base.meta["val"].numel() or target not in (aten.max.dim, aten.aminmax.default):
            self.emit(draft, target, base, *args)

    def odd(self, draft: Draft) -> None:
        base = self.pick_float(draft)
        kind = self.random.randrange(8)
        if kind == 0:
            self.constant(draft)
        elif kind == 6:
            self.undefined(draft)
        elif kind == 7:
            self.literal(draft)
        elif kind == 1:
            self.emit(draft, aten.cat.default, [base, self.matching(draft, base.meta["val"]), base])
        elif kind == 2:
            self.emit(draft, aten.softmax.int, base, -1)
        elif kind == 3:
            self.emit(draft, aten.gt.Scalar, base, 0.0)
        elif kind == 4:
            self.emit(draft, aten.cumsum.default, base, 0)
        else:
            transposed = self.emit(draft, aten.transpose.int, base, 0, 1)
            if transposed:
                self.emit(draft, aten.matmul.default, base, transposed[0])

    def constant(self, draft: Draft) -> None:
        """A tensor of the graph's own; the same one in several graphs at times."""
        if not self.constants or self.chance(2):
            generator = torch.Generator().manual_seed(self.random.randrange(2**31))
            self.constants.append(torch.randn(self.random.choice(SHAPES), generator=generator))
        tensor = self.random.choice(self.constants)
        node = self.attribute(draft, tensor, "constant")
        node.meta["val"] = self.like(tensor)
        if not self.mutating:
            self.fixed.add(storage_of(node))
        draft.live.append(node)

    def literal(self, draft: Draft) -> None:
        """What export leaves of ``torch.tensor(...)``: a constant, lifted, copied and detached."""
        self.constant(draft)
        constant = draft.live.pop()
        (made,) = self.emit(draft, aten.lift_fresh_copy.default, constant)
        if self.mutating:
            self.emit(draft, aten.detach_.default, made)

    def undefined(self, draft: Draft) -> None:
        """Memory that nobody has written, of which one may take the shape, or write all of it."""
        base = self.pick_float(draft)
        shape = list(base.meta["val"].shape)
        makers: tuple[tuple[Any, ...], ...] = (
            (aten.empty.memory_format, shape),
            (aten.new_empty.default, base, shape),
            (aten.empty_like.default, base),
        )
        target, *args = self.random.choice(makers)
        (made,) = self.emit(draft, target, *args)
        draft.live.remove(made)
        users: tuple[tuple[Any, ...], ...] = (
            (aten.zeros_like.default, made),
            (aten.full_like.default, made, 0.5),
            (aten.fill.Scalar, made, 2),
            (aten.copy.default, made, base),
        )
        if self.mutating:
            users = (*users, (aten.fill_.Scalar, made, 2), (aten.copy_.default, made, base))
        target, *args = self.random.choice(users)
        self.emit(draft, target, *args)

    def write(self, draft: Draft) -> None:
        """Write in place: what one can write, and does not overlap itself."""
        target = self.pick(draft, lambda t: t.dtype == torch.float32)
        if not self.may_write(target):
            return
        kind = self.random.randrange(7)
        if kind == 0:
            self.emit(draft, aten.add_.Tensor, target, self.matching(draft, target.meta["val"]))
        elif kind == 1:
            self.emit(draft, aten.copy_.default, target, self.matching(draft, target.meta["val"]))
        elif kind == 2:
            self.emit(draft, aten.zero_.default, target)
        elif kind == 3:
            self.emit(draft, aten.mul_.Scalar, target, 0.5)
        elif kind == 4:
            draft.graph.call_function(aten.fill_.Scalar, (target, 2)).meta["val"] = target.meta["val"]
        elif kind == 5:
            self.emit(draft, aten.relu_.default, target)
        else:
            pair = [self.matching(draft, target.meta["val"]) for _ in range(2)]
            self.emit(draft, aten.add.out, *pair, out=target)

    def may_write(self, node: fx.Node) -> bool:
        tensor = node.meta["val"]
        overlaps = any(s == 0 and d > 1 for d, s in zip(tensor.shape, tensor.stride(), strict=True))
        return self.mutating and not overlaps and storage_of(node) not in self.fixed
