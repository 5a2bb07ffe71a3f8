"""Who owns each byte: the check of a Plan against a Program that trusts no lifetime.

The bytes of every storage are followed forward through the program points to a fixed point (``holding``). A
storage is *lost* at a point if, on some path that leads there, its bytes are not what was last
written to it: nothing was written yet, something else was written over them, or the plan said that
nobody needed them any more. Reading a lost storage is a fault, and the path that loses it is found
for the report. Nothing here looks at liveness, coalescing or how the plan was made.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.base.errors import Violation
from lowtide.lifetimes.lowering import lower
from lowtide.verifier.addresses import Range, meetings
from lowtide.verifier.banks import may_move
from lowtide.verifier.describe import describe_buffer
from lowtide.verifier.holding import Holding

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from lowtide.ir.flow import FlowGraph, Point
    from lowtide.ir.plan import Plan
    from lowtide.ir.program import Program


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


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the plan puts a storage: its buffer's position, and its bytes in an arena."""

    buffer: int
    bytes: Range


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
            misplaced = not may_move(plan, storage.arena, buffer.arena)
            if buffer.size < storage.size or offset % storage.alignment or misplaced:
                faults.append(
                    Violation(
                        "misfit",
                        f"{name} needs {storage.size} bytes at a multiple of {storage.alignment} in arena "
                        f"{storage.arena}; the plan has {describe_buffer(plan, i)}",
                        (name,),
                    )
                )
            places[position[name]] = _Place(i, Range(buffer.arena, offset, offset + storage.size))
    homeless = [storages[s].name for s in sorted(touched) if storages[s].planned and s not in places]
    faults += [Violation("unplaced", f"{name} has no place in the plan", (name,)) for name in homeless]
    return places, faults


class _Ownership:
    def __init__(self, flow: FlowGraph, plan: Plan, places: dict[int, _Place]) -> None:
        self.flow, self.plan, self.places = flow, plan, places
        self.ranges = {storage: place.bytes for storage, place in places.items()}
        self.lifetimes = {s: plan.problem.buffers[place.buffer].lifetime for s, place in places.items()}
        self.holding = Holding(flow, self.ranges, self.lifetimes)

    def run(self, limit: int) -> list[Violation]:
        """Solve to the fixed point, then look at every read."""
        faults: list[Violation] = []
        for tick, held in self.holding.walk():
            faults += self.faults_at(tick, held)
            if len(faults) >= limit:
                break
        return faults[:limit]

    def faults_at(self, tick: int, held: Set[int]) -> Iterator[Violation]:
        """What is wrong at one point, given what is held before it."""
        point = self.flow.points[tick]
        yield from self.clashes(tick, point)
        for storage in dict.fromkeys(point.all_reads):
            if storage in self.holding.followed and storage not in held:
                yield self.lost(tick, storage)

    def clashes(self, tick: int, point: Point) -> Iterator[Violation]:
        """Two writes of one point over each other, or a step that writes over what it still reads."""
        written = dict.fromkeys((*point.full_writes, *point.partial_writes))
        if not written:
            return
        met = meetings(self.ranges, (*written, *point.reads))
        untouched = self.holding.untouched(point)
        order = {storage: i for i, storage in enumerate(written)}
        read = {storage: i for i, storage in enumerate(dict.fromkeys(point.reads))}
        for storage in written:
            others = met.get(storage, set())
            for other in sorted(
                (o for o in others if order.get(o, -1) > order[storage]), key=order.__getitem__
            ):
                yield self.clash(tick, storage, other, "both are written")
            for other in sorted(others & read.keys(), key=read.__getitem__):
                allowed = (storage, other) in point.overwrites and self.holding.coincide(storage, other)
                if not allowed and other not in untouched.get(storage, ()):
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

    def lost(self, tick: int, storage: int) -> Violation:
        """Name the read, and the last thing that happened to the bytes on some path to it."""
        culprit, at = self.culprit(tick, storage)
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

    def culprit(self, tick: int, storage: int) -> tuple[int | None, int]:
        """Search backward for the nearest point that lost the storage: (the writer or None, tick)."""
        if self.is_dead(tick, storage):
            return None, tick
        queue = deque(self.flow.predecessors[tick])
        seen = set(queue)
        while queue:
            at = queue.popleft()
            if self.is_dead(at, storage):
                return None, at
            point = self.flow.points[at]
            writer = self.spoiler(point, storage)
            if writer is not None:
                return writer, at
            if storage in point.full_writes:
                continue  # intact on this path
            for predecessor in self.flow.predecessors[at]:
                if predecessor not in seen:
                    seen.add(predecessor)
                    queue.append(predecessor)
        return None, -1

    def is_dead(self, tick: int, storage: int) -> bool:
        """Whether the plan says at a tick that nobody needs a storage's bytes."""
        if storage not in self.lifetimes:
            return False
        return not any(start <= tick < stop for start, stop in self.lifetimes[storage])

    def spoiler(self, point: Point, storage: int) -> int | None:
        """What a point writes over a storage that is lost after it; None if it leaves it as it is."""
        for writer, excused in self.holding.takers(point):
            if writer != storage and storage not in excused and self.meet(writer, storage):
                return writer
        return None

    def meet(self, a: int, b: int) -> bool:
        """Whether the plan has two storages share a byte."""
        return a in self.ranges and b in self.ranges and self.ranges[a].meets(self.ranges[b])
