"""Where a method's tensors go under a memory map: memory ids change, and accesses cost the least.

The arenas whose ids are those of banks, and the default one, are given up: their tensors may go to any bank.
What lies in other arenas stays where it is, and so does state that other methods may look for.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_ARENA
from lowtide.base.errors import InfeasibleError, UnsupportedError
from lowtide.base.files import show_name
from lowtide.base.units import amount
from lowtide.frontends.front_end import RewrittenArena
from lowtide.frontends.pte.flow import layout_of, own_layout
from lowtide.frontends.pte.methods import Place
from lowtide.frontends.pte.moving import Moved, Mover
from lowtide.ir.problem import align_up
from lowtide.lifetimes.accesses import storage_accesses
from lowtide.pack.banks.pins import placed_banks, with_readers
from lowtide.pack.techniques import Techniques

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lowtide.frontends.pte.analysis import Analysis
    from lowtide.frontends.pte.flow import Layout
    from lowtide.frontends.pte.methods import Method
    from lowtide.ir.memory_map import Bank, MemoryMap
    from lowtide.ir.plan import Plan


def freed_memories(method: Method, memory: MemoryMap) -> frozenset[int]:
    """Memory ids whose tensors a map may move.

    Raises:
        UnsupportedError: the method has tensors on devices, whose memory ids would be taken for banks.
    """
    devices = [
        entry.buffer_idx
        for entry in method.plan.non_const_buffer_device or ()
        if entry.device_type.name != "CPU"
    ]
    if devices:
        raise UnsupportedError(
            f"method {show_name(method.name)}: memory id {devices[0]} is a device's, and a memory map is of "
            "the CPU's memory: leave it out"
        )
    return frozenset({DEFAULT_ARENA, *memory.by_id})


class BankMover(Mover):
    """Decides about one method: every tensor goes to a bank."""

    def __init__(
        self,
        analysis: Analysis,
        alignment: int | None,
        unsafe: bool,
        shared: frozenset[int],
        others: list[Place] | None,
        memory: MemoryMap,
    ) -> None:
        super().__init__(analysis, alignment, unsafe, shared, others)
        self.memory = memory
        self.freed = freed_memories(self.method, memory)
        self.padding = max((self.slack(id) for id in self.memories if id in self.freed), default=0)
        self.memory_map = memory.without(self.padding)
        self.unit = dict.fromkeys(
            self.memories, max((self.unit[id] for id in self.memories), default=self.asked)
        )
        self.refuse_shared()

    def refuse_shared(self) -> None:
        """Refuse a map under which other methods would not find their state where they look for it."""
        assert self.memory_map is not None
        name, banks = show_name(self.method.name), self.memory_map.by_id
        both = sorted(self.shared & banks.keys() & {*self.memories})
        if both:
            raise UnsupportedError(
                f"method {name}: memory id {both[0]} holds state that other methods may share, so nothing in "
                "it can move: give the bank another mem_id"
            )
        if self.others is None:
            return
        state = [self.old[value] for value in self.analysis.views.state if value in self.old]
        for place in (*state, *self.others):
            bank = banks.get(place.memory)
            if bank is None and place.memory not in self.freed:
                continue
            if bank is None or not (bank.reserved <= place.start and place.stop <= bank.size):
                raise UnsupportedError(
                    f"method {name}: state lies in {place}, where several methods may look for it: give a "
                    f"bank that has these bytes, padding aside, mem_id = {place.memory}"
                )

    def layout(self, choice: Techniques) -> Layout:
        """The method's buffers, of which those that may move are in no particular arena."""
        return layout_of(
            self.analysis,
            self.unit,
            in_place=choice.in_place,
            elide_copies=choice.elide_copies,
            freed=self.freed,
        )

    def idle(self, old: Place) -> Place:
        """At the bottom of the slowest bank that has room; the runtime wants a place for every tensor."""
        if old.memory not in self.freed:
            return old
        assert self.memory_map is not None
        size = old.stop - old.start
        for bank in sorted(self.memory_map.banks, key=lambda bank: -sum(bank.costs)):
            start = align_up(bank.reserved, max(self.asked, bank.alignment))
            if start + size <= bank.size:
                return Place(bank.mem_id, start, start + size)
        raise InfeasibleError(
            f"method {show_name(self.method.name)}: a tensor that nothing touches has {amount(size)} and "
            "fits in no bank"
        )

    def settle(self, plan: Plan, places: dict[int, Place]) -> Moved:
        """Sizes for the banks; the file's own places if they are as good as what was found."""
        places.update({v: old for v, old in self.old.items() if old.memory not in self.freed})
        sizes = {id: size for id, size in self.method.arenas.items() if id not in self.freed}
        for bank in self.memory.banks:
            size = self.filled(places, bank)
            sizes[bank.mem_id] = size + self.padding if size else 0
        if not self.unsafe and self.is_as_good(plan, sizes):
            places, sizes = dict(self.old), dict(self.method.arenas)
        kept = places == self.old and _filled(sizes) == _filled(self.method.arenas)
        for bank in self.memory.banks:
            if sizes.get(bank.mem_id, 0) > bank.size:
                raise InfeasibleError(
                    f"method {show_name(self.method.name)}: bank {bank.name!r} would hold "
                    f"{amount(sizes[bank.mem_id])}, padding included, and has {amount(bank.size)}"
                )
        changes = tuple(self.changes(plan, sizes, kept))
        return Moved(places, sizes, changes, None if kept else plan)

    def filled(self, places: dict[int, Place], bank: Bank) -> int:
        """Bytes up to the end of the last tensor in a bank; 0 if there is none with any bytes."""
        ends = [p.stop for p in places.values() if p.memory == bank.mem_id and p.stop > p.start]
        return align_up(max(ends, default=0), self.asked)

    def changes(self, plan: Plan, sizes: dict[int, int], kept: bool) -> Iterator[RewrittenArena]:
        bounds = {use.id: use.lower_bound_bytes for use in plan.uses}
        for id in sorted({*self.method.arenas, *sizes}):
            before, after = self.method.arenas.get(id, 0), sizes.get(id, 0)
            if not before and not after:
                continue
            slack = self.padding if id in self.freed else self.slack(id)
            bound = min(bounds.get(id, 0) + slack, after)
            reason = "" if id in self.freed else "it is no bank's"
            if kept:
                reason = reason or "no plan was found that costs less"
            yield RewrittenArena(self.method.name, id, before, after, bound, slack if after else 0, reason)

    def is_as_good(self, plan: Plan, sizes: dict[int, int]) -> bool:
        """Whether the file's own places are within the map, and cost no more, or as much in no more bytes."""
        own = self.own_cost()
        if own is None or plan.cost is None:
            return False
        before = sum(size for id, size in self.method.arenas.items() if id in self.freed)
        after = sum(size for id, size in sizes.items() if id in self.freed)
        return own < plan.cost or (own == plan.cost and before <= after)

    def own_cost(self) -> Fraction | None:
        """What accesses cost where the file has its tensors; None if the map does not allow that."""
        banks = self.memory.by_id
        for place in self.old.values():
            bank = banks.get(place.memory)
            misplaced = bank is None or place.start < bank.reserved or place.start % bank.alignment
            if place.memory in self.freed and place.stop > place.start and misplaced:
                return None
        for id, size in self.method.arenas.items():
            if size and id in self.freed and (id not in banks or size > banks[id].size):
                return None
        layout = self.layout(Techniques())
        here = own_layout(self.analysis, self.unit)
        for position, bank in placed_banks(here.problem, with_readers(self.memory, here.flow)).items():
            if here.problem.buffers[position].arena != bank.mem_id:
                return None
        cost = Fraction(0)
        counted = storage_accesses(layout.problem, layout.flow)
        # Views show a storage that has its place already.
        places = {
            (layout.storage[value], place.memory)
            for value, place in self.old.items()
            if value in layout.storage
        }
        for storage, memory in places:
            if memory in banks:
                reading, writing = banks[memory].costs
                cost += counted[storage][0] * reading + counted[storage][1] * writing
        return cost


def _filled(sizes: dict[int, int]) -> dict[int, int]:
    """Arenas that have any bytes."""
    return {id: size for id, size in sizes.items() if size}
