"""All bytes of a program twice: every storage apart, and planned ones at their places in a plan's arenas.

A byte is a token, and every write makes new ones, so that two bytes are equal only where they should be.
"""

from __future__ import annotations

from itertools import count

from lowtide.base.errors import InputError, LowtideError
from lowtide.ir.plan import Plan
from lowtide.ir.program import Program

UNBOUNDED_BYTES = 4
"""What a storage without a bound takes here; it is never planned."""

Dead = list[tuple[int, int]]
"""Arena and offset of bytes that a plan leaves to nobody at some tick."""


class WrongByteError(LowtideError):
    """A read finds other bytes in the arena than were written."""


class Memory:
    """The bytes of a program under a plan.

    Args:
        program: its storages.
        plan: where they are, and when it says that they are dead.
        seed: of which bytes partial writes touch.
        dead: what is known of dead bytes by tick, shared by runs of one plan; filled as they go.

    Raises:
        InputError: the plan has a buffer of something else.
    """

    def __init__(self, program: Program, plan: Plan, seed: int, dead: dict[int, Dead]) -> None:
        self.program, self.plan = program, plan
        self.fresh = count(1)
        self.noise = seed
        self.sizes = [UNBOUNDED_BYTES if s.size is None else s.size for s in program.storages]
        self.apart = [self.tokens(size) for size in self.sizes]
        self.place: dict[int, tuple[int, int]] = {}
        self.buffer: dict[int, int] = {}
        position = {storage.name: i for i, storage in enumerate(program.storages)}
        for k, (buffer, offset) in enumerate(zip(plan.problem.buffers, plan.offsets, strict=True)):
            for name in buffer.members or (buffer.id,):
                if name not in position:
                    raise InputError(f"the plan is of something else: {program.name} has no {name!r}")
                self.place[position[name]] = (buffer.arena, offset)
                self.buffer[position[name]] = k
        ends: dict[int, int] = {}
        for storage, (arena, start) in self.place.items():
            ends[arena] = max(ends.get(arena, 0), start + self.sizes[storage])
        self.arenas = {arena: self.tokens(end) for arena, end in ends.items()}
        self.touched: set[int] = set()
        self.dead = dead

    def tokens(self, size: int) -> list[int]:
        return [next(self.fresh) for _ in range(size)]

    def random(self, below: int) -> int:
        """A cheap pseudo-random number (a linear congruential generator, Knuth's MMIX)."""
        self.noise = (self.noise * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.noise >> 33) % below

    def write(self, storage: int, tokens: list[int]) -> None:
        self.touched.add(storage)
        self.apart[storage] = list(tokens)
        if storage in self.place:
            arena, start = self.place[storage]
            self.arenas[arena][start : start + len(tokens)] = tokens

    def scribble(self, storage: int, spared: set[int]) -> None:
        """New tokens for all bytes of the arena that a write will reach, but for some."""
        if storage in self.place:
            arena, start = self.place[storage]
            for k in range(self.sizes[storage]):
                if k not in spared:
                    self.arenas[arena][start + k] = next(self.fresh)

    def write_some(self, storage: int) -> None:
        """New tokens for all bytes, or for a random run of them."""
        self.touched.add(storage)
        size = self.sizes[storage]
        first, last = (0, size) if self.random(2) else (self.random(size + 1), self.random(size + 1))
        for k in range(min(first, last), max(first, last)):
            token = next(self.fresh)
            self.apart[storage][k] = token
            if storage in self.place:
                arena, start = self.place[storage]
                self.arenas[arena][start + k] = token

    def check(self, storage: int, where: str) -> None:
        if storage not in self.place:
            return
        arena, start = self.place[storage]
        if start % self.program.storages[storage].alignment:
            raise WrongByteError(f"{where}: {self.program.storages[storage].name} is misaligned")
        if self.arenas[arena][start : start + self.sizes[storage]] != self.apart[storage]:
            raise WrongByteError(f"{where} reads wrong bytes of {self.program.storages[storage].name}")

    def dead_at(self, tick: int) -> Dead:
        """Bytes that no buffer alive at a tick covers."""
        alive: set[tuple[int, int]] = set()
        for buffer, offset in zip(self.plan.problem.buffers, self.plan.offsets, strict=True):
            if any(start <= tick < stop for start, stop in buffer.lifetime):
                alive.update((buffer.arena, offset + k) for k in range(buffer.size))
        return [(a, k) for a, arena in self.arenas.items() for k in range(len(arena)) if (a, k) not in alive]

    def poison(self, tick: int) -> None:
        if tick not in self.dead:
            self.dead[tick] = self.dead_at(tick)
        for arena, k in self.dead[tick]:
            self.arenas[arena][k] = -1
