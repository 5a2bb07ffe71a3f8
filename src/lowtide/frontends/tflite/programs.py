"""A model as a Program: each subgraph a region, each copy that a kernel makes a step.

A tensor has one place however often its subgraph is called, so no parameter is bound anew: every tensor of
every subgraph is a value of the root's. What IF and WHILE copy, tensor after tensor, lies in regions of its
own around the subgraphs that they run:

    IF         a cond of two regions: op inputs to subgraph inputs; the subgraph; its outputs to op outputs
    WHILE      op inputs to the condition's inputs; op inputs to op outputs; a while of the condition, and of
               a region: op outputs to body inputs; the body; its outputs to op outputs; op outputs to the
               condition's inputs
    CALL_ONCE  a cond of the subgraph and of nothing: it runs at the first invocation only

Tensors that nothing is done with have bytes in the arena all the same: they have storages that no step uses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.base.constants import ROOT
from lowtide.base.errors import InputError, UnsupportedError
from lowtide.frontends.tflite.interpreter import ALIGNMENT, lifetimes
from lowtide.frontends.tflite.kernels import overwrites, same_bytes
from lowtide.ir.problem import align_up
from lowtide.ir.program import Call, Match, Program, Region, Step, Storage, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.tflite.interpreter import Scratch
    from lowtide.frontends.tflite.model import Model, Operator
    from lowtide.ir.program import StorageKind


_ETHOS_U = "ethos-u"

_REMEMBERING = re.compile(r".*VARIABLE|VAR_HANDLE|CALL_ONCE|HASHTABLE.*|RANDOM.*|MULTINOMIAL|.*_RNG_.*")
"""Operators whose results depend on more than what they read, or that change more than what they write."""


@dataclass(frozen=True)
class Imported:
    """A model as a Program.

    Args:
        program: what runs.
        tensors: the storage's name of each tensor in the arena, by number through all subgraphs.
        scratch: the storage's name of each request, in the order given; None where it never runs.
        unused: names of the storages that no step uses.
    """

    program: Program
    tensors: dict[int, str]
    scratch: tuple[str | None, ...]
    unused: tuple[str, ...]


def program_of(
    model: Model, scratch: Sequence[Scratch] = (), *, apart: frozenset[int] = frozenset()
) -> Imported:
    """The program that a model is.

    Args:
        model: what runs.
        scratch: what its kernels ask for.
        apart: tensors, numbered through all subgraphs, that must not share bytes with what they are made of.

    Raises:
        InputError: a call does not fit its subgraphs.
        UnsupportedError: a subgraph calls itself, a tensor is read before anything is written to it, or an
            operator is compiled for the offsets that it has.
    """
    if any(operator.name == _ETHOS_U for graph in model.subgraphs for operator in graph.operators):
        raise UnsupportedError(
            f"{model.name}: has commands for an Ethos-U, which count on the offsets that they were compiled "
            "with: leave it as it is"
        )
    lifetimes(model)  # refuses calls without end, or too many
    return _Importer(model, scratch, apart).run()


class _Importer:
    def __init__(self, model: Model, scratch: Sequence[Scratch], apart: frozenset[int]) -> None:
        self.model, self.requests, self.apart = model, scratch, apart
        self.asked: dict[tuple[int, int], list[int]] = {}
        for i, request in enumerate(scratch):
            self.asked.setdefault((request.subgraph, request.operator), []).append(i)
        self.scratch: list[str | None] = [None] * len(scratch)
        self.regions: list[Region | None] = []
        self.region_of: dict[int, int] = {}
        self.names: set[str] = set()
        self.values: list[Value] = []
        self.storages: list[Storage] = []
        self.value_of: dict[int, int] = {}
        self.lonely: set[int] = set()
        self.unused: list[str] = []
        self.given: list[int] = []  # values that nothing writes: they have content before anything runs

    def run(self) -> Imported:
        self.subgraph(0, None)
        self.add_unused()
        regions = [region for region in self.regions if region is not None]
        root = self.model.subgraphs[0]
        params = dict.fromkeys((*self.seen(0, root.inputs), *self.given))
        outputs = tuple(self.value_of.get(tensor) for tensor in root.outputs)
        regions[0] = replace(regions[0], params=tuple(params), outputs=outputs)
        program = Program(tuple(regions), tuple(self.values), tuple(self.storages), name=self.model.name)
        names = {tensor: self.values[value].name for tensor, value in self.value_of.items()}
        return Imported(program, names, tuple(self.scratch), tuple(self.unused))

    def unique(self, name: str) -> str:
        """The name, or one like it that nothing else has."""
        shown = name if name.isprintable() else ascii(name)
        found, count = shown, 1
        while found in self.names:
            count += 1
            found = f"{shown}#{count}"
        self.names.add(found)
        return found

    def region(self, name: str, kind: str, parent: int | None) -> int:
        """Position of a new region, without steps."""
        self.regions.append(Region(self.unique(name), (), (), (), kind, parent))
        return len(self.regions) - 1

    def fill(self, region: int, steps: Sequence[Step], outputs: tuple[int | None, ...] = ()) -> int:
        """Give a region its steps, under names of their own."""
        found = self.regions[region]
        assert found is not None
        self.regions[region] = replace(found, steps=tuple(steps), outputs=outputs)
        return region

    def seen(self, subgraph: int, tensors: Sequence[int]) -> tuple[int, ...]:
        """Values of those tensors of a subgraph that have a place in the arena."""
        base = self.model.bases[subgraph]
        found = (self.value_of.get(base + tensor) for tensor in tensors if tensor >= 0)
        return tuple(value for value in found if value is not None)

    def subgraph(self, position: int, parent: int | None) -> int:
        """The region of a subgraph, which is made at its first call."""
        if position in self.region_of:
            return self.region_of[position]
        graph = self.model.subgraphs[position]
        name = ROOT if parent is None else f"{self.name_of(parent)}/{graph.name}"
        region = self.region(name, "root" if parent is None else "call", parent)
        self.region_of[position] = region
        self.add_tensors(position, region)
        steps: list[Step] = []
        for i, operator in enumerate(graph.operators):
            label = f"{i} {operator.name}"
            if operator.calls:
                steps += getattr(self, f"call_{operator.name.lower()}")(position, operator, region, label)
            else:
                steps.append(self.step(position, i, operator, region, label))
        return self.fill(region, steps)

    def name_of(self, region: int) -> str:
        found = self.regions[region]
        assert found is not None
        return found.name

    def add_tensors(self, position: int, region: int) -> None:
        """Values and storages of a subgraph's tensors, as far as they lie in the arena and are of use."""
        graph, base = self.model.subgraphs[position], self.model.bases[position]
        makers: dict[int, Operator] = {}
        for operator in graph.operators:
            makers |= {tensor: operator for tensor in operator.outputs if tensor not in makers}
        read = {tensor for operator in graph.operators for tensor in operator.inputs} | set(graph.outputs)
        handed = set(graph.inputs)
        for i, tensor in enumerate(graph.tensors):
            used = i in read or i in makers or i in handed
            if base + i not in self.model.arena_tensors or not used:
                continue
            given = i not in makers and (position == 0 or i not in handed)
            maker = makers.get(i)
            kind: StorageKind = "temporary"
            if given or (position == 0 and i in handed):
                kind = "input"
            elif position == 0 and i in graph.outputs:
                kind = "output"
            elif maker is not None and maker.calls:
                kind = "carry" if maker.name == "WHILE" else "result"
            name = self.unique(f"{self.name_of(region)}/{tensor.name or f'tensor{i}'}")
            storage = Storage(
                name,
                align_up(tensor.size, ALIGNMENT),
                kind,
                region,
                alignment=ALIGNMENT,
                dtype=tensor.type.lower(),
                shape=tensor.shape,
                operator=None if maker is None else maker.name,
            )
            self.value_of[base + i] = len(self.values)
            if given:
                self.given.append(len(self.values))
            if base + i in self.apart:
                self.lonely.add(len(self.values))
            # All values are the root's: a tensor is the same bytes in every activation of its subgraph.
            self.values.append(Value(name, storage=len(self.storages), layout=str(tensor.size)))
            self.storages.append(storage)
        self.check_order(position, makers)

    def add_unused(self) -> None:
        """Storages of tensors that nothing is done with."""
        for i, tensor in enumerate(self.model.tensors):
            if i not in self.model.arena_tensors or i in self.value_of:
                continue
            name = self.unique(f"{ROOT}/{tensor.name or f'tensor{i}'}")
            self.value_of[i] = len(self.values)
            self.unused.append(name)
            self.values.append(Value(name, storage=len(self.storages), layout=str(tensor.size)))
            size, dtype = align_up(tensor.size, ALIGNMENT), tensor.type.lower()
            self.storages.append(
                Storage(name, size, "temporary", 0, alignment=ALIGNMENT, dtype=dtype, shape=tensor.shape)
            )

    def check_order(self, position: int, makers: dict[int, Operator]) -> None:
        """Refuse what would read what an invocation before this one has left."""
        graph = self.model.subgraphs[position]
        made = set(graph.inputs)
        for i, operator in enumerate(graph.operators):
            for tensor in operator.inputs:
                if tensor in makers and tensor not in made and self.seen(position, (tensor,)):
                    raise UnsupportedError(
                        f"{self.model.name}: operator {i} ({operator.name}) of subgraph {graph.name!r} reads "
                        f"tensor {tensor} before it is written: it cannot be planned"
                    )
            made.update(operator.outputs)

    def step(self, subgraph: int, i: int, operator: Operator, region: int, label: str) -> Step:
        scratch = []
        for request in self.asked.get((subgraph, i), ()):
            name = self.unique(f"{self.name_of(region)}/{label} scratch")
            self.scratch[request] = name
            scratch.append(len(self.storages))
            size = align_up(self.requests[request].size, ALIGNMENT)
            self.storages.append(Storage(name, size, "scratch", region, alignment=ALIGNMENT))
        over, matches = self.permissions(subgraph, operator)
        return Step(
            label,
            operator.name,
            reads=self.seen(subgraph, operator.inputs),
            writes=self.seen(subgraph, operator.outputs),
            scratch=tuple(scratch),
            effects=self.keeps_state(subgraph, operator),
            overwrites=over,
            matches=matches,
        )

    def keeps_state(self, subgraph: int, operator: Operator) -> bool:
        """Whether an operator reads or writes what no tensor of the arena holds, or may do so."""
        tensors = self.model.subgraphs[subgraph].tensors
        used = (*operator.inputs, *operator.outputs)
        return (
            operator.custom
            or not operator.outputs
            or _REMEMBERING.fullmatch(operator.name) is not None
            or any(tensors[i].variable for i in used if i >= 0)
        )

    def permissions(
        self, subgraph: int, operator: Operator
    ) -> tuple[tuple[tuple[int, int], ...], tuple[Match, ...]]:
        """What the reference kernel of an operator allows, in values."""
        tensors = self.model.subgraphs[subgraph].tensors

        def free(*pair: int) -> tuple[int, ...]:
            found = self.seen(subgraph, pair)
            apart = len(set(found)) == 2 and self.lonely.isdisjoint(found)
            return found if apart else ()

        over = [(pair[0], pair[1]) for found in overwrites(operator, tensors) if (pair := free(*found))]
        matches = [
            Match(pair[0], pair[1], distance)
            for inner, outer, distance in same_bytes(operator, tensors)
            if (pair := free(inner, outer))
        ]
        return tuple(over), tuple(matches)

    # Operators that run subgraphs.

    def call_if(self, subgraph: int, operator: Operator, region: int, label: str) -> list[Step]:
        if not operator.inputs or operator.inputs[0] < 0:
            raise self.unfit(subgraph, label, "has no condition")
        branches = []
        for callee, word in zip(operator.calls, ("then", "else"), strict=True):
            graph = self.model.subgraphs[callee]
            branch = self.region(f"{self.name_of(region)}/{label}/{word}", "branch", region)
            inner = self.subgraph(callee, branch)
            steps = [
                *self.copies(subgraph, operator.inputs[1:], callee, graph.inputs, label),
                Step("call", "call", call=Call("call", (inner,))),
                *self.copies(callee, graph.outputs, subgraph, operator.outputs, label),
            ]
            branches.append(self.fill(branch, _numbered(steps)))
        selector = self.seen(subgraph, operator.inputs[:1])
        call = Call("cond", tuple(branches), selector=selector[0] if selector else None)
        return [Step(label, operator.name, call=call)]

    def call_while(self, subgraph: int, operator: Operator, region: int, label: str) -> list[Step]:
        condition, body = operator.calls
        asks, runs = self.model.subgraphs[condition], self.model.subgraphs[body]
        if not asks.outputs:
            raise self.unfit(subgraph, label, "has a condition without output")
        path = f"{self.name_of(region)}/{label}"
        test = self.region(f"{path}/condition", "condition", region)
        tested = self.subgraph(condition, test)
        verdict = self.seen(condition, asks.outputs[:1])
        self.fill(test, [Step("call", "call", call=Call("call", (tested,)))], (verdict or (None,)))
        turn = self.region(f"{path}/body", "body", region)
        inner = self.subgraph(body, turn)
        steps = [
            *self.copies(subgraph, operator.outputs, body, runs.inputs, label),
            Step("call", "call", call=Call("call", (inner,))),
            *self.copies(body, runs.outputs, subgraph, operator.outputs, label),
            *self.copies(subgraph, operator.outputs, condition, asks.inputs, label),
        ]
        self.fill(turn, _numbered(steps))
        before = [
            *self.copies(subgraph, operator.inputs, condition, asks.inputs, label),
            *self.copies(subgraph, operator.inputs, subgraph, operator.outputs, label),
        ]
        loop = Step(label, operator.name, call=Call("while", (test, turn)))
        return [*(replace(step, name=f"{label} {step.name}") for step in _numbered(before)), loop]

    def call_call_once(self, subgraph: int, operator: Operator, region: int, label: str) -> list[Step]:
        if operator.inputs or operator.outputs or self.model.subgraphs[operator.calls[0]].inputs:
            raise self.unfit(subgraph, label, "has inputs or outputs")
        path = f"{self.name_of(region)}/{label}"
        first = self.region(f"{path}/first", "branch", region)
        inner = self.subgraph(operator.calls[0], first)
        self.fill(first, [Step("call", "call", call=Call("call", (inner,)))])
        later = self.region(f"{path}/later", "branch", region)
        return [Step(label, operator.name, call=Call("cond", (first, later)))]

    def copies(
        self, source: int, sources: Sequence[int], target: int, targets: Sequence[int], label: str
    ) -> list[Step]:
        """Steps that copy tensor after tensor between two subgraphs, none where both are the same."""
        graphs = self.model.subgraphs
        if len(sources) != len(targets):
            raise self.unfit(source, label, f"passes {len(sources)} tensors for {len(targets)}")
        steps = []
        for a, b in zip(sources, targets, strict=True):
            if a < 0 or graphs[source].tensors[a].size != graphs[target].tensors[b].size:
                raise self.unfit(source, label, "passes a tensor for another of another size")
            read, written = self.seen(source, (a,)), self.seen(target, (b,))
            if read == written:
                continue
            pairs = (
                tuple(zip(written, read, strict=False)) if self.lonely.isdisjoint((*read, *written)) else ()
            )
            steps.append(
                Step(
                    "copy",
                    "copy",
                    reads=read,
                    writes=written,
                    overwrites=pairs,
                    matches=tuple(Match(*pair) for pair in pairs),
                )
            )
        return steps

    def unfit(self, subgraph: int, label: str, what: str) -> InputError:
        graph = self.model.subgraphs[subgraph].name
        return InputError(
            f"{self.model.name}: operator {label} near subgraph {graph!r} {what}: convert it again"
        )


def _numbered(steps: Sequence[Step]) -> list[Step]:
    """Steps whose names are unique among them."""
    return [replace(step, name=f"{i} {step.name}") for i, step in enumerate(steps)]
