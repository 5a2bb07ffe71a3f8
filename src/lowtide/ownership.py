"""Who owns each byte: the check of a Plan against a Program that trusts no lifetime.

The bytes of every storage are followed forward through the program points to a fixed point. A
storage is *lost* at a point if, on some path that leads there, its bytes are not what was last
written to it: nothing was written yet, something else was written over them, or the plan said that
nobody needed them any more. Reading a lost storage is a fault, and the path that loses it is found
for the report. Nothing here looks at liveness, coalescing or how the plan was made.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.lowering import lower
from lowtide.violation import Violation, describe_buffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lowtide.flow import Copy, FlowGraph, Point
    from lowtide.problem import Plan
    from lowtide.program import Program


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the plan puts a storage: its buffer's position, and its bytes in an arena."""

    buffer: int
    arena: int
    start: int
    stop: int


def check_ownership(program: Program, plan: Plan, *, limit: int = 20) -> list[Violation]:
    """Faults of a plan that would make this program read bytes that it did not write.

    Args:
        program: what runs.
        plan: where its storages are; names tell which is which.
        limit: stop after so many faults.
    """
    flow = lower(program)
    places, faults = _places(flow, plan)
    if faults:
        return faults[:limit]
    return _Ownership(flow, plan, places).run(limit)


def _places(flow: FlowGraph, plan: Plan) -> tuple[dict[int, _Place], list[Violation]]:
    """Match the plan's buffers to the program's storages: every planned one, and no other."""
    storages = flow.program.storages
    position = {storage.name: i for i, storage in enumerate(storages)}
    touched = {
        s for point in flow.points for s in (*point.all_reads, *point.full_writes, *point.partial_writes)
    }
    places: dict[int, _Place] = {}
    faults = []
    for i, (buffer, offset) in enumerate(zip(plan.problem.buffers, plan.offsets, strict=True)):
        for name in buffer.members or (buffer.id,):
            if name not in position:
                faults.append(Violation("unknown", f"the program has no storage {name!r}", (name,)))
                continue
            storage = storages[position[name]]
            if not storage.planned:
                faults.append(
                    Violation(
                        "unasked",
                        f"{name} ({storage.kind}) is planned although it was asked not to be",
                        (name,),
                    )
                )
                continue
            if position[name] in places:
                faults.append(Violation("twice", f"the plan has two places for {name}", (name,)))
            assert storage.size is not None
            if buffer.size < storage.size or offset % storage.alignment or buffer.arena != storage.arena:
                faults.append(
                    Violation(
                        "misfit",
                        f"{name} needs {storage.size} bytes at a multiple of {storage.alignment} in arena "
                        f"{storage.arena}; the plan has {describe_buffer(plan, i)}",
                        (name,),
                    )
                )
            places[position[name]] = _Place(i, buffer.arena, offset, offset + storage.size)
    homeless = [storages[s].name for s in sorted(touched) if storages[s].planned and s not in places]
    faults += [Violation("unplaced", f"{name} has no place in the plan", (name,)) for name in homeless]
    return places, faults


class _Ownership:
    def __init__(self, flow: FlowGraph, plan: Plan, places: dict[int, _Place]) -> None:
        self.flow, self.plan, self.places = flow, plan, places
        self.overlaps = self.overlapping()
        self.expired = self.outside_lifetime()

    def overlapping(self) -> list[int]:
        """For each storage, the bit set of the others that share a byte with it. A sweep over addresses."""
        masks = [0] * len(self.flow.program.storages)
        placed = sorted((p.arena, p.start, p.stop, s) for s, p in self.places.items() if p.stop > p.start)
        open_: list[tuple[int, int]] = []  # (stop, storage), all in one arena
        arena = None
        for at, start, stop, storage in placed:
            if at != arena:
                arena, open_ = at, []
            open_ = [(end, other) for end, other in open_ if end > start]
            for _, other in open_:
                masks[storage] |= 1 << other
                masks[other] |= 1 << storage
            open_.append((stop, storage))
        return masks

    def outside_lifetime(self) -> list[int]:
        """At each tick, the storages whose buffers the plan says nobody needs: their bytes are anyone's."""
        ticks = len(self.flow.points)
        changes = [0] * (ticks + 1)
        everything = 0
        for storage, place in self.places.items():
            everything |= 1 << storage
            for start, stop in self.plan.problem.buffers[place.buffer].lifetime:
                if start < ticks and stop > 0:
                    changes[max(start, 0)] ^= 1 << storage
                    changes[min(stop, ticks)] ^= 1 << storage
        found, alive = [], 0
        for tick in range(ticks):
            alive ^= changes[tick]
            found.append(everything & ~alive)
        return found

    def run(self, limit: int) -> list[Violation]:
        """Solve to the fixed point, then look at every read."""
        points = self.flow.points
        everything = (1 << len(self.flow.program.storages)) - 1
        lost_in = [0] * len(points)
        lost_in[0] = everything
        visited = [False] * len(points)
        queue = deque([0])
        queued = {0}
        while queue:
            tick = queue.popleft()
            queued.discard(tick)
            visited[tick] = True
            out = self.transfer(tick, lost_in[tick])
            for successor in points[tick].successors:
                merged = lost_in[successor] | out
                if merged != lost_in[successor] or not visited[successor]:
                    lost_in[successor] = merged
                    if successor not in queued:
                        queued.add(successor)
                        queue.append(successor)
        faults: list[Violation] = []
        for tick, point in enumerate(points):
            if not visited[tick]:
                continue
            faults += self.clashes(tick, point)
            for storage in dict.fromkeys(point.all_reads):
                if (lost_in[tick] | self.expired[tick]) >> storage & 1 and self.size(storage):
                    faults.append(self.lost(tick, storage, lost_in))
            if len(faults) >= limit:
                break
        return faults[:limit]

    def size(self, storage: int) -> bool:
        return self.flow.program.storages[storage].size != 0

    def transfer(self, tick: int, lost: int) -> int:
        """What is lost after a point, given what is lost before it."""
        point = self.flow.points[tick]
        lost |= self.expired[tick]
        moved = [copy for copy in point.copies if copy.target_storage is not None]
        written = 0
        untouched = self.untouched(point)
        for storage in (*point.writes, *point.partial):
            lost |= self.overlaps[storage] & ~untouched.get(storage, 0)
            written |= 1 << storage
        for copy in moved:
            assert copy.target_storage is not None
            written |= 1 << copy.target_storage
            if not self.stays(copy):
                lost |= self.overlaps[copy.target_storage]
        for storage in point.full_writes:
            if not self.overlaps[storage] & written:
                lost &= ~(1 << storage)
        return lost | self.expired[tick]

    def untouched(self, point: Point) -> dict[int, int]:
        """For each storage that a point writes, those read whose bytes the write leaves as they are."""
        found: dict[int, int] = {}
        for copy in point.copies:
            if copy.target_storage is not None and self.stays(copy):
                found[copy.target_storage] = 1 << copy.source_storages[0]
        for same in point.matches:
            inner, outer = self.places.get(same.inner), self.places.get(same.outer)
            if inner is None or outer is None or inner.arena != outer.arena:
                continue
            if inner.start == outer.start + same.distance and inner.stop <= outer.stop:
                for written, read in ((same.inner, same.outer), (same.outer, same.inner)):
                    found[written] = found.get(written, 0) | 1 << read
        return found

    def overwrites(self, point: Point, written: int, read: int) -> bool:
        """Whether the kernel is right with the one exactly over the other, and they are."""
        target, source = self.places.get(written), self.places.get(read)
        if (written, read) not in point.overwrites or target is None or source is None:
            return False
        return (target.arena, target.start, target.stop) == (source.arena, source.start, source.stop)

    def stays(self, copy: Copy) -> bool:
        """Whether a copy leaves every byte as it is, because both ends are in one place."""
        if not copy.same_layout or len(copy.source_storages) != 1 or copy.target_storage is None:
            return False
        target, source = self.places.get(copy.target_storage), self.places.get(copy.source_storages[0])
        if target is None or source is None:
            return False
        return (target.arena, target.start, target.stop) == (source.arena, source.start, source.stop)

    def clashes(self, tick: int, point: Point) -> Iterator[Violation]:
        """Two writes of one point over each other, or a step that writes over what it still reads."""
        written = list(dict.fromkeys((*point.full_writes, *point.partial_writes)))
        untouched = self.untouched(point)
        for i, storage in enumerate(written):
            for other in written[i + 1 :]:
                if self.overlaps[storage] >> other & 1:
                    yield self.clash(tick, storage, other, "both are written")
            for other in dict.fromkeys(point.reads):
                clash = self.overlaps[storage] >> other & 1 and storage != other
                if (
                    clash
                    and not untouched.get(storage, 0) >> other & 1
                    and not self.overwrites(point, storage, other)
                ):
                    yield self.clash(tick, storage, other, "one is written while the other is read")

    def clash(self, tick: int, a: int, b: int, what: str) -> Violation:
        names = tuple(self.flow.program.storages[s].name for s in (a, b))
        return Violation(
            "overlap",
            f"at {self.flow.describe(tick)} (tick {tick}) {what}: {self.place_of(a)} and {self.place_of(b)}",
            names,
        )

    def place_of(self, storage: int) -> str:
        name = self.flow.program.storages[storage].name
        place = self.places.get(storage)
        if place is None:
            return f"{name} (not planned)"
        described = describe_buffer(self.plan, place.buffer)
        return described if described.startswith(f"{name} ") else f"{name} in {described}"

    def lost(self, tick: int, storage: int, lost_in: list[int]) -> Violation:
        """Name the read, and the last thing that happened to the bytes on some path to it."""
        culprit, at = self.culprit(tick, storage, lost_in)
        name = self.flow.program.storages[storage].name
        names = (name,) if culprit is None else (name, self.flow.program.storages[culprit].name)
        what = f"{self.flow.describe(tick)} (tick {tick}) reads {self.place_of(storage)}"
        if culprit is not None:
            why = f"but {self.flow.describe(at)} (tick {at}) has written {self.place_of(culprit)} over it"
        elif at >= 0:
            why = f"but the plan says that it is dead at {self.flow.describe(at)} (tick {at})"
        else:
            why = "but on some path nothing was written to it"
        return Violation("lost", f"{what}, {why}", names)

    def culprit(self, tick: int, storage: int, lost_in: list[int]) -> tuple[int | None, int]:
        """Search backward for the nearest point that lost the storage: (the writer or None, tick)."""
        if self.expired[tick] >> storage & 1:
            return None, tick
        queue = deque(p for p in self.flow.predecessors[tick])
        seen = set(queue)
        while queue:
            at = queue.popleft()
            if not self.transfer(at, lost_in[at]) >> storage & 1:
                continue  # intact on this path
            if self.expired[at] >> storage & 1:
                return None, at
            point = self.flow.points[at]
            for writer in (*point.full_writes, *point.partial_writes):
                if self.overlaps[writer] >> storage & 1:
                    return writer, at
            for predecessor in self.flow.predecessors[at]:
                if predecessor not in seen:
                    seen.add(predecessor)
                    queue.append(predecessor)
        return None, -1
