"""Program -> Model: what the order of a region's steps means for live bytes.

Storages that share a buffer in the given order (``coalesce``) are taken for one: orders that would part
them are not considered, and their bytes count once. A region that is called from several places, or in a
loop, is looked at in that activation of it in which most bytes are alive.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from lowtide.ir.problem import merge_intervals
from lowtide.lifetimes.coalesce import coalesce
from lowtide.lifetimes.liveness import bits, positions, solve
from lowtide.lifetimes.lowering import lower
from lowtide.transforms.reorder.dependences import RegionLayout, dependences
from lowtide.transforms.reorder.work import Instant, LiveRange, Model, Sharing, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lowtide.ir.flow import FlowGraph, Point
    from lowtide.ir.program import Program, Step
    from lowtide.transforms.reorder.dependences import Access


@dataclass
class _Draft:
    """A live range while a region's steps are being walked."""

    position: int
    size: int
    start: int
    users: int = 0
    lasting: bool = False


class Modeller:
    """Makes the models of a program's regions.

    Args:
        program: what runs.
        in_place: whether outputs may lie over inputs that die, where the kernel allows it.
        elide_copies: whether what a step copies may share the bytes of the copy.
    """

    def __init__(self, program: Program, *, in_place: bool = False, elide_copies: bool = False) -> None:
        self.flow: FlowGraph = lower(program)
        self.in_place, self.elide_copies = in_place, elide_copies
        self.liveness = solve(self.flow)
        self.layout = RegionLayout(self.flow, self.liveness)
        classes = coalesce(self.flow, self.liveness, matches=elide_copies).classes
        self.leader = {storage: classes.find(storage) for storage in range(len(program.storages))}
        self.sizes: dict[int, int] = {}
        self.members: dict[int, int] = defaultdict(int)
        for leader, members in classes.members().items():
            planned = all(program.storages[s].planned for s in members)
            self.sizes[leader] = (program.storages[leader].size or 0) if planned else 0
            self.members[leader] = bits(members)
        self.live_bytes = self._live_bytes(classes.members())
        self.activations: dict[int, list[int]] = defaultdict(list)
        for position, activation in enumerate(self.flow.activations):
            self.activations[activation.region].append(position)

    def model(self, region: int, edges: Iterable[tuple[int, int]] = ()) -> Model | None:
        """The model of a region; None if it has no steps, or never runs.

        Args:
            region: position of the region.
            edges: more pairs of steps that keep their order, the earlier first.
        """
        count = len(self.flow.program.regions[region].steps)
        activations = self.activations[region]
        if not count or not activations:
            return None
        accesses = {a: [self.layout.access(a, step) for step in range(count)] for a in activations}
        earlier = dependences(accesses.values(), edges, self.leader)
        busiest = max(activations, key=lambda a: (self.busiest(accesses[a]), -a))
        return self.of_activation(busiest, accesses[busiest], earlier)

    def busiest(self, accesses: Sequence[Access]) -> int:
        return max(self.live_bytes[accesses[0].start : accesses[-1].stop])

    def leaders(self, storages: int) -> set[int]:
        """The buffers that some storages are, those of no bytes left out."""
        found = {self.leader[storage] for storage in positions(storages)}
        return {leader for leader in found if self.sizes[leader]}

    def _live_bytes(self, members: dict[int, list[int]]) -> list[int]:
        """Bytes that must not be disturbed at each tick."""
        changes = [0] * (len(self.flow.points) + 1)
        for leader, size in self.sizes.items():
            intervals = (interval for s in members[leader] for interval in self.liveness.occupied[s])
            for start, stop in merge_intervals(intervals) if size else ():
                changes[start] += size
                changes[stop] -= size
        return list(accumulate(changes))

    def of_activation(self, activation: int, accesses: list[Access], earlier: tuple[int, ...]) -> Model:
        ranges, at = self.live_ranges(accesses)
        floor = max((self.live_bytes[tick] for tick in self.layout.edges[activation]), default=0)
        steps = self.flow.program.regions[self.flow.activations[activation].region].steps
        work = tuple(
            self.work(step, position, access, ranges, at)
            for position, (step, access) in enumerate(zip(steps, accesses, strict=True))
        )
        return Model(earlier, tuple(ranges), work, floor=floor)

    def live_ranges(self, accesses: Sequence[Access]) -> tuple[list[LiveRange], dict[tuple[int, int], int]]:
        """All live ranges, and the one that each step touches of each buffer: by buffer and step."""
        first, last = accesses[0].start, accesses[-1].stop
        before, after = self.layout.live_in(first), self.layout.live_in(last)
        always = bits(i for i, s in enumerate(self.flow.program.storages) if s.persistent)
        kept = self.leaders(after | always)
        unread = self.unread(accesses, kept, self.leaders(always))
        drafts: list[_Draft] = []
        current: dict[int, _Draft] = {}
        at: dict[tuple[int, int], int] = {}

        def begin(leader: int, start: int) -> _Draft:
            drafts.append(_Draft(len(drafts), self.sizes[leader], start))
            return drafts[-1]

        for leader in sorted(self.leaders(before | always)):
            current[leader] = begin(leader, -1)
        for position, access in enumerate(accesses):
            looked_at = self.leaders(access.reads | access.changes | always)
            for leader in sorted(self.leaders(access.touched)):
                if (leader, position) in unread:
                    draft = begin(leader, position)
                else:
                    if leader not in current or leader not in looked_at:
                        current[leader] = begin(leader, position)
                    draft = current[leader]
                draft.users |= 1 << position
                at[leader, position] = draft.position
        for leader in kept & current.keys():
            current[leader].lasting = True
        return [LiveRange(d.size, d.start, d.users, d.lasting) for d in drafts], at

    def unread(self, accesses: Sequence[Access], kept: set[int], always: set[int]) -> set[tuple[int, int]]:
        """Writes after which nobody looks at a buffer's bytes: they need it for that step only."""
        found = set()
        wanted = set(kept)
        for position in range(len(accesses) - 1, -1, -1):
            access = accesses[position]
            reads = self.leaders(access.reads)
            for leader in self.leaders(access.touched) - reads:
                if leader not in wanted:
                    found.add((leader, position))
            wanted -= self.leaders(access.fills) - self.leaders(access.changes)
            wanted |= reads | always
        return found

    def work(
        self,
        step: Step,
        position: int,
        access: Access,
        ranges: list[LiveRange],
        at: dict[tuple[int, int], int],
    ) -> Work:
        """What a step needs while it runs: its instants, or what it may put over or into what."""
        if step.call is None:
            return Work(shares=self.shares(position, self.flow.points[access.start], ranges, at))
        touched = {leader: found for (leader, user), found in at.items() if user == position}
        lives = {leader: ranges[found] for leader, found in touched.items()}
        used = {leader for leader, life in lives.items() if life.lasting or life.users >> position + 1}
        return Work(self.instants(access, touched, used))

    def shares(
        self, position: int, point: Point, ranges: list[LiveRange], at: dict[tuple[int, int], int]
    ) -> tuple[Sharing, ...]:
        """What a step may put over or into what dies there, as ``find_coincidences`` and ``find_nests`` do.

        A buffer that has several lives may clash in another of them, so it is left out.
        """
        storages = self.flow.program.storages
        pairs: list[tuple[int, int, int, bool]] = []
        if self.in_place:
            pairs += [
                (written, read, storages[read].size or 0, True)
                for written, read in point.overwrites
                if storages[written].size == storages[read].size
                and storages[written].arena == storages[read].arena
            ]
        for same in point.matches if self.elide_copies else ():
            made_inside = same.inner in point.writes
            other, ending = (same.inner, same.outer) if made_inside else (same.outer, same.inner)
            pairs.append((other, ending, storages[same.inner].size or 0, False))
        if not pairs:
            return ()
        lives = Counter(leader for leader, _ in {(leader, life) for (leader, _), life in at.items()})
        shares = []
        for written, read, size, whole in pairs:
            new, old = self.leader[written], self.leader[read]
            a, b = at.get((new, position)), at.get((old, position))
            single = lives[new] == lives[old] == 1
            if a is not None and b is not None and a != b and single and ranges[a].start == position:
                shares.append(Sharing(a, b, size, whole))
        return tuple(shares)

    def instants(self, access: Access, touched: dict[int, int], used: set[int]) -> tuple[Instant, ...]:
        """What a step that runs regions needs at each point of them, if only what it writes lives on.

        Args:
            access: what it touches.
            touched: the live range of each buffer that it touches.
            used: buffers that later steps use.
        """
        points = self.flow.points
        span = range(access.start, access.stop)
        outside = bits(s for s in positions(access.fills | access.changes) if self.leader[s] in used)
        live_in = dict.fromkeys(span, 0)
        live_out = dict.fromkeys(span, 0)
        written = dict.fromkeys(span, 0)
        given = access.touched & ~access.fills
        changed = True
        while changed:
            changed = False
            for tick in reversed(span):
                out = 0
                for successor in points[tick].successors:
                    out |= live_in.get(successor, outside)
                into = bits(points[tick].all_reads) | (out & ~bits(points[tick].full_writes))
                changed |= into != live_in[tick]
                live_in[tick], live_out[tick] = into, out
        changed = True
        while changed:
            changed = False
            for tick in span:
                known = (
                    written[tick] | given | bits(points[tick].full_writes) | bits(points[tick].partial_writes)
                )
                for predecessor in self.flow.predecessors[tick]:
                    known |= written.get(predecessor, given)
                changed |= known != written[tick]
                written[tick] = known
        found: dict[int, int] = {}
        for tick in span:
            before = given
            for predecessor in self.flow.predecessors[tick]:
                before |= written.get(predecessor, given)
            occupied = (live_in[tick] & before) | (live_out[tick] & written[tick])
            occupied |= bits(points[tick].all_reads) | bits(points[tick].full_writes)
            occupied |= bits(points[tick].partial_writes)
            leaders = self.leaders(occupied & (access.touched | access.inner))
            mask = sum(1 << touched[leader] for leader in leaders if leader in touched)
            own = sum(self.sizes[leader] for leader in leaders if leader not in touched)
            found[mask] = max(found.get(mask, 0), own)
        return tuple(Instant(own, mask) for mask, own in found.items())
