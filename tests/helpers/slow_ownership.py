"""The verifier's rules, pair by pair and point by point: too slow for large programs, and short.

``lowtide.verifier.ownership`` has to find the same faults; see ``test_holding``. Everything is a plain set,
each point is visited until nothing changes, and who shares bytes with whom is looked up pair by pair.
"""

from __future__ import annotations

from lowtide.ir.flow import Copy, FlowGraph, Point
from lowtide.ir.plan import Plan

Fault = tuple[int, str, tuple[str, ...]]


class SlowOwnership:
    """Faults of a plan whose storages all have a place of the right size."""

    def __init__(self, flow: FlowGraph, plan: Plan) -> None:
        self.flow = flow
        names = {storage.name: i for i, storage in enumerate(flow.program.storages)}
        self.place: dict[int, tuple[int, int, int]] = {}
        self.dead: list[set[int]] = [set() for _ in flow.points]
        for buffer, offset in zip(plan.problem.buffers, plan.offsets, strict=True):
            for name in buffer.members or (buffer.id,):
                storage = names[name]
                size = flow.program.storages[storage].size or 0
                self.place[storage] = (buffer.arena, offset, offset + size)
                for tick, dead in enumerate(self.dead):
                    if not any(start <= tick < stop for start, stop in buffer.lifetime):
                        dead.add(storage)

    def overlap(self, a: int, b: int) -> bool:
        if a == b or a not in self.place or b not in self.place:
            return False
        (arena, start, stop), (other, begin, end) = self.place[a], self.place[b]
        return arena == other and max(start, begin) < min(stop, end)

    def untouched(self, point: Point, a: int, b: int) -> bool:
        """Whether writing the one leaves the other's bytes as they are, because they match."""
        for copy in point.copies:
            if {copy.target_storage, *copy.source_storages} == {a, b} and self.stays(copy):
                return True
        for same in point.matches:
            if {same.inner, same.outer} != {a, b} or not {a, b} <= self.place.keys():
                continue
            inner, outer = self.place[same.inner], self.place[same.outer]
            if inner[0] == outer[0] and inner[1] == outer[1] + same.distance and inner[2] <= outer[2]:
                return True
        return False

    def stays(self, copy: Copy) -> bool:
        target, sources = copy.target_storage, copy.source_storages
        if not copy.same_layout or len(sources) != 1 or target not in self.place:
            return False
        return self.place[target] == self.place.get(sources[0])

    def after(self, tick: int, before: set[int]) -> set[int]:
        """What is lost after a point."""
        point = self.flow.points[tick]
        lost = before | self.dead[tick]
        everything = range(len(self.flow.program.storages))
        for written in (*point.writes, *point.partial):
            lost |= {
                s for s in everything if self.overlap(written, s) and not self.untouched(point, written, s)
            }
        for copy in point.copies:
            target = copy.target_storage
            if target is not None and not self.stays(copy):
                lost |= {s for s in everything if self.overlap(target, s)}
        written_here = {*point.full_writes, *point.partial_writes}
        for written in point.full_writes:
            if not any(self.overlap(written, other) for other in written_here):
                lost -= {written}
        return lost | self.dead[tick]

    def faults(self) -> set[Fault]:
        points, storages = self.flow.points, self.flow.program.storages
        lost: list[set[int] | None] = [None for _ in points]
        lost[0] = set(range(len(storages)))
        changed = True
        while changed:
            changed = False
            for tick, point in enumerate(points):
                before = lost[tick]
                if before is None:
                    continue
                after = self.after(tick, before)
                for successor in point.successors:
                    known = lost[successor]
                    if known is None or not after <= known:
                        lost[successor] = after | (known or set())
                        changed = True
        found: set[Fault] = set()
        for tick, point in enumerate(points):
            before = lost[tick]
            if before is None:
                continue
            for read in point.all_reads:
                if read in before | self.dead[tick] and storages[read].size != 0:
                    found.add((tick, "lost", (storages[read].name,)))
            written_here = list(dict.fromkeys((*point.full_writes, *point.partial_writes)))
            for i, written in enumerate(written_here):
                clashing = [o for o in written_here[i + 1 :] if self.overlap(written, o)]
                for read in point.reads:
                    allowed = (written, read) in point.overwrites and self.place.get(
                        written
                    ) == self.place.get(read)
                    if (
                        self.overlap(written, read)
                        and not allowed
                        and not self.untouched(point, written, read)
                    ):
                        clashing.append(read)
                found |= {(tick, "overlap", (storages[written].name, storages[o].name)) for o in clashing}
        return found
