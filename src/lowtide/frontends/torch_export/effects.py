"""What a node does to memory: what it reads, writes, makes and aliases.

An operator declares it (``lowtide.operators.schemas.roles``). Where that leaves a
question, a run on fake tensors answers it (``probe``); where even that cannot, the result has memory of
its own *and* may alias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from lowtide.base.errors import UnsupportedError
from lowtide.frontends.torch_export.probe import Observation, Prober
from lowtide.operators.conjugates import PLAIN, may_be_lazy, plain, with_bits
from lowtide.operators.schemas import (
    may_return_arguments,
    roles,
    schema_arguments,
    schema_holder,
    signature_of,
)
from lowtide.operators.sizes import has_memory

if TYPE_CHECKING:
    from lowtide.frontends.torch_export.bindings import Position


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where one tensor of a node's result lies: in memory of its own, in other values', or either."""

    owns: bool = True
    aliases: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Effect:
    """What a node does.

    Args:
        leaves: one entry a leaf of the fake result (``pytree.tree_leaves``), tensor or not.
        reads: values whose bytes it reads.
        updates: values that it writes without looking at the old bytes: ``out=``, ``copy_``, ``fill_``.
        partial: values that it changes in place.
        effects: whether it must run even if nobody reads its result.
    """

    leaves: tuple[Leaf, ...]
    reads: tuple[int, ...] = ()
    updates: tuple[int, ...] = ()
    partial: tuple[int, ...] = ()
    effects: bool = False


def positions_in(argument: Any, at: Mapping[fx.Node, Position]) -> list[int]:
    """Positions of all tensors in an argument, in order."""
    found: list[int] = []

    def visit(leaf: Any) -> None:
        if isinstance(leaf, fx.Node):
            visit(at[leaf])
        elif isinstance(leaf, int) and not isinstance(leaf, bool):
            found.append(leaf)
        elif isinstance(leaf, tuple):
            for item in leaf:
                visit(item)
        elif isinstance(leaf, dict):
            for item in leaf.values():
                visit(item)

    for leaf in pytree.tree_leaves(argument):
        if isinstance(leaf, fx.Node):
            visit(leaf)
    return found


class EffectFinder:
    """Finds what nodes do; remembers what runs on fake tensors showed.

    Args:
        traced: whether the fake results are those of the trace, memory included; see ``is_traced``.
    """

    def __init__(self, traced: bool) -> None:
        self._prober = Prober()
        self._traced = traced

    def of_operator(
        self, node: fx.Node, fake: Any, fakes: Mapping[fx.Node, Any], at: Mapping[fx.Node, Position]
    ) -> Effect:
        """What an ``OpOverload`` does, by its schema first.

        Raises:
            UnsupportedError: it changes where a tensor's memory is.
        """
        operator = schema_holder(node.target)
        _refuse_resizing(node, operator)
        given = schema_arguments(operator, node.args, node.kwargs)
        reads: list[int] = []
        updates: list[int] = []
        partial: list[int] = []
        viewed: list[int] = []
        by_set: dict[str, list[int]] = {}
        for argument, value, role in roles(operator, given):
            positions = positions_in(value, at)
            for letter in argument.alias if positions else ():
                by_set.setdefault(letter, []).extend(positions)
            if role in ("out", "filled"):
                updates += positions
            elif role == "viewed":
                viewed += positions
            elif role == "changed":
                partial += positions
            if role in ("read", "changed"):
                reads += positions
        leaves = self._leaves(node, fake, fakes, at, by_set)
        if any(leaf.owns for leaf in leaves) or not leaves:
            reads += viewed
        return Effect(
            leaves=tuple(leaves),
            reads=_unique(reads),
            updates=_unique(updates),
            partial=_unique(partial),
            effects=not operator._schema.returns or torch.Tag.nondeterministic_seeded in operator.tags,
        )

    def marked(
        self, node: fx.Node, function: Callable[..., Any], fake: Any, fakes: Mapping[fx.Node, Any]
    ) -> Any:
        """The fake result with its conjugate and negative bits, which a file does not keep.

        Only views have them: what is made anew holds its elements as they are.
        """
        given = pytree.tree_leaves(fx.map_arg((node.args, node.kwargs), lambda n: fakes[n]))
        if function is not torch.ops.aten._neg_view.default and not any(map(may_be_lazy, given)):
            return plain(fake)
        leaves, spec = pytree.tree_flatten(fake)
        seen = self._prober.observe(node, function, fakes)
        if seen is None or len(seen.bits) != len(leaves):
            return fake
        found: list[Any] = []
        for leaf, bits, aliases in zip(leaves, seen.bits, seen.aliases, strict=True):
            found.append(with_bits(leaf, bits if aliases else PLAIN) if _is_tensor(leaf) else leaf)
        return pytree.tree_unflatten(found, spec)

    def of_function(
        self,
        node: fx.Node,
        function: Callable[..., Any],
        fake: Any,
        fakes: Mapping[fx.Node, Any],
        at: Mapping[fx.Node, Position],
    ) -> Effect:
        """What a Python function, method or module does, which has no schema: seen by running it.

        Raises:
            UnsupportedError: it does not run on fake tensors.
        """
        arguments = positions_in((node.args, node.kwargs), at)
        leaves = pytree.tree_leaves(fake)
        if not arguments:  # arithmetic on sizes has no effects; what returns nothing is called for them
            return Effect(tuple(Leaf() for _ in leaves), effects=all(leaf is None for leaf in leaves))
        seen = self._prober.observe(node, function, fakes)
        if seen is None or len(seen.aliases) != len(leaves):
            raise UnsupportedError(
                f"node {node.name!r}: {node.target!r} does not run on fake tensors, so what it aliases and "
                "writes is not known: export the program with torch.export.export"
            )
        aliases = [_of_observation(seen, i, arguments) for i in range(len(leaves))]
        written = _unique(arguments[i] for i in sorted(seen.written))
        read = _unique(arguments[i] for i in sorted(seen.read))
        effects = bool(written) or not any(map(_is_tensor, leaves))
        return Effect(tuple(aliases), read, partial=written, effects=effects)

    def _leaves(
        self,
        node: fx.Node,
        fake: Any,
        fakes: Mapping[fx.Node, Any],
        at: Mapping[fx.Node, Position],
        by_set: Mapping[str, list[int]],
    ) -> list[Leaf]:
        """Where each tensor of the result lies; the schema's answer, or the probe's if that is open."""
        operator = schema_holder(node.target)
        returns = signature_of(operator).returns
        if not returns:
            return [Leaf()] * len(pytree.tree_leaves(fake))
        results = [fake] if len(returns) == 1 else list(fake or ())
        found: list[Leaf] = []
        probed: Observation | None = None
        for declared, result in zip(returns, results, strict=True):
            count = len(pytree.tree_leaves(result))
            candidates = _unique(p for letter in sorted(declared.alias) for p in by_set.get(letter, ()))
            sure = not _may_decide_at_run(operator) or declared.is_write
            if not sure and self._traced and torch.Tag.maybe_aliasing_or_mutating not in operator.tags:
                # The trace has run it: only ``dropout`` and its like are traced as what they are not.
                sure = not declared.alias and not _shares_memory(result, node, fakes)
            if sure or not any(map(_is_tensor, pytree.tree_leaves(result))):
                found += [Leaf(owns=len(candidates) != 1, aliases=candidates)] * count
                continue
            if probed is None:
                probed = self._prober.observe(node, operator, fakes)
            arguments = positions_in((node.args, node.kwargs), at)
            if probed is None:
                found += [Leaf(owns=True, aliases=candidates or _unique(arguments))] * count
                continue
            first = len(found)
            found += [_of_observation(probed, first + i, arguments) for i in range(count)]
        return found


def is_traced(modules: Iterable[fx.GraphModule]) -> bool:
    """Whether fake results share memory as the real ones do.

    A trace in this process leaves them so; they are not after a file was read. Every operator that is
    a view for sure is a witness; without any witness the answer is no.
    """
    witnesses = 0
    for module in modules:
        for node in module.graph.nodes:
            operator = schema_holder(node.target)
            if operator is None or _may_decide_at_run(operator):
                continue
            returns = signature_of(operator).returns
            if len(returns) == 1 and returns[0].alias:
                fakes = {n: n.meta.get("val") for n in node.all_input_nodes}
                if not _shares_memory(node.meta.get("val"), node, fakes):
                    return False
                witnesses += 1
    return witnesses > 0


def _shares_memory(result: Any, node: fx.Node, fakes: Mapping[fx.Node, Any]) -> bool:
    """Whether any tensor of a fake result shares memory with one of the node's fake arguments."""
    passed = [leaf for n in node.all_input_nodes for leaf in pytree.tree_leaves(fakes[n])]
    mine, theirs = _memories([result]), _memories(passed)
    return not mine.isdisjoint(theirs)


def _memories(fakes: Any) -> set[int]:
    tensors = (t for t in pytree.tree_leaves(fakes) if _is_tensor(t) and has_memory(t))
    return {t.untyped_storage()._cdata for t in tensors}


def _of_observation(seen: Observation, leaf: int, arguments: list[int]) -> Leaf:
    aliases = seen.aliases[leaf]
    return Leaf(owns=not aliases, aliases=(arguments[aliases[0]],) if aliases else ())


def _refuse_resizing(node: fx.Node, operator: torch._ops.OpOverload) -> None:
    name = operator._schema.name
    if name in ("aten::resize_", "aten::resize_as_", "aten::set_"):
        raise UnsupportedError(
            f"node {node.name!r}: {name} moves or grows a tensor's memory, which no plan can follow: "
            "make a new tensor instead"
        )


@cache
def _may_decide_at_run(operator: torch._ops.OpOverload) -> bool:
    """Whether the operator may or may not alias, whatever its schema says: composite ones may."""
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd")
    tagged = torch.Tag.maybe_aliasing_or_mutating in operator.tags
    return bool(tagged or composite or may_return_arguments(operator))


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def _unique(positions: Any) -> tuple[int, ...]:
    return tuple(dict.fromkeys(positions))
