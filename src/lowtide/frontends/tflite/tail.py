"""What the interpreter keeps in the arena's tail, allocation by allocation, and what it needs while it plans.

It takes memory from the arena's end downwards when it starts: for its own objects, for every tensor and
operator of every subgraph, for what kernels keep (``kernel_data``), for variables, and last for inputs and
outputs. As in ``micro_allocator.cc`` and ``micro_interpreter.cc`` of August 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.frontends.tflite.interpreter import ALIGNMENT
from lowtide.frontends.tflite.kernel_data import kept_by, made_while_prepared
from lowtide.frontends.tflite.metadata import ONLINE
from lowtide.ir.problem import align_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.frontends.tflite.interpreter import Scratch, Simulation
    from lowtide.frontends.tflite.model import Model, Operator, Tensor
    from lowtide.frontends.tflite.targets import Target

_REQUESTS = 12
"""Room for so many requests is kept for the next operator: ``kMaxScratchBuffersPerOp``."""

_PLANNED_BYTES = 40
"""Of the greedy planner's tables for each buffer that it places, on every target."""


@dataclass(frozen=True)
class Tail:
    """An arena's tail.

    Args:
        parts: bytes by what they are for, gaps for alignment included.
        counts: how many allocations these are.
        unknown: names of operators whose kernels may keep bytes that are not counted.
        planning: bytes of the whole arena that the interpreter needs while it plans.
    """

    parts: dict[str, int]
    counts: dict[str, int]
    unknown: tuple[str, ...]
    planning: int

    @property
    def bytes(self) -> int:
        """All of it."""
        return sum(self.parts.values())

    def arena(self, head: int) -> int:
        """The least bytes of an arena with such a head, as far as the parts are known.

        In a model of a few operators, kernels may need more for a moment while they are prepared.
        """
        return align_up(max(head + self.bytes, self.planning), ALIGNMENT)


def tail_of(
    model: Model,
    arena: Simulation,
    offsets: Sequence[int] | None,
    scratch: Sequence[Scratch],
    target: Target,
) -> Tail:
    """The tail of a model's arena on a target.

    Args:
        model: what runs.
        arena: as the interpreter lays it out.
        offsets: that the model carries, if any.
        scratch: what its kernels ask for.
        target: how large structures are.
    """
    stack = _Stack()
    stack.put("interpreter", target.arena, target.word)
    stack.put("interpreter", target.planner, target.word)
    stack.put("interpreter", target.allocator, target.word)
    resources = {operator.resource for operator in _operators(model) if operator.resource is not None}
    if resources:
        stack.put("resources", target.resources)
        stack.put("resources", target.resource * len(resources))
    stack.put("interpreter", target.options, target.word)
    stack.put("interpreter", target.subgraph * len(model.subgraphs), target.word)
    for graph in model.subgraphs:
        stack.put("tensors", target.tensor * len(graph.tensors), target.word)
    for graph in model.subgraphs:
        stack.put("operators", target.node * len(graph.operators), target.word)
    unknown = _put_kernels(stack, model, target)
    if scratch:
        stack.put("scratch handles", target.handle * len(scratch), target.word)
    for size in _variables(model, offsets):
        stack.put("variables", size)
    requests = target.request * (_REQUESTS + len(scratch))
    infos = target.info * (model.tensor_count + len(scratch))
    tables = align_up(requests + target.word * len(model.subgraphs) + infos, ALIGNMENT)
    planned = _PLANNED_BYTES * (len(arena.tensors) + len(scratch))
    planning = align_up(tables + planned + align_up(stack.bytes, ALIGNMENT), ALIGNMENT)
    for tensors in (model.subgraphs[0].inputs, model.subgraphs[0].outputs):
        stack.put("inputs and outputs", target.word * len(tensors))
        for tensor in tensors:
            _put_outer(stack, model.subgraphs[0].tensors[tensor], target)
    return Tail(stack.parts, stack.counts, unknown, planning)


class _Stack:
    """Grows downwards from the arena's end."""

    def __init__(self) -> None:
        self.bytes = 0
        self.parts: dict[str, int] = {}
        self.counts: dict[str, int] = {}

    def put(self, what: str, size: int, alignment: int = ALIGNMENT) -> None:
        """Take so many bytes, so that they begin at a multiple of the alignment."""
        before, self.bytes = self.bytes, align_up(self.bytes + size, alignment)
        self.parts[what] = self.parts.get(what, 0) + self.bytes - before
        self.counts[what] = self.counts.get(what, 0) + 1


def _put_kernels(stack: _Stack, model: Model, target: Target) -> tuple[str, ...]:
    """What operators are told, then what kernels open with, then what they make when they are prepared."""
    found = [(operator.name, kept_by(operator, target)) for operator in _operators(model)]
    for _, kept in found:
        if kept is not None and kept.options:
            stack.put("operators", kept.options, kept.alignment)
    for _, kept in found:
        if kept is not None and kept.state:
            stack.put("kernels", kept.state)
    handles: dict[tuple[int, int], tuple[str, str]] = {}
    held: set[tuple[str, str]] = set()
    for i, graph in enumerate(model.subgraphs):
        for operator in graph.operators:
            if operator.resource is not None:
                handles |= {(i, tensor): operator.resource for tensor in operator.outputs}
            if operator.name == "ASSIGN_VARIABLE":
                resource = handles.get((i, operator.inputs[0]))
                if resource is not None and resource not in held:
                    held.add(resource)
                    stack.put("resources", graph.tensors[operator.inputs[1]].size)
            for size in made_while_prepared(operator, graph.tensors, target):
                stack.put("kernels", size)
    return tuple(dict.fromkeys(name for name, kept in found if kept is None))


def _put_outer(stack: _Stack, tensor: Tensor, target: Target) -> None:
    """An input or an output as firmware sees it."""
    stack.put("inputs and outputs", target.outer, target.word)
    if tensor.scales:
        stack.put("inputs and outputs", target.quantization, target.word)
        stack.put("inputs and outputs", 4 + 4 * tensor.scales, 4)


def _operators(model: Model) -> Iterator[Operator]:
    for graph in model.subgraphs:
        yield from graph.operators


def _variables(model: Model, offsets: Sequence[int] | None) -> Iterator[int]:
    """Bytes of the variables that lie in the tail: the interpreter asks by the position in the subgraph."""
    for graph in model.subgraphs:
        for i, tensor in enumerate(graph.tensors):
            if tensor.variable and (offsets is None or offsets[i] == ONLINE):
                yield tensor.size
