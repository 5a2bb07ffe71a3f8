"""Random fx graphs with fake tensors, built node by node: what torch.export would refuse included.

Regions return their own inputs, one value twice, constants and views; loops swap their carries; what a
branch returns travels outward through several calls; tensors are written in place, in the root and
inside calls, through views, and constants so written become state; one graph is called from several
places. Which branch is taken and how often a loop runs is decided by the first input, a vector of
small numbers, so that inputs for all of them are known without looking at the data.

Eager PyTorch passes a region's outputs by reference, Lowtide copies them: the same unless something is
written later through one of the names. A program therefore either writes in place, and clones what would
be such an alias, or has no in-place operators at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import fx

from random_nodes import (
    CONTROLS,
    MOST_TRIPS,
    SHAPES,
    Draft,
    NodeMaker,
    alike,
    all_alike,
    aten,
    hop,
    is_dense,
    storage_of,
)


@dataclass(frozen=True)
class Case:
    """A graph and several sets of inputs: every number 0, 1, many, and mixed."""

    module: fx.GraphModule
    inputs: list[tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Shared:
    """A finished graph that may be called again, and what it takes."""

    module: fx.GraphModule
    takes: tuple[torch.Tensor, ...]
    writable: tuple[bool, ...]
    returns: tuple[torch.Tensor, ...]


class GraphMaker(NodeMaker):
    """Makes one graph.

    Args:
        random: every decision.
        steps: about how many nodes, all graphs together.
        depth: how deep calls nest.
    """

    def __init__(self, random: Random, *, steps: int = 15, depth: int = 3) -> None:
        super().__init__(random)
        self.left, self.depth = steps, depth
        self.shared: list[Shared] = []

    def make(self) -> Case:
        shapes = [self.random.choice(SHAPES) for _ in range(self.random.randint(1, 3))]
        takes = [self.fake((CONTROLS,), torch.int64), *(self.fake(shape) for shape in shapes)]
        root, _ = self.open(takes, [False] + [True] * len(shapes))
        self.fill(root, self.depth)
        while self.left > 0:
            self.fill(root, self.depth)
        returned = [self.pick(root) for _ in range(self.random.randint(1, 4))]
        returned += self.random.choice(([], [], [None], [3], [self.random.choice(root.live)]))
        module = self.close(root, returned)
        controls = [[n] * CONTROLS for n in (0, 1, MOST_TRIPS)]
        controls += [[self.random.randint(0, MOST_TRIPS) for _ in range(CONTROLS)] for _ in range(2)]
        generator = torch.Generator().manual_seed(self.random.randrange(2**31))
        inputs = [
            (torch.tensor(control), *(torch.randn(shape, generator=generator) for shape in shapes))
            for control in controls
        ]
        return Case(module, inputs)

    def fill(self, draft: Draft, depth: int) -> None:
        for _ in range(self.random.randint(2, 6)):
            if self.left <= 0:
                return
            self.left -= 1
            if depth > 0 and self.chance(4):
                calls = (
                    self.call,
                    self.cond,
                    self.cond,
                    self.loop,
                    self.scan,
                    self.map,
                    self.associative_scan,
                )
                self.random.choice(calls)(draft, depth - 1)
            elif self.mutating and self.chance(4):
                self.write(draft)
            else:
                kinds = (self.unary, self.binary, self.view, self.view, self.several, self.odd)
                self.random.choice(kinds)(draft)

    # Calls.

    def operands(self, draft: Draft, most: int = 3) -> list[fx.Node]:
        return [draft.control, *(self.pick_float(draft) for _ in range(self.random.randint(0, most)))]

    def child(
        self,
        takes: Sequence[fx.Node | torch.Tensor],
        writable: Sequence[bool],
        depth: int,
        returns: Callable[[Draft, list[fx.Node]], list[Any]],
        bare: bool = False,
    ) -> Shared:
        fakes = [t.meta["val"] if isinstance(t, fx.Node) else t for t in takes]
        draft, placeholders = self.open(fakes, writable)
        if depth >= 0 and not self.chance(4):
            self.fill(draft, depth)
        returned = returns(draft, placeholders)
        if self.mutating:
            returned = self.unaliased(draft, returned, placeholders)
        found = tuple(r.meta["val"] for r in returned)
        module = self.close(draft, returned, bare)
        return Shared(module, tuple(fakes), tuple(writable), found)

    def unaliased(self, draft: Draft, returned: list[Any], placeholders: list[fx.Node]) -> list[Any]:
        """Clone what is an alias of an input, of a constant or of another output."""
        seen = set(map(storage_of, placeholders))
        seen.update(storage_of(n) for n in draft.live if n.op == "get_attr")
        found = []
        for node in returned:
            if storage_of(node) in seen:
                (node,) = self.emit(draft, aten.clone.default, node)
            seen.add(storage_of(node))
            found.append(node)
        return found

    def results(
        self, draft: Draft, target: Any, args: tuple[Any, ...], found: Sequence[torch.Tensor]
    ) -> None:
        self.node(draft, target, args, {}, tuple(map(self.like, found)))

    def returning(self, wanted: Sequence[torch.Tensor]) -> Callable[[Draft, list[fx.Node]], list[Any]]:
        def returns(draft: Draft, placeholders: list[fx.Node]) -> list[Any]:
            found = [self.matching(draft, tensor) for tensor in wanted]
            if len(found) > 1 and alike(wanted[0], wanted[1]) and self.chance(3):
                found[1] = found[0]
            return found

        return returns

    def anything(self, draft: Draft, placeholders: list[fx.Node]) -> list[Any]:
        """Any live tensors without overlaps: copies of others would need memory of another shape."""
        found = [self.pick_float(draft) for _ in range(self.random.randint(1, 3))]
        return [n if is_dense(n.meta["val"]) else self.fresh(draft, self.fake((3, 4))) for n in found]

    def call(self, draft: Draft, depth: int) -> None:
        callee = self.random.choice(self.shared) if self.shared and not self.chance(3) else None
        if callee is None:
            operands = self.operands(draft)
            callee = self.child(operands, list(map(self.may_write, operands)), depth, self.anything)
            self.shared.append(callee)
        else:
            operands = [draft.control]
            for tensor, written in zip(callee.takes[1:], callee.writable[1:], strict=True):
                node = self.matching(draft, tensor)
                operands.append(node if self.may_write(node) or not written else self.fresh(draft, tensor))
        graph = self.attribute(draft, callee.module, "graph")
        if self.chance(4):
            target, args = hop.wrap_with_set_grad_enabled, (False, graph, *operands)
        else:
            target, args = hop.invoke_subgraph, (graph, graph.target, *operands)
        self.results(draft, target, args, callee.returns)

    def verdict(self, draft: Draft) -> fx.Node:
        """Whether one of the control's numbers is above 0, or something in the data is."""
        if self.chance(4):
            (total,) = self.emit(draft, aten.mean.default, self.pick_float(draft))
            (verdict,) = self.emit(draft, aten.gt.Scalar, total, 0.0)
        else:
            number = self.number(draft)
            (verdict,) = self.emit(draft, aten.gt.Scalar, number, 0)
        return verdict

    def number(self, draft: Draft) -> fx.Node:
        which = self.random.randrange(CONTROLS)
        (number,) = self.emit(draft, aten.select.int, draft.control, 0, which)
        draft.live.remove(number)
        return number

    def cond(self, draft: Draft, depth: int) -> None:
        operands = self.operands(draft)
        writable = list(map(self.may_write, operands))
        first = self.child(operands, writable, depth, self.anything)
        second = (
            first if self.chance(8) else self.child(operands, writable, depth, self.returning(first.returns))
        )
        graphs = (self.attribute(draft, c.module, "graph") for c in (first, second))
        args = (self.verdict(draft), *graphs, tuple(operands))
        self.results(draft, hop.cond, args, first.returns)

    def inits(self, draft: Draft, most: int) -> list[fx.Node]:
        picked = [self.pick_float(draft) for _ in range(self.random.randint(0, most))]
        picked = [
            n if n.meta["val"].is_contiguous() else self.fresh(draft, self.fake((3, 4))) for n in picked
        ]
        if not self.mutating:
            return picked
        # Eager passes these by reference: nobody else may look at what the loop writes.
        cloned = [self.emit(draft, aten.clone.default, n)[0] for n in picked]
        draft.live = [n for n in draft.live if n not in cloned]
        return cloned

    def loop(self, draft: Draft, depth: int) -> None:
        (start,) = self.emit(draft, aten.full.default, [], 0, dtype=torch.int64)
        draft.live.remove(start)
        inits = [start, *self.inits(draft, 3)]
        operands = self.operands(draft)
        takes = [*inits, *operands]
        writable = [False, *map(self.may_write, takes[1:])]
        which = self.random.randrange(CONTROLS)

        def go_on(inner: Draft, placeholders: list[fx.Node]) -> list[Any]:
            (limit,) = self.emit(inner, aten.select.int, inner.control, 0, which)
            return self.emit(inner, aten.lt.Tensor, placeholders[0], limit)

        def carry(inner: Draft, placeholders: list[fx.Node]) -> list[Any]:
            (count,) = self.emit(inner, aten.add.Scalar, placeholders[0], 1)
            inner.live.remove(count)
            carried = placeholders[1 : len(inits)]
            if self.chance(3):
                return [count, *carried[1:], *carried[:1]] if all_alike(carried) else [count, *carried]
            return [count, *(self.matching(inner, c.meta["val"]) for c in carried)]

        condition = self.child(takes, writable, 0, go_on, bare=True)
        body = self.child(takes, writable, depth, carry)
        graphs = (self.attribute(draft, c.module, "graph") for c in (condition, body))
        args = (*graphs, tuple(inits), tuple(operands))
        before = len(draft.live)
        self.results(draft, hop.while_loop, args, [n.meta["val"] for n in inits])
        del draft.live[before]  # the count

    def slices(self, draft: Draft) -> list[fx.Node]:
        found = [self.pick(draft, lambda t: t.dtype == torch.float32 and t.dim() > 1 and t.shape[0] == 3)]
        if found[0].meta["val"].dim() < 2:
            found = [self.fresh(draft, self.fake((3, 4)))]
        return found + ([self.fresh(draft, self.fake((3, 2)))] if self.chance(2) else [])

    def scan(self, draft: Draft, depth: int) -> None:
        inits = self.inits(draft, 2)
        slices = self.slices(draft)
        trips = slices[0].meta["val"].shape[0]
        slices = [s for s in slices if s.meta["val"].shape[0] == trips]
        with self.mode:
            parts = [s.meta["val"][0] for s in slices]
        operands = self.operands(draft)
        stacked = [
            self.fake(self.random.choice(((4,), (2,), (3, 4)))) for _ in range(self.random.randint(1, 2))
        ]

        def returns(inner: Draft, placeholders: list[fx.Node]) -> list[Any]:
            carried = placeholders[: len(inits)]
            swapped = carried[1:] + carried[:1]
            if not (self.chance(3) and all_alike(carried)):
                swapped = [self.matching(inner, c.meta["val"]) for c in carried]
            return [*swapped, *(self.matching(inner, tensor) for tensor in stacked)]

        writable = [False] * (len(inits) + len(slices)) + list(map(self.may_write, operands))
        body = self.child([*inits, *parts, *operands], writable, depth, returns)
        graph = self.attribute(draft, body.module, "graph")
        whole = [self.fake((trips, *tensor.shape)) for tensor in stacked]
        carried = [n.meta["val"] for n in inits]
        args = (graph, inits, slices, tuple(operands))
        self.results(draft, hop.scan, args, [*carried, *whole])

    def map(self, draft: Draft, depth: int) -> None:
        slices = self.slices(draft)[:1]
        trips = slices[0].meta["val"].shape[0]
        with self.mode:
            parts = [s.meta["val"][0] for s in slices]
        operands = self.operands(draft)
        stacked = [
            self.fake(self.random.choice(((4,), (2,), (3, 4)))) for _ in range(self.random.randint(1, 2))
        ]
        writable = [False, *map(self.may_write, operands)]
        body = self.child([*parts, *operands], writable, depth, self.returning(stacked))
        graph = self.attribute(draft, body.module, "graph")
        whole = [self.fake((trips, *tensor.shape)) for tensor in stacked]
        self.results(draft, hop.map_impl, (graph, slices, operands), whole)

    def associative_scan(self, draft: Draft, depth: int) -> None:
        """An operator that is associative, whichever way eager PyTorch groups it, and its temporaries."""
        slices = self.slices(draft)
        trips = slices[0].meta["val"].shape[0]
        slices = [s for s in slices if s.meta["val"].shape[0] == trips]
        with self.mode:
            parts = [s.meta["val"][0] for s in slices]

        def combine(inner: Draft, placeholders: list[fx.Node]) -> list[Any]:
            combined = []
            for a, b in zip(placeholders, placeholders[len(parts) : 2 * len(parts)], strict=False):
                if self.chance(2):
                    (found,) = self.emit(inner, aten.maximum.default, a, b)
                else:
                    negated = [self.emit(inner, aten.neg.default, n)[0] for n in (a, b)]
                    (total,) = self.emit(inner, aten.add.Tensor, *negated)
                    (found,) = self.emit(inner, aten.neg.default, total)
                combined.append(found)
            return combined

        takes = [*parts, *parts, draft.control]
        body = self.child(takes, [False] * len(takes), -1, combine)
        graph = self.attribute(draft, body.module, "graph")
        whole = [self.fake(s.meta["val"].shape) for s in slices]
        self.results(draft, hop.associative_scan, (graph, slices, (draft.control,)), whole)


def random_graph(random: Random, **options: Any) -> Case:
    """A random graph and its inputs; see GraphMaker for the options."""
    return GraphMaker(random, **options).make()
