"""An oracle for plans of what has program points and no regions, such as the instructions of a file.

The points are walked as they stand, every byte a token, in a planned arena, on one path at a time. It shares
no code with liveness, coalescing or the verifier.
"""

from __future__ import annotations

from collections import Counter

from lowtide.ir.flow import FlowGraph, Point
from lowtide.ir.plan import Plan
from lowtide.testing.machine import Choose
from lowtide.testing.memory import Dead, Memory
from lowtide.testing.worst import Copied, operate

MOST_VISITS = 3
"""From its so-manieth visit on a point goes the way that leads furthest, so that every loop ends."""


class PointWalker:
    """Runs program points in a plan's arena.

    Args:
        flow: the program points.
        plan: where storages are, and when it says that they are dead.
        choose: decides every turn.
        seed: of which bytes partial writes touch.
        dead: what is known of dead bytes by tick, shared by runs of one plan; filled as they go.
    """

    def __init__(
        self, flow: FlowGraph, plan: Plan, choose: Choose, seed: int = 0, dead: dict[int, Dead] | None = None
    ) -> None:
        self.flow, self.choose = flow, choose
        self.bytes = Memory(flow.program, plan, seed, {} if dead is None else dead)
        self.written: set[int] = set()

    def run(self, times: int = 1) -> None:
        """So many invocations in a row.

        Raises:
            WrongByteError: a read finds wrong bytes.
        """
        storages = self.flow.program.storages
        for _ in range(times):
            kept = {s for s in self.written if storages[s].persistent}
            self.written = kept | {s for s, storage in enumerate(storages) if storage.kind == "constant"}
            visits: Counter[int] = Counter()
            tick = 0
            while True:
                self.bytes.poison(tick)
                self.perform(tick, kept if tick == 0 else set())
                self.bytes.poison(tick)
                ways = self.flow.points[tick].successors
                if not ways:
                    break
                visits[tick] += 1
                if len(ways) > 1 and visits[tick] < MOST_VISITS:
                    tick = ways[self.choose(len(ways))]
                else:
                    tick = max(ways)

    def perform(self, tick: int, kept: set[int]) -> None:
        """What happens at a point; what is ``kept`` from the last invocation is not written anew."""
        point, where = self.flow.points[tick], f"{self.flow.describe(tick)} (tick {tick})"
        # On this path a pointer may never have pointed to all of what a read names.
        reads = [s for s in point.all_reads if s in self.written]
        held = set(point.reads)
        for copy in point.copies:  # all at once: what is only copied from is read before anything is written
            for source in copy.source_storages:
                if source in self.written:
                    self.bytes.check(source, where)
        whole = [s for s in dict.fromkeys(point.full_writes) if s not in kept]
        some = list(dict.fromkeys(point.partial_writes))
        copied = {storage: self.copied(point, storage) for storage in whole}
        stay = [s for s in reads if s in held]
        operate(self.bytes, where, stay, whole, some, self.written_over(point), copied)
        self.written.update(whole, some)

    def written_over(self, point: Point) -> dict[int, set[int]]:
        """By storage written, those read that lie in exactly its bytes, where the kernel allows that."""
        place, sizes = self.bytes.place, self.bytes.sizes
        found: dict[int, set[int]] = {}
        for written, read in point.overwrites:
            if written in place and place[written] == place.get(read) and sizes[written] == sizes[read]:
                found.setdefault(written, set()).add(read)
        return found

    def copied(self, point: Point, written: int) -> list[Copied]:
        """What a storage copies; not what no path has written yet."""
        sizes = self.bytes.sizes
        found = [
            Copied(0, copy.source_storages[0], 0, sizes[written])
            for copy in point.copies
            if copy.target_storage == written and copy.same_layout and len(copy.source_storages) == 1
        ]
        for same in point.matches:
            if same.inner == written:
                found.append(Copied(0, same.outer, same.distance, sizes[written]))
            elif same.outer == written:
                found.append(Copied(same.distance, same.inner, 0, sizes[same.inner]))
        return found
