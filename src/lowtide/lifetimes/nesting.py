"""Which buffers may lie inside others, so that the copies between parts and wholes cost nothing.

A ``cat`` copies its parts into a whole, a ``split`` copies its whole out to parts. A part that lies at its
own place inside the whole has nothing to copy. That is sound under the rule that coalescing follows:
neither is written while the other's bytes are still to be read, but by that copy itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.problem import Lifetime
    from lowtide.lifetimes.coalesce import Coalesced


@dataclass(frozen=True, slots=True)
class Nest:
    """Class ``inner`` lies ``distance`` bytes above the start of class ``outer``, inside it."""

    inner: int
    outer: int
    distance: int


def find_nests(flow: FlowGraph, coalesced: Coalesced, lifetimes: dict[int, Lifetime]) -> list[Nest]:
    """Parts that may lie in their wholes; the largest first where they exclude each other.

    Args:
        flow: program points, with what matches at each.
        coalesced: storages that share a buffer.
        lifetimes: of each class that is planned, by its representative.
    """
    classes = coalesced.classes
    distances: dict[tuple[int, int], set[int]] = {}
    for point in flow.points:
        for same in point.matches:
            pair = classes.find(same.inner), classes.find(same.outer)
            distances.setdefault(pair, set()).add(same.distance)
    forest = _Forest(flow, coalesced, lifetimes)
    wanted = sorted(distances, key=lambda pair: (-forest.size(pair[0]), pair))
    for inner, outer in wanted:
        # One part at two places of a whole can be at one of them only, and the other copy would spoil it.
        if len(distances[inner, outer]) == 1 and (outer, inner) not in distances:
            forest.try_to_nest(inner, outer, min(distances[inner, outer]))
    return forest.nests


class _Forest:
    """Buffers inside buffers inside buffers: every tree keeps its shape wherever its root is placed."""

    def __init__(self, flow: FlowGraph, coalesced: Coalesced, lifetimes: dict[int, Lifetime]) -> None:
        self.storages, self.coalesced, self.lifetimes = flow.program.storages, coalesced, lifetimes
        self.members = coalesced.classes.members()
        self.outer: dict[int, tuple[int, int]] = {}  # inner -> outer, distance
        self.trees: dict[int, list[int]] = {}  # root -> everything in it, itself first
        self.nests: list[Nest] = []

    def size(self, member: int) -> int:
        return self.storages[member].size or 0

    def try_to_nest(self, inner: int, outer: int, distance: int) -> None:
        if not self.could_lie_in(inner, outer, distance):
            return
        root, base = self.root_of(outer)
        if root == inner:
            return
        ancestors = set(self.ancestors(outer))
        for a in self.trees.get(inner, [inner]):
            below = self.root_of(a)[1] + base + distance
            for b in self.trees.get(root, [root]):
                start = self.root_of(b)[1]
                if below >= start + self.size(b) or start >= below + self.size(a):
                    continue
                if not (self.may_cover(a, b, below - start) if b in ancestors else self.apart(a, b)):
                    return
        self.outer[inner] = (outer, distance)
        self.trees.setdefault(root, [root]).extend(self.trees.pop(inner, [inner]))
        self.nests.append(Nest(inner, outer, distance))

    def could_lie_in(self, inner: int, outer: int, distance: int) -> bool:
        """Whether place, size and alignment allow it, leaving lifetimes aside."""
        if inner not in self.lifetimes or outer not in self.lifetimes or inner in self.outer:
            return False
        if self.storages[inner].arena != self.storages[outer].arena or not self.size(inner):
            return False
        alignment = max(self.storages[member].alignment for member in self.members[inner])
        aligned = distance % alignment == 0 and self.storages[outer].alignment % alignment == 0
        return aligned and distance + self.size(inner) <= self.size(outer)

    def root_of(self, member: int) -> tuple[int, int]:
        """The outermost buffer around one, and how far above that one's start it lies."""
        base = 0
        while member in self.outer:
            member, distance = self.outer[member]
            base += distance
        return member, base

    def ancestors(self, member: int) -> list[int]:
        found = [member]
        while member in self.outer:
            member = self.outer[member][0]
            found.append(member)
        return found

    def may_cover(self, a: int, b: int, distance: int) -> bool:
        """Whether neither is written while the other is alive, but by a copy that changes nothing.

        Args:
            distance: how far the first would start above the second, in bytes.
        """
        allows = self.coalesced.interference.allows
        return all(allows(s, t, distance) for s in self.members[a] for t in self.members[b])

    def apart(self, a: int, b: int) -> bool:
        """Whether two are never alive at one time."""
        return not overlap(self.lifetimes[a], self.lifetimes[b])


def overlap(a: Lifetime, b: Lifetime) -> list[tuple[int, int]]:
    """When both of two lifetimes run, as half-open intervals."""
    found = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, stop = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < stop:
            found.append((start, stop))
        if a[i][1] <= b[j][1]:
            i += 1
        else:
            j += 1
    return found
