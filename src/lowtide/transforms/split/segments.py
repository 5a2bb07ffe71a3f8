"""Segments: connected sets of steps with one axis that passes through all of them, and their parts.

A segment grows backward from its last step. A step joins if its rule knows the axis; an operand that is
needed whole, or along two axes, stays outside, and so does what came before the segment's first position.
What lies between its first and its last step and does not belong to it runs before or after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import fx

from lowtide.transforms.split.rules import Part, is_barrier, is_first_result, is_plain, part_of, shape_of

Interval = tuple[int, int]


@dataclass(frozen=True)
class Segment:
    """Steps that run part by part.

    Args:
        first, last: positions of the first and last step of the range that it was grown in.
        axes: the axis of each of its steps, in the order in which they run.
        before, after: steps of the range that are not its own, and run whole.
        exits: steps of which somebody outside wants the whole; the last of them is the last step.
    """

    first: int
    last: int
    axes: dict[fx.Node, int]
    before: tuple[fx.Node, ...]
    after: tuple[fx.Node, ...]
    exits: tuple[fx.Node, ...]

    @property
    def end(self) -> fx.Node:
        """The step whose result is cut evenly."""
        return self.exits[-1]


@dataclass(frozen=True, slots=True)
class Run:
    """What is run of one step for one part.

    Args:
        node: the step.
        start, stop: the slice of its result that is there afterwards.
        part: how it computes what of that slice is new; None if nothing is.
        fresh: where the new begins; what lies before it was kept from the part before.
    """

    node: fx.Node
    start: int
    stop: int
    part: Part | None
    fresh: int


PartPlan = tuple[Run, ...]
"""One part of a segment: what is run of each step, in order."""


def grow(order: Sequence[fx.Node], first: int, last: int, axis: int) -> Segment | None:
    """The segment of a range of steps that ends with its last one.

    Args:
        order: all steps of the graph.
        first, last: positions of the first step that may belong to it and of its last.
        axis: of the last step's result.
    """
    end = order[last]
    axes: dict[fx.Node, int | None] = {end: axis}  # None: needed whole
    members: list[fx.Node] = []
    for position in range(last, first - 1, -1):
        node = order[position]
        if is_barrier(node):
            return None
        mine = axes.get(node)
        if mine is None or not is_plain(node):
            continue
        if is_first_result(node) and not _may_join(node.args[0], mine, order[first:position]):
            continue  # its parts would be cut off several tensors that are whole
        size = shape_of(node)[mine]
        part = part_of(node, mine, 0, size) if size > 1 else None
        if part is None:
            continue
        members.append(node)
        for whole in part.wholes():
            axes[whole] = None
        for take in part.takes():
            axes[take.node] = take.axis if axes.get(take.node, take.axis) == take.axis else None
    members.reverse()
    if not members or members[-1] is not end:
        return None
    inside = {node: axes[node] for node in members}
    if any(is_first_result(node) and inside.get(node.args[0]) is None for node in members):
        return None
    return _settle(order, first, last, {node: mine for node, mine in inside.items() if mine is not None})


def _may_join(node: object, axis: int, before: Sequence[fx.Node]) -> bool:
    """Whether a step that returns several tensors can run in parts along an axis of the first."""
    if not isinstance(node, fx.Node) or node not in before or not is_plain(node):
        return False
    return part_of(node, axis, 0, shape_of(node)[axis]) is not None


def _settle(order: Sequence[fx.Node], first: int, last: int, axes: dict[fx.Node, int]) -> Segment | None:
    """Sort what is not the segment's own before or after it; None where it can be neither."""
    before, after, late = [], [], set(axes)
    for position in range(first, last + 1):
        node = order[position]
        behind = any(operand in late for operand in node.all_input_nodes)
        if node in axes:
            if any(operand in late and operand not in axes for operand in node.all_input_nodes):
                return None
        elif behind:
            after.append(node)
            late.add(node)
        else:
            before.append(node)
    exits = tuple(node for node in axes if any(user not in axes for user in node.users))
    ends = order[last]
    if not exits or exits[-1] is not ends or any(_no_whole(node) for node in exits):
        return None
    return Segment(first, last, axes, tuple(before), tuple(after), exits)


def _no_whole(node: fx.Node) -> bool:
    """Whether parts of a step's result cannot be joined: several tensors, or elements in another order."""
    return _has_several(node) or not node.meta["val"].is_contiguous()


def _has_several(node: fx.Node) -> bool:
    return isinstance(node.meta["val"], (tuple, list))


UNITS = (1, 4, 16)
"""Elements that every part but the last has a multiple of; kernels of products want such parts."""


def cuts(size: int, count: int, unit: int = 1) -> list[Interval]:
    """An axis in so many parts, as even as can be; larger ones follow the first, which holds padding.

    Args:
        size: of the axis.
        count: of parts; there are none if the units do not suffice for them.
        unit: elements that every part but the last has a multiple of.
    """
    small, larger = divmod(size // unit, count)
    if not small:
        return []
    places = [0]
    for i in range(count):
        places.append(places[-1] + (small + (1 <= i <= larger)) * unit)
    return [*pairwise(places[:-1]), (places[-2], size)]


def plan_parts(
    segment: Segment, intervals: Sequence[Interval], *, keeps: bool, covers: bool = True
) -> list[PartPlan] | None:
    """The parts of a segment; None if one cannot be made, or they do not make up all that is wanted.

    Args:
        segment: the steps.
        intervals: slices of the last step's result, ascending.
        keeps: whether what two neighbours need is kept from one to the next; otherwise it is computed again.
        covers: whether the slices are all of the result.
    """
    plans: list[PartPlan] = []
    before: dict[fx.Node, Interval] = {}
    for interval in intervals:
        plan = _plan_part(segment, interval, before)
        if plan is None:
            return None
        plans.append(plan)
        if keeps:
            before = {run.node: (run.start, run.stop) for run in plan if not _has_several(run.node)}
    return (
        plans if not covers or all(_is_covered(segment, plans, node) for node in segment.exits[:-1]) else None
    )


def _plan_part(segment: Segment, interval: Interval, before: dict[fx.Node, Interval]) -> PartPlan | None:
    """What a slice of the segment's last result needs; None if a step cannot give its slice."""
    wanted: dict[fx.Node, Interval] = {segment.end: interval}
    runs = []
    for node in reversed(segment.axes):
        if node not in wanted:
            continue
        start, stop = wanted[node]
        first, last = before.get(node, (0, 0))
        fresh = min(last, stop) if first <= start < last else start
        part = None
        if fresh < stop:
            part = part_of(node, segment.axes[node], fresh, stop)
            if part is None or not _spread(segment, part, wanted):
                return None
        runs.append(Run(node, start, stop, part, fresh))
    return tuple(reversed(runs))


def _spread(segment: Segment, part: Part, wanted: dict[fx.Node, Interval]) -> bool:
    """Note what a part needs of other steps; whether it can have that."""
    for take in part.takes():
        start, stop = take.inside
        if start >= stop:
            return False  # all of it lies in the padding
        if take.node in segment.axes:
            if take.axis != segment.axes[take.node]:
                return False
            old = wanted.get(take.node, (start, stop))
            wanted[take.node] = (min(start, old[0]), max(stop, old[1]))
    return not any(node in segment.axes for node in part.wholes())


def _is_covered(segment: Segment, plans: Sequence[PartPlan], node: fx.Node) -> bool:
    """Whether all of what somebody outside wants is computed by some part."""
    reached = 0
    for run in (run for plan in plans for run in plan if run.node is node):
        if run.start > reached:
            return False
        reached = max(reached, run.stop)
    return reached == shape_of(node)[segment.axes[node]]
