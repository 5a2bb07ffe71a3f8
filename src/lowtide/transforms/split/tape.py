"""What runs in place of a segment, as a list: slices of what comes in, steps on them, padding, and the joins.

The judge counts the bytes that are alive along the tape, and the writer makes nodes of it: what is judged is
what is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from typing import Any

from torch import fx

from lowtide.transforms.split.rules import Part, Take, shape_of
from lowtide.transforms.split.segments import PartPlan, Run, Segment


@dataclass(frozen=True, slots=True)
class Ref:
    """The result of an earlier entry of the tape."""

    place: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One call.

    Args:
        kind: ``run`` (a step, for a slice), ``slice``, ``pad``, ``spread`` (the first part, put where it lies
            in a whole that is not there yet), ``scatter`` (another part, put into that whole), or ``join``.
        node: the step that this is a part of, or whose result is moved.
        maker: the step on whose behalf it is done, whose stack trace and debug handle it takes.
        args, kwargs: of the call; nodes outside of the segment stand as themselves.
        shape: of the first result.
        reads: all operands, in order.
    """

    kind: str
    node: fx.Node
    maker: fx.Node
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shape: tuple[int, ...]
    reads: tuple[Ref | fx.Node, ...]


class Tape:
    """Everything that runs in place of a segment.

    Args:
        segment: the steps.
        plans: their parts, in order.
    """

    def __init__(self, segment: Segment, plans: Sequence[PartPlan]) -> None:
        self.segment = segment
        self.entries: list[Entry] = []
        self.joined: dict[fx.Node, Ref] = {}
        self._pieces: dict[fx.Node, list[Ref | fx.Node]] = {}
        self._kept: dict[fx.Node, Ref | fx.Node] = {}
        self._maker = segment.end
        for plan, following in zip_longest(plans, plans[1:], fillvalue=()):
            self._run(plan, {run.node: run for run in following if run.start < run.fresh})
        for node, pieces in self._pieces.items():
            if node not in self.joined:
                axis, self._maker = segment.axes[node], node
                self.joined[node] = self._add("join", node, (pieces, axis), shape_of(node))

    def _add(self, kind: str, node: fx.Node, args: tuple[Any, ...], shape: tuple[int, ...]) -> Ref:
        self.entries.append(Entry(kind, node, self._maker, args, {}, shape, _operands(args)))
        return Ref(len(self.entries) - 1)

    def _run(self, plan: PartPlan, following: dict[fx.Node, Run]) -> None:
        made: dict[fx.Node, tuple[Ref | fx.Node, int, int]] = {}
        kept, self._kept = self._kept, {}
        for run in plan:
            node, axis = run.node, self.segment.axes[run.node]
            self._maker = node
            found = None if run.part is None else self._compute(run, run.part, made)
            if run.start < run.fresh:
                found = kept[node] if found is None else self._put_together(run, kept[node], found)
            assert found is not None
            made[node] = (found, run.start, run.stop)
            if node in following:
                # Cut off at once: the part itself may be gone, or written over, when the next one is run.
                first, last = following[node].start, following[node].fresh
                self._kept[node] = self._cut(node, found, axis, first - run.start, last - run.start)
            if node in self.segment.exits:
                self._join(node, found, run.start, run.stop)

    def _compute(
        self, run: Run, part: Part, made: dict[fx.Node, tuple[Ref | fx.Node, int, int]]
    ) -> Ref | fx.Node:
        """The new of a slice."""
        args, kwargs = self._with_slices(part, made)
        if part.passes_on:
            assert isinstance(args[0], (Ref, fx.Node))
            return args[0]
        shape = _resized(shape_of(run.node), self.segment.axes[run.node], run.stop - run.fresh)
        reads = _operands((*args, *kwargs.values()))
        self.entries.append(Entry("run", run.node, run.node, args, kwargs, shape, reads))
        return Ref(len(self.entries) - 1)

    def _put_together(self, run: Run, kept: Ref | fx.Node, fresh: Ref | fx.Node) -> Ref:
        axis = self.segment.axes[run.node]
        shape = _resized(shape_of(run.node), axis, run.stop - run.start)
        return self._add("join", run.node, ([kept, fresh], axis), shape)

    def _cut(self, node: fx.Node, source: Ref | fx.Node, axis: int, start: int, stop: int) -> Ref:
        return self._add(
            "slice", node, (source, axis, start, stop), _resized(shape_of(node), axis, stop - start)
        )

    def _with_slices(
        self, part: Part, made: dict[fx.Node, tuple[Ref | fx.Node, int, int]]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def of(leaf: Any) -> Any:
            return self._taken(leaf, made) if isinstance(leaf, Take) else leaf

        args, kwargs = fx.node.map_aggregate((part.args, part.kwargs), of)
        return args, kwargs

    def _taken(self, take: Take, made: dict[fx.Node, tuple[Ref | fx.Node, int, int]]) -> Ref | fx.Node:
        """A slice of an operand, cut off its part or its whole, with the padding that it reaches into."""
        node, (start, stop), axis = take.node, take.inside, take.axis
        whole = shape_of(node)
        source: Ref | fx.Node
        source, first, last = made[node] if node in made else (node, 0, whole[axis])
        if (start, stop) != (first, last):
            source = self._cut(node, source, axis, start - first, stop - first)
        if any(take.padding):
            before, behind = take.padding
            pads = [0] * (2 * (len(whole) - 1 - axis)) + [before, behind]
            shape = _resized(whole, axis, take.stop - take.start)
            source = self._add("pad", node, (source, pads, take.fill), shape)
        return source

    def _join(self, node: fx.Node, found: Ref | fx.Node, start: int, stop: int) -> None:
        """Put a part of what somebody outside wants where it lies."""
        shape, axis = shape_of(node), self.segment.axes[node]
        if is_run_of_bytes(shape, axis) and len(self.segment.exits) == 1:
            self._pieces.setdefault(node, []).append(found)
            return
        if node not in self.joined:
            pads = [0] * (2 * (len(shape) - 1 - axis)) + [start, shape[axis] - stop]
            self.joined[node] = self._add("spread", node, (found, pads, 0.0), shape)
        else:
            args = (self.joined[node], found, axis, start, stop)
            self.joined[node] = self._add("scatter", node, args, shape)


def is_run_of_bytes(shape: Sequence[int], axis: int) -> bool:
    """Whether a slice along an axis is one run of the whole's bytes."""
    return prod(shape[:axis]) == 1


def _resized(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _operands(args: Iterable[Any]) -> tuple[Ref | fx.Node, ...]:
    found: list[Ref | fx.Node] = []
    for leaf in args:
        if isinstance(leaf, (Ref, fx.Node)):
            found.append(leaf)
        elif isinstance(leaf, (list, tuple)):
            found += _operands(leaf)
    return tuple(found)
