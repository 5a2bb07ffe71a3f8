"""Whose bytes does every tensor of a ``.pte`` see, and are they still what they should be?

The runtime's tensors are pointers: a move gives a tensor another's pointer, ``et_view`` gives it another's
bytes. So what is followed through the program points are *facts*, pairs of a tensor and the slot (the own
bytes of some tensor) that it points to, each in one of two states: its content is as it should be, or it
is lost, because something else was written over it or nothing was ever written to it. A fact flows along
every path by itself, so facts of exclusive branches never mix; states are joined where paths meet, and the
whole is solved to a fixed point. Nothing here looks at liveness, or at how the plan was made.

A fact's state is two bits, "may be intact" and "may be lost"; bits of all facts are held in two integers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.lifetimes.liveness import bits, positions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lowtide.frontends.pte.analysis import Analysis
    from lowtide.frontends.pte.methods import Place


@dataclass(frozen=True, slots=True)
class Facts:
    """State of all facts at one point."""

    intact: int
    lost: int

    def __or__(self, other: Facts) -> Facts:
        return Facts(self.intact | other.intact, self.lost | other.lost)


class Pointers:
    """The facts of one method under one plan, solved.

    Args:
        analysis: the method and what its instructions do.
        places: the bytes of every planned tensor.
    """

    def __init__(self, analysis: Analysis, places: Mapping[int, Place]) -> None:
        self.analysis, self.places = analysis, places
        self.method, self.views = analysis.method, analysis.views
        self.pairs: list[tuple[int, int]] = []
        self.number: dict[tuple[int, int], int] = {}
        self.of_value: dict[int, int] = {}
        self.of_slot: dict[int, int] = {}
        self._enumerate()
        self.overlapping = self._overlaps()
        self.over = {
            slot: sum(self.of_slot[other] for other in others) for slot, others in self.overlapping.items()
        }
        """For each slot, the facts of other slots that share a byte with it."""
        self.clashing_at_entry: list[tuple[int, int]] = []
        self.before: list[Facts | None] = [None] * analysis.paths.count
        self._solve()

    # Which facts there may be.

    def _enumerate(self) -> None:
        """All pairs that can arise, disregarding the order of instructions."""
        points_to = {value: {value} for value in self.method.tensors if value not in self.views.base}
        edges: list[tuple[int, int]] = []
        for effect in self.analysis.effects:
            edges += (*effect.moves, *effect.views, *effect.may_view)
        changed = True
        while changed:
            changed = False
            for to, source in edges:
                if to in points_to:
                    more = points_to.get(self.root(source), set()) - points_to[to]
                    changed |= bool(more)
                    points_to[to] |= more
        for value, slots in points_to.items():
            for slot in sorted(slots):
                number = self.number[value, slot] = len(self.pairs)
                self.pairs.append((value, slot))
                self.of_value[value] = self.of_value.get(value, 0) | 1 << number
                self.of_slot[slot] = self.of_slot.get(slot, 0) | 1 << number

    def root(self, value: int) -> int:
        """The tensor that fills the bytes of a static view; of anything else itself."""
        return self.views.base.get(value, value)

    def _overlaps(self) -> dict[int, list[int]]:
        """For each slot the others that share a byte with it: a sweep over addresses."""
        found: dict[int, list[int]] = {slot: [] for slot in self.of_slot}
        placed = sorted(
            (place.memory, place.start, place.stop, value)
            for value, place in self.places.items()
            if value in self.of_slot and place.stop > place.start
        )
        open_: list[tuple[int, int, int]] = []
        for memory, start, stop, value in placed:
            open_ = [entry for entry in open_ if entry[0] == memory and entry[1] > start]
            for _, _, other in open_:
                found[value].append(other)
                found[other].append(value)
            open_.append((memory, stop, value))
        return found

    # The data flow.

    def _entry(self) -> Facts:
        """Before the first instruction: inputs, state and constants are there, nothing else is.

        Pointers may be stale: whatever the previous run left.
        """
        everything = (1 << len(self.pairs)) - 1
        tensors = self.method.tensors
        given = [*self.method.inputs, *self.views.state, *(t.index for t in tensors.values() if t.constant)]
        given = [value for value in dict.fromkeys(given) if value in self.of_value]
        intact = bits(self.number[value, value] for value in given)
        filled = {*self.method.inputs, *self.views.state}
        for value in given:
            for other in self.overlapping.get(value, ()):
                if value < other and other in filled and value in filled:
                    self.clashing_at_entry.append((value, other))
                    intact &= ~bits((self.number[value, value], self.number[other, other]))
        return Facts(intact, everything & ~intact)

    def _solve(self) -> None:
        paths = self.analysis.paths
        self.before[0] = self._entry()
        queue, queued = deque([0]), {0}
        while queue:
            at = queue.popleft()
            queued.discard(at)
            now = self.before[at]
            assert now is not None
            left = self._effects(at, now) if paths.successors[at] else now
            for successor in paths.successors[at]:
                after = self.along(at, successor, left)
                known = self.before[successor]
                met = after if known is None else known | after
                if met != known:
                    self.before[successor] = met
                    if successor not in queued:
                        queued.add(successor)
                        queue.append(successor)

    def along(self, at: int, successor: int, now: Facts) -> Facts:
        """The facts at the other end of an edge: loops that fill tensors part by part begin on edges."""
        for begun in self.analysis.begins.get((at, successor), ()):
            now = self._begun(now, begun)
        return now

    def _effects(self, at: int, now: Facts) -> Facts:
        effect = self.analysis.effects[at]
        killed = self.killed_by(at, now)
        now = Facts(now.intact & ~killed, now.lost | (now.intact & killed))
        for value in (*effect.defines, *effect.overwrites):
            now = self._filled(now, self.root(value))
        for to, source in effect.moves:
            now = self._pointed(now, to, source, keep=False)
        for to, source in effect.views:
            now = self._pointed(now, to, source, keep=False)
        for to, source in effect.may_view:
            now = self._pointed(now, to, source, keep=True)
        instruction = self.method.instructions[at]
        if instruction.kind == "free":
            freed = bits_of(self.of_value.get(value, 0) for value in instruction.args)
            now = Facts(now.intact & ~freed, now.lost | (now.intact & freed))
        return now

    def slots(self, now: Facts, value: int) -> list[int]:
        """Slots that a tensor may point to."""
        value = self.root(value)
        return [self.pairs[n][1] for n in positions((now.intact | now.lost) & self.of_value.get(value, 0))]

    def written(self, at: int, now: Facts) -> dict[int, int]:
        """Slots that a point writes, with the tensor through which it does."""
        effect = self.analysis.effects[at]
        return {slot: value for value in effect.writes for slot in self.slots(now, value)}

    def killed_by(self, at: int, now: Facts) -> int:
        """Facts whose content a point destroys, whatever their state."""
        effect = self.analysis.effects[at]
        killed = 0
        for value in effect.writes:
            for slot in self.slots(now, value):
                over = self.over.get(slot, 0)
                if over & now.intact:
                    for other in self.unharmed(at, now, value, slot):
                        over &= ~self.of_slot[other]
                killed |= over
        for value in effect.defines:
            value = self.root(value)
            mine = self.of_value.get(value, 0)
            for slot in self.slots(now, value):
                killed |= self.of_slot[slot] & ~mine
        return killed

    def _filled(self, now: Facts, value: int) -> Facts:
        mine = (now.intact | now.lost) & self.of_value.get(value, 0)
        return Facts(now.intact | mine, now.lost & ~mine)

    def _begun(self, now: Facts, value: int) -> Facts:
        """From here on a tensor's bytes are its own, though they are filled later."""
        value, killed = self.root(value), 0
        for slot in self.slots(now, value):
            killed |= self.over.get(slot, 0) | (self.of_slot[slot] & ~self.of_value[value])
        return self._filled(Facts(now.intact & ~killed, now.lost | (now.intact & killed)), value)

    def _pointed(self, now: Facts, to: int, source: int, *, keep: bool) -> Facts:
        """``to`` gets ``source``'s pointer; what it pointed to before is forgotten unless kept."""
        mine = self.of_value.get(to, 0)
        if not mine:
            return now
        intact, lost = (now.intact, now.lost) if keep else (now.intact & ~mine, now.lost & ~mine)
        root = self.root(source)
        for n in positions((now.intact | now.lost) & self.of_value.get(root, 0)):
            slot = self.pairs[n][1]
            number = self.number.get((to, slot))
            if number is None:
                continue
            seen = self.sees(source, slot)
            intact |= (now.intact >> n & 1 & seen) << number
            lost |= ((now.lost >> n & 1) | (not seen)) << number
        return Facts(intact, lost)

    def unharmed(self, at: int, now: Facts, value: int, slot: int) -> set[int]:
        """Slots that lie over one that is written and keep their bytes: they are copied to where they are."""
        effect = self.analysis.effects[at]
        read = {other: v for v in effect.reads for other in self.slots(now, v)}
        near = [other for other in self.overlapping.get(slot, ()) if other in read]
        if not near:
            return set()
        same = [*self.analysis.allowance(at).same, *((to, source, 0) for to, source in effect.copies)]
        return {other for other in near if self._in_place(value, slot, read[other], other, same)}

    def _in_place(
        self, written: int, slot: int, read: int, other: int, same: list[tuple[int, int, int]]
    ) -> bool:
        """Whether one of some copies is between these tensors, which lie as it says."""
        for inner, outer, distance in same:
            if (inner, outer) == (written, read) and self.distance(slot, other) == distance:
                return True
            if (inner, outer) == (read, written) and self.distance(other, slot) == distance:
                return True
        return False

    def distance(self, slot: int, other: int) -> int | None:
        """Bytes from the start of one slot to that of another; None if they are not in one arena."""
        a, b = self.places.get(slot), self.places.get(other)
        return a.start - b.start if a is not None and b is not None and a.memory == b.memory else None

    def may_lie_over(self, at: int, value: int, slot: int, read: int, other: int) -> bool:
        """Whether a kernel may write one slot over another, which it reads, as they lie."""
        exact = self.places.get(slot) == self.places.get(other)
        return exact and (value, read) in self.analysis.allowance(at).over

    def sees(self, value: int, slot: int) -> bool:
        """Whether a tensor that should see a slot does: a static view does only if it lies there."""
        if value not in self.views.base:
            return True
        mine, there = self.places.get(value), self.places.get(slot)
        return (
            mine is not None
            and there is not None
            and (mine.memory, mine.start) == (there.memory, there.start)
            and mine.stop <= there.stop
        )


def bits_of(parts: Iterable[int]) -> int:
    """The union of some bit sets."""
    found = 0
    for part in parts:
        found |= part
    return found
