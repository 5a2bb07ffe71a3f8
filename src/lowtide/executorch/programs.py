"""From ExecuTorch's graph modules to a Program: the whole tree on one road, as the runtime runs it.

What the runtime really does decides the form (see ``calls``): a cond's result and the matching output of
every branch are one storage, since the runtime moves a pointer; placeholders of branches are parameters
without bytes, since the emitter binds them to the caller's values; a slice is copied into bytes of the body.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

from executorch.exir import memory
from torch import fx

from lowtide.base.constants import ROOT
from lowtide.base.errors import UnsupportedError
from lowtide.base.source_lines import source_of
from lowtide.executorch.arenas import Arenas
from lowtide.executorch.control_flow import ControlFlow, calls_of, control_flow, graph_of
from lowtide.executorch.found import Found
from lowtide.executorch.node_effects import NodeEffect, effect_of
from lowtide.executorch.node_moves import moves
from lowtide.executorch.node_overwrites import overwrites
from lowtide.executorch.specs import (
    Groups,
    dropped_outputs,
    layouts_of,
    mutable_buffers,
    nodes_in,
    outputs_of,
    placeholders_of,
    spec_of,
    specs_of,
)
from lowtide.ir.program import (
    Call,
    Match,
    Program,
    Region,
    Step,
    Storage,
    StorageKind,
    Value,
)


@dataclass(frozen=True)
class PassRequest:
    """What of a module is planned; the options of ExecuTorch's own pass.

    Args:
        alignment: bytes.
        signature: tells mutable buffers from inputs; None if there is none.
        plan_inputs, plan_outputs, plan_state: whether inputs, outputs and mutable buffers get a place.
        device_aware: whether devices have memory of their own.
        allowances: whether to find out what kernels may write over, and which nodes only move bytes.
    """

    alignment: int
    signature: Any
    plan_inputs: bool
    plan_outputs: bool
    plan_state: bool
    device_aware: bool
    allowances: bool = True


@dataclass(frozen=True)
class ImportedModules:
    """A Program and what its parts are in ExecuTorch's graphs.

    Args:
        program: what runs.
        modules: the graph module of each region.
        specs: for each storage, the specs that are it.
        values: for each spec that a node has, the value behind it.
        passed: for each parameter, the values that calls pass for it.
        arenas: memory ids.
    """

    program: Program
    modules: tuple[fx.GraphModule, ...]
    specs: tuple[tuple[Any, ...], ...]
    values: Mapping[Any, int]
    passed: Mapping[int, tuple[int | None, ...]]
    arenas: Arenas

    def storage_of(self, spec: Any) -> int | None:
        """The storage that always holds a spec's tensor; None if there is none, or it depends on the call."""
        value = self.values.get(spec)
        return None if value is None else self._home(value)

    def _home(self, value: int) -> int | None:
        own = self.program.values[value].storage
        if own is not None:
            return own
        homes = {None if v is None else self._home(v) for v in self.passed.get(value, ())}
        return homes.pop() if len(homes) == 1 else None


def import_modules(root: fx.GraphModule, request: PassRequest, groups: Groups) -> ImportedModules:
    """Read a tree of graph modules that is about to be planned.

    Args:
        root: the method's graph module, with specs and ``memory.alloc`` nodes.
        request: what is planned.
        groups: specs that are to be one storage; moved results are added to it.

    Raises:
        UnsupportedError: a node that ExecuTorch's emitter does not know, or one tensor on two devices.
    """
    join_moved(root, groups)
    return _Walker(request, groups).run(root)


def join_moved(module: fx.GraphModule, groups: Groups) -> None:
    """Make the result of every cond, and what its branches return for it, one storage."""
    for node, called in calls_of(module):
        for graph in called.graphs:
            child = graph_of(module, graph)
            if called.kind == "cond":
                for result, output in zip(specs_of(node), outputs_of(child), strict=True):
                    returned = spec_of(output)
                    if result is not None and returned is not None:
                        groups.join(result, returned)
            join_moved(child, groups)


@dataclass
class _Draft:
    """A region while its graph is being walked."""

    position: int
    name: str
    kind: str
    parent: int | None
    module: fx.GraphModule
    params: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[int | None] = field(default_factory=list)

    def freeze(self) -> Region:
        return Region(
            self.name, tuple(self.params), tuple(self.steps), tuple(self.outputs), self.kind, self.parent
        )


class _Walker:
    def __init__(self, request: PassRequest, groups: Groups) -> None:
        self.request, self.groups = request, groups
        self.mutable = mutable_buffers(request.signature)
        self.drafts: list[_Draft] = []
        self.known: dict[int, int] = {}
        self.found: list[Found] = []
        self.home: dict[Any, int] = {}  # leader of a group -> its storage
        self.values: list[Value] = []
        self.value_of: dict[Any, int] = {}
        self.layouts: dict[Any, set[str]] = defaultdict(set)
        self.passed: dict[int, list[int | None]] = defaultdict(list)

    def run(self, root: fx.GraphModule) -> ImportedModules:
        draft = self.open(root, ROOT, "root", None)
        for node in placeholders_of(root):
            self.root_input(draft, node)
        self.walk(draft)
        storages, arenas = self.settle(draft)
        program = Program(tuple(draft.freeze() for draft in self.drafts), tuple(self.values), tuple(storages))
        return ImportedModules(
            program=program,
            modules=tuple(draft.module for draft in self.drafts),
            specs=tuple(found.members for found in self.found),
            values=self.value_of,
            passed={value: tuple(found) for value, found in self.passed.items()},
            arenas=arenas,
        )

    def open(self, module: fx.GraphModule, name: str, kind: str, parent: int | None) -> _Draft:
        draft = _Draft(len(self.drafts), name, kind, parent, module)
        self.drafts.append(draft)
        self.known[id(module)] = draft.position
        for node in module.graph.nodes:
            if node.target is memory.view:  # its tensor is another name for bytes, not how they are filled
                continue
            for spec, layout in zip(specs_of(node), layouts_of(node), strict=True):
                if spec is not None:
                    self.layouts[spec].add(layout)
        return draft

    def layout(self, spec: Any) -> str:
        """How the elements of all nodes that have a spec lie; empty if they do not agree."""
        found = self.layouts.get(spec, set())
        return next(iter(found)) if len(found) == 1 else ""

    # Values and storages.

    def value(
        self,
        draft: _Draft,
        spec: Any,
        name: str,
        kind: StorageKind = "temporary",
        node: fx.Node | None = None,
    ) -> int:
        """The value of a spec; made, with a storage of its own, when it is met first."""
        if spec not in self.value_of:
            leader = self.groups.find(spec)
            if leader not in self.home:
                self.home[leader] = self.storage(draft, leader, f"{draft.name}/{name}", kind, node)
            self.value_of[spec] = self.add(
                Value(f"{draft.name}/{name}", draft.position, self.home[leader], layout=self.layout(spec))
            )
        return self.value_of[spec]

    def storage(self, draft: _Draft, leader: Any, name: str, kind: StorageKind, node: fx.Node | None) -> int:
        self.found.append(Found(self.groups.members(leader), draft.position, name, kind, node))
        return len(self.found) - 1

    def add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def parameter(self, draft: _Draft, node: fx.Node, suffix: str = "") -> int:
        param = self.add(Value(f"{draft.name}/{node.name}{suffix}", draft.position))
        draft.params.append(param)
        return param

    def values_in(self, draft: _Draft, argument: Any) -> list[int]:
        """Values of all tensors in an argument."""
        return [
            self.value(draft, spec, node.name)
            for node in nodes_in(argument)
            for spec in specs_of(node)
            if spec is not None
        ]

    def single(self, draft: _Draft, argument: Any) -> int | None:
        """The value of one argument; None if it is no tensor."""
        spec = spec_of(argument)
        return None if spec is None else self.value(draft, spec, argument.name)

    # Nodes.

    def root_input(self, draft: _Draft, node: fx.Node) -> None:
        spec = spec_of(node)
        if spec is None:
            return
        kind: StorageKind = "input"
        if spec.const:
            kind = "state" if node.meta.get("weight_has_gradient", False) else "constant"
        elif node.target in self.mutable:
            kind = "state"
        value = self.value(draft, spec, node.name, kind)
        if kind == "input":
            draft.params.append(value)

    def walk(self, draft: _Draft) -> None:
        for node in draft.module.graph.nodes:
            if node.op == "get_attr":
                spec = spec_of(node)
                if spec is not None:
                    self.value(draft, spec, node.name, "constant")
            elif node.op == "output":
                draft.outputs = [self.single(draft, output) for output in outputs_of(draft.module)]
            elif node.op == "call_function":
                called = control_flow(node)
                if called is not None:
                    self.call(draft, node, called)
                else:
                    self.step(draft, node)
            elif node.op != "placeholder":
                raise UnsupportedError(
                    f"node {draft.name}/{node.name}: ExecuTorch cannot emit a {node.op} node: "
                    "lower the program with to_edge first"
                )

    def step(self, draft: _Draft, node: fx.Node) -> None:
        effect = effect_of(node)
        if effect is None:
            return
        looking = self.request.allowances
        made = {}
        for i, spec in enumerate(effect.writes):
            if spec not in made:
                name = node.name if len(effect.writes) == 1 else f"{node.name}.{i}"
                made[spec] = self.value(draft, spec, name, node=node)
        draft.steps.append(
            Step(
                name=node.name,
                operator=str(node.target),
                reads=tuple(dict.fromkeys(self.values_in(draft, effect.reads))),
                writes=tuple(made.values()),
                partial=tuple(dict.fromkeys(self.values_in(draft, effect.partial))),
                scratch=tuple(self.scratch(draft, node, effect)),
                effects=not made,
                source=source_of(node),
                overwrites=self.pairs(draft, node, overwrites(node)) if looking else (),
                matches=tuple(
                    Match(*pair, distance)
                    for *specs, distance in (moves(node) if looking else ())
                    for pair in self.pairs(draft, node, [tuple(specs)])
                ),
            )
        )

    def scratch(self, draft: _Draft, node: fx.Node, effect: NodeEffect) -> Iterator[int]:
        """Storages of what a kernel uses while it runs."""
        for i, spec in enumerate(effect.scratch):
            name = f"{node.name}/scratch" if len(effect.scratch) == 1 else f"{node.name}/scratch.{i}"
            self.value(draft, spec, name, "scratch", node)
            yield self.home[self.groups.find(spec)]

    def pairs(
        self, draft: _Draft, node: fx.Node, specs: Iterable[tuple[Any, Any]]
    ) -> tuple[tuple[int, int], ...]:
        """Values of pairs of specs."""
        return tuple((self.value(draft, a, node.name), self.value(draft, b, node.name)) for a, b in specs)

    def call(self, draft: _Draft, node: fx.Node, called: ControlFlow) -> None:
        carried = len(called.inits)
        specs = specs_of(node)
        results: list[int | None] = []
        for i, spec in enumerate(specs):
            kind: StorageKind = "carry" if i < carried else "result"
            name = node.name if len(specs) == 1 else f"{node.name}.{i}"
            results.append(None if spec is None else self.value(draft, spec, name, kind, node))
        operands = tuple(self.single(draft, argument) for argument in (*called.slices, *called.operands))
        call = Call(
            kind=called.kind,
            regions=tuple(self.child(draft, graph, called) for graph in called.graphs),
            operands=operands,
            carries=tuple(results[:carried]),
            inits=tuple(self.single(draft, argument) for argument in called.inits),
            results=tuple(results[carried:]),
            selector=self.single(draft, called.selector),
            order="sequential",
        )
        for region in call.regions:
            for param, passed in zip(self.drafts[region].params, (*call.carries, *operands), strict=True):
                self.passed[param].append(passed)
        draft.steps.append(Step(node.name, str(node.target), effects=True, call=call, source=source_of(node)))

    def child(self, parent: _Draft, graph: fx.Node, called: ControlFlow) -> int:
        """The region of a graph that is called; one that is called twice is one region."""
        module = graph_of(parent.module, graph)
        if id(module) in self.known:
            return self.known[id(module)]
        kind = "branch" if called.kind == "cond" else "body"
        draft = self.open(module, f"{parent.name}/{graph.target}", kind, parent.position)
        first = len(called.inits)
        for i, node in enumerate(placeholders_of(module)):
            if first <= i < first + len(called.slices):
                self.slice(draft, node)
                continue
            param = self.parameter(draft, node)
            spec = spec_of(node)
            if spec is not None:
                self.value_of[spec] = param
        self.walk(draft)
        return draft.position

    def slice(self, draft: _Draft, node: fx.Node) -> None:
        """The placeholder of a slice has bytes of its own, filled at the start of each round."""
        source = self.parameter(draft, node, "/of")
        value = self.value(draft, spec_of(node), node.name, node=node)
        draft.steps.append(
            Step(f"{node.name}/slice", "aten.select_copy.int_out", reads=(source,), writes=(value,))
        )

    def settle(self, root: _Draft) -> tuple[list[Storage], Arenas]:
        """Kind and place of every storage, and whether it is planned, now that all uses are known.

        What the emitter drops from the outputs is still read at the end, but nobody gets it.
        """
        request = self.request
        dropped = dropped_outputs(request.signature)
        returned = {
            self.values[v].storage for i, v in enumerate(root.outputs) if v is not None and i not in dropped
        }
        wanted = {"input": request.plan_inputs, "state": request.plan_state, "constant": False}
        sizes = [found.size(request.alignment) for found in self.found]
        kinds: list[StorageKind] = []
        planned: list[bool] = []
        for position, found in enumerate(self.found):
            kind = found.kind
            wants = sizes[position] is not None and wanted.get(kind, True)
            if position in returned and kind not in ("state", "constant"):
                wants = wants and request.plan_outputs
                kind = kind if kind == "input" else "output"
            kinds.append(kind)
            planned.append(wants)
        deciding = [found.deciding(request.device_aware) for found in self.found]
        arenas = Arenas.of(compress(deciding, planned), request.device_aware)
        storages = [
            Storage(
                name=found.name,
                size=sizes[position],
                kind=kinds[position],
                region=found.region,
                planned=planned[position],
                persistent=kinds[position] == "state",
                alignment=request.alignment,
                arena=arenas.id_of(deciding[position]),
                dtype=str(found.members[0].dtype).removeprefix("torch."),
                shape=tuple(int(d) if isinstance(d, int) else str(d) for d in found.members[0].shape),
                operator=None if found.node is None else str(found.node.target),
                source=None if found.node is None else source_of(found.node),
            )
            for position, found in enumerate(self.found)
        ]
        return storages, arenas
