"""From graph modules to regions: every node becomes a step, calls are followed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from lowtide.base.errors import InputError, UnsupportedError
from lowtide.base.source_lines import source_of
from lowtide.frontends.torch_export import calls
from lowtide.frontends.torch_export.calls import CallSignature
from lowtide.frontends.torch_export.draft import (
    RegionDraft,
    attribute,
    attribute_of,
    called_graph,
    fake_of,
    flat,
    function_name,
    is_lowered,
    method_called,
    module_operands,
    position_of,
    positions_of,
    structured,
)
from lowtide.frontends.torch_export.effects import Effect, EffectFinder, Leaf, positions_in
from lowtide.frontends.torch_export.sharing import NodeSharing, sharing_of
from lowtide.frontends.torch_export.storages import Storages, require_memory
from lowtide.ir.program import Call, Step
from lowtide.ir.request import Request
from lowtide.operators.conjugates import plain
from lowtide.operators.schemas import based_on, schema_holder

if TYPE_CHECKING:
    from lowtide.ir.program import StorageKind


class Walker:
    """Walks a graph and every graph that it calls, callers first.

    Args:
        memory: gets the storages and values.
        options: scratch sizes.
        place_input: makes the value of a root placeholder; given the region, the node and its fake result.
        place_constant: makes the value of a tensor that a graph holds, given its name, fake and real tensor.
        traced: whether the fake results share memory as the real ones do.
    """

    def __init__(
        self,
        memory: Storages,
        options: Request,
        place_input: Callable[[RegionDraft, fx.Node, Any], int | None],
        place_constant: Callable[[str, torch.Tensor, torch.Tensor], int],
        traced: bool,
    ) -> None:
        self.memory = memory
        self.regions: list[RegionDraft] = []
        self.tensors: dict[int, torch.Tensor] = {}
        self.written: set[int] = set()
        self._options = options
        self._place_input = place_input
        self._place_constant = place_constant
        self._finder = EffectFinder(traced)
        self._known: dict[int, int] = {}
        self._constants: dict[int, int] = {}
        self._scratch_users: dict[str, list[str]] = {}
        self._passed: dict[fx.Node, Any] = {}

    def walk(self, module: fx.GraphModule, name: str, kind: str, parent: int | None) -> int:
        """Position of the region of a graph module; one that is called twice is one region."""
        if id(module) in self._known:
            return self._known[id(module)]
        draft = self._open(name, kind, parent, module)
        self._known[id(module)] = draft.position
        for node in module.graph.nodes:
            getattr(self, f"_{node.op}")(draft, node)
        return draft.position

    def _open(self, name: str, kind: str, parent: int | None, module: fx.GraphModule | None) -> RegionDraft:
        draft = RegionDraft(len(self.regions), name, kind, parent, module)
        self.regions.append(draft)
        return draft

    def _placeholder(self, draft: RegionDraft, node: fx.Node) -> None:
        fake = self._passed[node] if node in self._passed else fake_of(draft, node)
        if draft.parent is None:
            fake = plain(fake)
        draft.fakes[node] = fake
        draft.placeholders.append(node)
        if draft.parent is None:
            draft.at[node] = self._place_input(draft, node, fake)
            return
        tensor = fake if isinstance(fake, torch.Tensor) else None
        param = self.memory.parameter(f"{draft.name}/{node.name}", draft.position, tensor)
        draft.params.append(param)
        draft.at[node] = None if tensor is None else param

    def _get_attr(self, draft: RegionDraft, node: fx.Node) -> None:
        attribute = attribute_of(draft, node)
        draft.fakes[node] = attribute
        draft.at[node] = None
        if isinstance(attribute, torch.Tensor):
            if id(attribute) not in self._constants:
                placed = self._place_constant(f"{draft.name}/{node.name}", attribute, attribute)
                self._constants[id(attribute)] = placed
            draft.at[node] = self._constants[id(attribute)]

    def _output(self, draft: RegionDraft, node: fx.Node) -> None:
        draft.outputs = pytree.tree_leaves(node.args[0])
        draft.at[node] = None

    def _call_method(self, draft: RegionDraft, node: fx.Node) -> None:
        self._plain(draft, node, method_called(str(node.target)), f"Tensor.{node.target}")

    def _call_module(self, draft: RegionDraft, node: fx.Node) -> None:
        assert draft.module is not None
        module = draft.module.get_submodule(str(node.target))
        if isinstance(module, fx.GraphModule):
            self._calls(
                draft, node, CallSignature("call", (module,), ("call",), module_operands(node, module))
            )
        elif is_lowered(module):
            self._opaque(draft, node, type(module).__name__, delegate=str(node.target))
        else:
            self._plain(draft, node, module, type(module).__name__)

    def _call_function(self, draft: RegionDraft, node: fx.Node) -> None:
        target = node.target
        if target is operator.getitem and isinstance(draft.fakes.get(node.args[0]), (tuple, list, dict)):
            self._element(draft, node)
        elif (schema := schema_holder(target)) is not None:
            fake = self._marked(draft, node, schema)
            base = based_on(schema, node)
            if base is not None and (position := position_of(draft, base)) is not None:
                self.memory.require_start(node.name, position)
            effect = self._finder.of_operator(node, fake, draft.fakes, draft.at)
            self._step(draft, node, fake, effect, str(schema))
        elif not calls.is_higher_order(node):
            self._plain(draft, node, target, function_name(target))
        elif (called := calls.signature(node)) is not None:
            self._calls(draft, node, called)
        else:
            name = calls.hop_name(node)
            is_delegate = name in calls.DELEGATES
            self._opaque(
                draft, node, name, delegate=str(getattr(node.args[0], "target", name)) if is_delegate else ""
            )

    def _element(self, draft: RegionDraft, node: fx.Node) -> None:
        """One result of a node with several: a name for it, and no step."""
        source, index = node.args
        positions, fakes = draft.at[source], draft.fakes[source]
        draft.fakes[node] = fakes[index]
        draft.at[node] = None if positions is None else positions[index]  # type: ignore[index]

    def _plain(self, draft: RegionDraft, node: fx.Node, function: Any, name: str) -> None:
        fake = self._marked(draft, node, function)
        effect = self._finder.of_function(node, function, fake, draft.fakes, draft.at)
        self._step(draft, node, fake, effect, name)

    def _marked(self, draft: RegionDraft, node: fx.Node, function: Any) -> Any:
        """The fake result of a node that runs a function: all dense memory, with the bits that it has."""
        fake = fake_of(draft, node)
        for leaf in pytree.tree_leaves(fake):
            if isinstance(leaf, torch.Tensor):
                require_memory(f"{draft.name}/{node.name}", leaf)
        return self._finder.marked(node, function, fake, draft.fakes)

    def _opaque(self, draft: RegionDraft, node: fx.Node, name: str, delegate: str = "") -> None:
        """A higher-order operator or a delegate that runs as one step."""
        fake = plain(fake_of(draft, node))
        arguments = tuple(dict.fromkeys(positions_in((node.args, node.kwargs), draft.at)))
        leaves = pytree.tree_leaves(fake)
        if name in calls.PASS_THROUGH:
            effect = Effect(tuple(Leaf(owns=False, aliases=(a,)) for a in arguments))
            if len(arguments) != len(leaves):
                raise UnsupportedError(f"node {node.name!r}: {name} returns what it was not given")
        else:
            written = arguments if name in calls.WRITE_ARGUMENTS else ()
            effects = name in calls.WITH_EFFECTS or bool(written) or not leaves
            effect = Effect(tuple(Leaf() for _ in leaves), arguments, partial=written, effects=effects)
        self._step(draft, node, fake, effect, name, delegate=delegate)

    def _step(
        self, draft: RegionDraft, node: fx.Node, fake: Any, effect: Effect, name: str, delegate: str = ""
    ) -> None:
        """Append the step of a node that runs no graphs, and make its values."""
        source = source_of(node)
        made: list[int] = []
        leaves = iter(effect.leaves)

        def place(path: str, tensor: torch.Tensor, _index: int) -> int:
            leaf = next(leaves)
            position = self.memory.place(path, draft.position, tensor, leaf, "temporary", name, source)
            if leaf.owns:
                made.append(position)
            return position

        draft.fakes[node] = fake
        draft.at[node] = structured(fake, f"{draft.name}/{node.name}", place, lambda: next(leaves))
        operator = schema_holder(node.target)
        sharing = NodeSharing()
        if made and operator is not None:
            sharing = sharing_of(
                node, operator, draft.fakes, draft.at, frozenset(made), frozenset(effect.reads)
            )
        full = [p for p in effect.updates if self.memory.covers(p)]
        partial = [p for p in effect.updates if p not in full] + list(effect.partial)
        self.written.update(effect.updates, effect.partial)
        draft.nodes.append(node)
        draft.steps.append(
            Step(
                name=node.name,
                operator=name,
                reads=effect.reads,
                writes=(*made, *full),
                partial=tuple(dict.fromkeys(partial)),
                scratch=self._scratch(draft, node, delegate),
                effects=effect.effects,
                source=source,
                overwrites=sharing.overwrites,
                matches=sharing.matches,
            )
        )

    def _scratch(self, draft: RegionDraft, node: fx.Node, delegate: str) -> tuple[int, ...]:
        """The storage that a node needs while it runs; a delegate has a region of its own for it."""
        size = node.meta.get("lowtide_scratch_bytes")
        path = f"{draft.name}/{node.name}"
        asked = next((name for name in (path, node.name) if name in self._options.scratch), None)
        if asked is not None:
            size = self._options.scratch[asked]
            self._scratch_users.setdefault(asked, []).append(path)
        owner = draft
        if delegate:
            assert draft.module is not None
            lowered = attribute(draft.module, delegate)
            if size is None:
                size = getattr(lowered, "meta", {}).get("scratch_bytes")
            if id(lowered) not in self._known:
                opened = self._open(f"{draft.name}/{delegate}", "delegate", draft.position, None)
                self._known[id(lowered)] = opened.position
            owner = self.regions[self._known[id(lowered)]]
        if not size:
            return ()
        if type(size) is not int or size < 0:
            raise InputError(f"node {node.name!r}: scratch of {size!r} bytes is not a whole number")
        return (self.memory.scratch(f"{path}/scratch", owner.position, size, source_of(node)),)

    def check_scratch(self) -> None:
        """Refuse scratch for what runs no kernel, or for a name that several nodes have.

        Raises:
            InputError: naming the first such.
        """
        for name in self._options.scratch:
            users = self._scratch_users.get(name, [])
            if not users:
                raise InputError(f"scratch of node {name!r}: no such node runs a kernel or a delegate")
            if len(users) > 1:
                raise InputError(f"scratch of node {name!r}: say which one: {', '.join(users)}")

    def _calls(self, draft: RegionDraft, node: fx.Node, called: CallSignature) -> None:
        """Append the step of a node that runs graphs, and walk them."""
        fake = plain(fake_of(draft, node))
        source = source_of(node)
        carried = len(called.inits)
        name = calls.hop_name(node) if calls.is_higher_order(node) else "call_module"

        def place(path: str, tensor: torch.Tensor, index: int) -> int:
            kind: StorageKind = "carry" if index < carried else "result"
            return self.memory.own(path, draft.position, tensor, kind, (), name, source)

        path = f"{draft.name}/{node.name}"
        for graph in called.graphs:
            self._note_passed(draft, called_graph(draft, graph)[0], called.operands)
        regions = tuple(
            self.walk(*called_graph(draft, graph), role, draft.position)
            for graph, role in zip(called.graphs, called.roles, strict=True)
        )
        draft.fakes[node] = fake
        draft.at[node] = structured(fake, path, place, lambda: None)
        results = tuple(flat(draft.at[node]))
        call = Call(
            kind=called.kind,
            regions=regions,
            operands=positions_of(draft, called.operands),
            carries=results[:carried],
            inits=positions_of(draft, called.inits),
            slices=tuple(p for p in positions_of(draft, called.slices) if p is not None),
            results=results[carried:],
            selector=position_of(draft, called.selector),
        )
        self._bind(node, call, len(called.slices))
        draft.calls[node] = called
        draft.nodes.append(node)
        draft.steps.append(Step(node.name, name, effects=True, call=call, source=source))

    def _note_passed(self, draft: RegionDraft, module: fx.GraphModule, operands: Sequence[Any]) -> None:
        """Tracers leave placeholders of lifted constants bare: what the caller passes says what they hold."""
        if not operands:
            return
        last = module.graph.find_nodes(op="placeholder")[-len(operands) :]
        for placeholder, operand in zip(last, operands, strict=False):
            known = isinstance(operand, fx.Node) and operand in draft.fakes
            if known and not placeholder.meta.keys() & {"val", "example_value"}:
                self._passed[placeholder] = draft.fakes[operand]

    def _bind(self, node: fx.Node, call: Call, slices: int) -> None:
        """Note what the call passes for each parameter, and that the numbers agree."""
        ahead = call.results if call.kind == "associative_scan" else call.carries
        passed = (*ahead, *call.slices, *call.operands)
        for region in call.regions:
            draft = self.regions[region]
            expected = len(call.results) + len(call.carries)
            if call.kind == "while" and draft.kind == "condition":
                expected = 1
            if (
                len(draft.params) != len(passed)
                or len(draft.outputs) != expected
                or slices != len(call.slices)
            ):
                raise UnsupportedError(
                    f"node {node.name!r}: passes {len(passed)} arguments and takes {expected} results, but "
                    f"{draft.name!r} has {len(draft.params)} inputs and {len(draft.outputs)} outputs"
                )
            self.memory.bound += [(p, a) for p, a in zip(draft.params, passed, strict=True) if a is not None]
