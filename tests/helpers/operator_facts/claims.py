"""What Lowtide claims of the nodes of a program, each tried on real tensors."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from lowtide.frontends.torch_export import Imported
from lowtide.frontends.torch_export.effects import positions_in
from lowtide.ir.program import Step
from lowtide.lifetimes.lowering import lower
from lowtide.operators.aten import out_variant
from lowtide.operators.schemas import schema_holder
from lowtide.replay.undefined import DefineEmpty
from operator_facts.bytes_of import (
    Copies,
    address,
    over,
    places,
    raw,
    same_elements,
    snapshot,
    span,
    tensors_in,
)


@dataclass(frozen=True)
class Fault:
    """A claim that does not hold: which kind of claim, and what was seen instead."""

    kind: str
    text: str


class Trial:
    """One node of the root under trial: its step, its real arguments, and what it really returned.

    Args:
        imported: the program.
        step: the node's step.
        node: the node.
        given: real arguments, positional and named, as they were before.
        allowed: pairs of storages ``(written, read)``: what of the step's ``overwrites`` a plan may use.
    """

    def __init__(
        self,
        imported: Imported,
        step: Step,
        node: fx.Node,
        given: tuple[Any, Any],
        allowed: Sequence[tuple[int, int]],
    ) -> None:
        self.imported, self.step, self.node, self.allowed = imported, step, node, allowed
        self.values = imported.regions[0].values
        self.given = given
        self.before = Copies().of(given)
        self.seed = torch.random.get_rng_state()
        old = snapshot(tensors_in(given))
        self.result = self.settled(self.run(given))
        now = snapshot(tensors_in(given))
        self.changed = {where for where, held in old.items() if not torch.equal(held, now[where])}

    def run(self, given: tuple[Any, Any]) -> Any:
        """Run the node with the random numbers of its first run."""
        torch.random.set_rng_state(self.seed)
        args, kwargs = given
        with DefineEmpty():
            if self.node.op == "call_method":
                return getattr(args[0], str(self.node.target))(*args[1:], **kwargs)
            return self.node.target(*args, **kwargs)  # type: ignore[operator]

    def settled(self, result: Any) -> Any:
        """The result with what is new computed: bits belong to views, wherever a kernel leaves them."""
        given = {address(tensor) for tensor in tensors_in(self.given)}

        def computed(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.layout != torch.strided or address(tensor) in given:
                return tensor
            return tensor.resolve_conj().resolve_neg()

        return pytree.tree_map_only(torch.Tensor, computed, result)

    def roots(self, position: int) -> set[int]:
        """The storages that a value may lie in."""
        value = self.imported.program.values[position]
        found = set() if value.storage is None else {value.storage}
        return found.union(*(self.roots(alias) for alias in value.aliases))

    def arguments(self, *, before: bool = False) -> list[tuple[int, torch.Tensor]]:
        """Positions of the arguments and the real tensors behind them, as they are or copies as they were."""
        positions = positions_in((self.node.args, self.node.kwargs), self.values)
        real = tensors_in(self.before if before else self.given)
        return list(zip(positions, real, strict=True)) if len(positions) == len(real) else []

    def results(self) -> list[tuple[int, torch.Tensor]]:
        """Positions of the results and the real tensors behind them."""
        positions = [p for p in pytree.tree_leaves(self.values.get(self.node)) if isinstance(p, int)]
        real = tensors_in(self.result)
        return list(zip(positions, real, strict=True)) if len(positions) == len(real) else []

    def faults(self) -> Iterator[Fault]:
        """Every claim that does not hold."""
        for check in (self.writes, self.sharing, self.sizes, self.unread, self.overwrites, self.matches):
            for text in check():
                yield Fault(check.__name__, f"{self.node.format_node()}: {text}")

    def writes(self) -> Iterator[str]:
        """Only what the step is said to write has changed."""
        said = set().union(*(self.roots(p) for p in (*self.step.writes, *self.step.partial)))
        for position, real in self.arguments():
            if address(real) in self.changed and not self.roots(position) & said:
                yield f"changes {self.imported.program.values[position].name}"

    def sharing(self) -> Iterator[str]:
        """Results lie where they are said to: in memory of their own, or in an argument's."""
        if len(tensors_in(self.result)) != len(self.results()):
            yield f"returns {len(tensors_in(self.result))} tensors"
        behind: dict[int, set[int]] = {}
        for position, real in self.arguments():
            behind.setdefault(address(real), set()).update(self.roots(position))
        fresh: list[tuple[set[int], str]] = []
        for position, real in self.results():
            value = self.imported.program.values[position]
            if not real.numel():
                continue
            if address(real) in behind:
                if not value.aliases or not behind[address(real)] & self.roots(position):
                    yield f"{value.name} is a view"
            elif value.storage is None:
                yield f"{value.name} is no view"
            else:
                mine = places(real)
                yield from (f"{value.name} overlaps {other}" for theirs, other in fresh if mine & theirs)
                fresh.append((mine, value.name))

    def sizes(self) -> Iterator[str]:
        """What is made fits in the bytes that it is given."""
        for position, real in self.results():
            value = self.imported.program.values[position]
            if value.storage is not None:
                size = self.imported.program.storages[value.storage].size
                if size is not None and span(real) > size:
                    yield f"{value.name} spans {span(real)} bytes of {size}"

    def unread(self) -> Iterator[str]:
        """Bytes that are not read make no difference."""
        read = set().union(*(self.roots(p) for p in self.step.reads))
        arguments = self.arguments(before=True)
        idle = {address(real) for p, real in arguments if not self.roots(p) & read}
        idle -= {address(real) for p, real in arguments if self.roots(p) & read} | {0}
        if not idle:
            return
        given = Copies(poisoned=idle).of(self.before)
        again = self.run(given)
        viewed = {address(t) for t in tensors_in(given)}
        partial = set().union(*(self.roots(p) for p in self.step.partial))
        pairs = zip(self.results(), tensors_in(again), strict=False)
        for (position, want), have in pairs:
            if address(have) in viewed and not self.written(position):
                continue
            if self.roots(position) & partial and self.imported.program.values[position].storage is None:
                continue
            if not same_elements(want, have):
                yield f"{self.imported.program.values[position].name} depends on bytes that are not read"

    def written(self, position: int) -> bool:
        """Whether a result is something that the step has written from end to end."""
        return bool(self.roots(position) & set().union(*(self.roots(p) for p in self.step.writes)))

    def overwrites(self) -> Iterator[str]:
        """The variant with ``out`` computes the same over an argument."""
        found = out_variant(schema_holder(self.node.target)) if self.allowed else None
        for written, read in self.step.overwrites if self.allowed else ():
            assert found is not None
            variant, names = found
            pairs = {(w, r) for w in self.roots(written) for r in self.roots(read)}
            if pairs.isdisjoint(self.allowed):
                continue
            real = dict(self.arguments(before=True))
            copies = Copies()
            args, kwargs = copies.of(self.before)
            results = tensors_in(self.result)
            argument = copies.of(real[read])
            outs = [over(argument, results[0]), *map(torch.empty_like, results[1:])]
            place = outs[0].data_ptr()
            try:
                torch.random.set_rng_state(self.seed)
                variant(*args, **kwargs, **dict(zip(names, outs, strict=True)))
            except RuntimeError as error:
                yield f"{variant} over argument {read} raises: {error}"
                continue
            same = all(map(same_elements, results, outs)) and outs[0].data_ptr() == place
            if not same:
                yield f"{variant} over {self.imported.program.values[read].name} computes something else"

    def matches(self) -> Iterator[str]:
        """What is said to be the same bytes is."""
        real = {**dict(self.arguments()), **dict(self.results())}
        for match in self.step.matches:
            inner, outer = real[match.inner], real[match.outer]
            start = outer.storage_offset() * outer.element_size() + match.distance
            shown = torch.empty(0, dtype=inner.dtype)
            end = start + span(inner)
            if end > outer.untyped_storage().nbytes() or start % inner.element_size():
                yield f"{match} reaches beyond"
                continue
            shown.set_(outer.untyped_storage(), start // inner.element_size(), inner.shape, inner.stride())
            if raw(inner) != raw(shown):
                yield f"{match}: other bytes"


def faults_of(imported: Imported, inputs: list[torch.Tensor]) -> Iterator[Fault]:
    """Run the root of a program node by node on real tensors, and try what is claimed of each."""
    binding = imported.regions[0]
    steps = dict(zip(binding.nodes, imported.program.regions[0].steps, strict=True))
    allowed = {
        binding.nodes[point.step]: point.overwrites
        for point in lower(imported.program).points
        if point.kind == "step" and point.activation == 0
    }
    real: dict[fx.Node, Any] = {}
    given = iter(Copies().of(inputs))
    kept = {entry.node: entry for entry in imported.inputs}
    for node in imported.graph_module.graph.nodes:
        if node.op == "placeholder":
            real[node] = next(given) if kept[node].kind == "user" else kept[node].tensor
        elif node.op == "get_attr":
            real[node] = operator.attrgetter(str(node.target))(imported.graph_module)
        elif node.op == "output":
            return
        else:
            arguments: tuple[Any, Any] = fx.map_arg((node.args, dict(node.kwargs)), real.__getitem__)
            if node in steps:
                trial = Trial(imported, steps[node], node, arguments, allowed[node])
                yield from trial.faults()
                real[node] = trial.result
            else:
                real[node] = node.target(*arguments[0], **arguments[1])
