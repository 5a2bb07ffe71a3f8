"""The parts of a picture, in ticks and bytes: no pixels, no colours, no fonts."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.ir.plan import ArenaUse, Plan
    from lowtide.outputs.picture.ram_bar import RamBar
    from lowtide.report.curve import Curve


@dataclass(frozen=True, slots=True)
class Rectangle:
    """One lifetime interval of one buffer: ticks ``[start, stop)``, bytes ``[offset, offset + size)``.

    ``buffer`` is the position in the problem's buffers.
    """

    buffer: int
    start: int
    stop: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Band:
    """One activation of a region: ticks ``[start, stop)``, ``depth`` regions inside the outermost."""

    region: str
    kind: str
    start: int
    stop: int
    depth: int


@dataclass(frozen=True, slots=True)
class PictureStep:
    """Ticks ``[start, stop)`` during which the same buffers are alive, and what happens then."""

    start: int
    stop: int
    name: str


@dataclass(frozen=True, slots=True)
class ArenaView:
    """One arena.

    Args:
        use: its bytes, live peak and lower bound.
        capacity: bytes that it may have, or None.
        reserved: bytes at the bottom that no buffer may use.
        rectangles: by buffer, then by start; buffers of no bytes have flat ones.
        live: live bytes over time, the reserved ones included; bytes that live buffers may share count once.
        bank: name of the bank that it is, of a plan with a memory map.
        alone: whether there is no other arena.
    """

    use: ArenaUse
    capacity: int | None
    reserved: int
    rectangles: tuple[Rectangle, ...]
    live: Curve
    bank: str | None = None
    alone: bool = True

    @property
    def label(self) -> str:
        """What a picture calls it: a bank by its name, an arena by its memory id if there are several."""
        if self.bank is not None:
            return f"bank {self.bank}"
        return "arena" if self.alone else f"arena {self.id}"

    @property
    def id(self) -> int:
        """Memory id."""
        return self.use.id

    @property
    def peak(self) -> tuple[int, int, int]:
        """The first stretch of ticks with the most live bytes, and how many: ``(start, stop, bytes)``."""
        if not self.live.ticks:
            return (0, 0, self.reserved)
        return (*self.live.lasts()[0], self.live.peak)

    @property
    def top(self) -> int:
        """The highest byte that a picture must show: of the arena, its capacity, live bytes and bound."""
        return max(self.use.bytes, self.capacity or 0, self.peak[2], self.use.lower_bound_bytes, 1)


@dataclass(frozen=True)
class Picture:
    """A plan as a picture: time across, bytes up.

    Args:
        title: what it is of, such as a file's name.
        plan: the plan; its buffers are what the rectangles refer to.
        start: first tick.
        stop: tick after the last.
        steps: sorted, without gaps, from ``start`` to ``stop``.
        bands: by start, what encloses first.
        arenas: in the order of ``plan.uses``.
        ram: all RAM of a device, if one was named.
    """

    title: str
    plan: Plan
    start: int
    stop: int
    steps: tuple[PictureStep, ...]
    bands: tuple[Band, ...]
    arenas: tuple[ArenaView, ...]
    ram: RamBar | None = None

    @property
    def depth(self) -> int:
        """How many rows the bands take."""
        return max((band.depth + 1 for band in self.bands), default=0)

    def step_at(self, tick: int) -> int:
        """Position of the step at a tick; the nearest if there is none.

        Raises:
            IndexError: the picture has no steps.
        """
        if not self.steps:
            raise IndexError("the picture has no steps")
        return max(0, bisect_right(self._starts, tick) - 1)

    @cached_property
    def _starts(self) -> list[int]:
        return [step.start for step in self.steps]

    def alive(self, tick: int) -> tuple[int, ...]:
        """Positions of the buffers that are alive at a tick, largest first."""
        buffers = self.plan.problem.buffers
        found = {
            rectangle.buffer
            for arena in self.arenas
            for rectangle in arena.rectangles
            if rectangle.start <= tick < rectangle.stop
        }
        return tuple(sorted(found, key=lambda i: (-buffers[i].size, i)))
