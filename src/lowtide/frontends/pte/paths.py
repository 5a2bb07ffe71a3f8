"""Where control may go in a method: program points, their successors, loops, and what holds on all paths.

A point is an instruction; one more stands for the end. The emitter lays code out in order, so a jump
backwards closes a loop over everything in between.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.pte.methods import Method


@dataclass(frozen=True)
class Paths:
    """Successors of each point; the last point is the end and has none."""

    successors: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """Number of points, the end included."""
        return len(self.successors)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """Predecessors of each point."""
        found: list[list[int]] = [[] for _ in self.successors]
        for at, successors in enumerate(self.successors):
            for successor in successors:
                found[successor].append(at)
        return tuple(map(tuple, found))

    @cached_property
    def reachable(self) -> tuple[bool, ...]:
        """Whether any path from the start leads to each point."""
        seen = [False] * self.count
        seen[0] = True
        queue = deque([0])
        while queue:
            for successor in self.successors[queue.popleft()]:
                if not seen[successor]:
                    seen[successor] = True
                    queue.append(successor)
        return tuple(seen)

    @cached_property
    def loops(self) -> tuple[tuple[int, int], ...]:
        """First and last point of each loop."""
        return tuple(
            (successor, at)
            for at, successors in enumerate(self.successors)
            for successor in successors
            if successor <= at and self.reachable[at]
        )

    def same_loops(self, made: int, look: int) -> bool:
        """Whether every loop that one point is in goes on at the other."""
        return all(first <= look <= last for first, last in self.loops if first <= made <= last)

    def surely(self, entering: int, made: Sequence[int]) -> list[int]:
        """Before each point, what was made on every path to it: a forward "must" data flow on bit sets.

        Args:
            entering: what is there at the start.
            made: what each point makes.
        """
        everything = -1
        before = [everything] * self.count
        before[0] = entering
        queue = deque([0])
        while queue:
            at = queue.popleft()
            after = before[at] | made[at]
            for successor in self.successors[at]:
                met = before[successor] & after
                if successor == 0:
                    met &= entering
                if met != before[successor]:
                    before[successor] = met
                    queue.append(successor)
        return before


def paths_of(method: Method) -> Paths:
    """The paths of a method.

    A jump on a truth that no instruction ever writes goes one way only: the emitter uses it to leave a
    branch.
    """
    written = {
        value
        for instruction in method.instructions
        if instruction.kind != "jump"
        for value in instruction.args
    }
    successors: list[tuple[int, ...]] = []
    for at, instruction in enumerate(method.instructions):
        if instruction.kind != "jump":
            successors.append((at + 1,))
            continue
        (condition,) = instruction.args
        constant = method.scalar(condition) if condition not in written else None
        if constant is False:
            successors.append((instruction.target,))
        elif constant is True:
            successors.append((at + 1,))
        else:
            successors.append(tuple(dict.fromkeys((at + 1, instruction.target))))
    return Paths((*successors, ()))
