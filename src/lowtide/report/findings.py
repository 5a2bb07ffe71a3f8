"""What an explanation says: frozen values in bytes and ticks of the clock.

A *tick* is a position on the problem's timeline: of a program, one of its program points; of a list of
buffers, whatever their lifetimes count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lowtide.ir.device_memory import DeviceMemory
    from lowtide.ir.problem import Lifetime

AdviceKind = Literal[
    "packing",
    "inputs",
    "outputs",
    "constants",
    "copy",
    "copies",
    "delay",
    "wait",
    "in_place",
    "elide_copies",
    "split",
]


@dataclass(frozen=True, slots=True)
class Moment:
    """One tick, and what happens then.

    Args:
        tick: on the problem's clock.
        step: qualified name of the step; where there is no program, of the first buffer that begins there.
        bytes: alive at that tick in the arena, its reserved prefix included.
        operator, source: of the step, where they are known.
    """

    tick: int
    step: str
    bytes: int
    operator: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Touch:
    """A step that reads or writes a buffer.

    Args:
        step: its qualified name.
        tick: when it runs.
        away: steps between it and the peak, on the shortest path through branches and loops.
    """

    step: str
    tick: int
    away: int


@dataclass(frozen=True, slots=True)
class Alive:
    """A buffer that is alive at the peak.

    Args:
        name: to show a person.
        bytes: its size.
        lifetime: when it is alive, in ticks.
        written: the last step before the peak, or at it, that wrote it; None without a program.
        read: the next step after the peak, or at it, that reads it; None without a program.
        idle: whether the peak's step neither reads nor writes it; None without a program.
        wins: bytes by which the arena's live peak would fall if the buffer were gone.
        kind, region, dtype, shape, operator, source: of the buffer.
    """

    name: str
    bytes: int
    lifetime: Lifetime
    wins: int
    kind: str
    region: str
    dtype: str | None = None
    shape: tuple[int | str, ...] | None = None
    operator: str | None = None
    source: str | None = None
    written: Touch | None = None
    read: Touch | None = None
    idle: bool | None = None


@dataclass(frozen=True, slots=True)
class Peak:
    """Where one arena is fullest.

    Args:
        arena: memory id.
        bytes: the live peak, the reserved prefix included. Bytes that live buffers may share count once.
        lower_bound_bytes: no plan can be smaller; of a plan, what was proved of it.
        arena_bytes: what the plan takes; None if there is no plan.
        reserved: bytes at the bottom that no buffer may use.
        at: the first tick of the peak.
        lasts: every stretch of time in which as much is alive.
        alive: the buffers, largest first.
        next: the highest tick below the peak; a change to the peak's steps alone gets down to it at most.
        summits: the highest local maxima of the curve of live bytes, the peak itself first.
    """

    arena: int
    bytes: int
    lower_bound_bytes: int
    arena_bytes: int | None
    reserved: int
    at: Moment
    lasts: Lifetime
    alive: tuple[Alive, ...]
    next: Moment | None
    summits: tuple[Moment, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that lowers the live peak, tried out on the program: the peak was computed anew.

    Args:
        kind: packing: the plan is above its bound; inputs, outputs: keep them where the caller has them;
            constants: compute ahead of time what depends on constants alone; copy, copies: read what was
            copied instead; delay: run a step later; wait: do not keep a buffer while nobody uses it;
            in_place, elide_copies: plan with this technique; here ``peaks`` are the arenas of such a plan;
            split: run chains of steps in parts, which lowtide fit does, and plan with both techniques.
        subject: names of the steps or buffers that it is about.
        wins: bytes by which the live peaks of all arenas fall together.
        peaks: the live peak of each arena afterwards, by memory id.
        until: where kind is delay, the step before which the subject would run; wait: the step that reads it.
        costs: constants: bytes of constants that come instead.
        exact: whether the change does just this; else it wins at most so much, since what replaces the
            buffer meanwhile was not counted.
        macs: split: multiply-adds that it costs.
        work: split: multiply-adds over those of the program.
    """

    kind: AdviceKind
    subject: tuple[str, ...]
    wins: int
    peaks: Mapping[int, int]
    until: str | None = None
    costs: int = 0
    exact: bool = True
    macs: int = 0
    work: float = 1.0


@dataclass(frozen=True, slots=True)
class Share:
    """One kind of memory that a program takes, and whether the arena's figure holds it.

    Args:
        what: what it is.
        counted: whether the arena has room for it.
        bytes: how much; None if the file does not say.
        remark: what the figure means.
    """

    what: str
    counted: bool
    bytes: int | None
    remark: str


@dataclass(frozen=True, slots=True)
class BankShare:
    """What a bank of a memory map holds, and what it costs.

    Args:
        name, mem_id: of the bank.
        bytes: end of the highest buffer in it.
        capacity: bytes that it has.
        buffers: how many are in it.
        accessed_bytes: read and written in a run.
        cost: of these accesses, in the unit of the map.
        share: of the cost of all banks, from 0 to 1.
    """

    name: str
    mem_id: int
    bytes: int
    capacity: int
    buffers: int
    accessed_bytes: int
    cost: float
    share: float


@dataclass(frozen=True, slots=True)
class MoreRoom:
    """What a larger bank would win; a plan was made with it.

    Args:
        bank: its name.
        more_bytes: by how much it would be larger.
        saves: by how much a run would cost less.
        buffers: names of what would move up to it, the largest first.
    """

    bank: str
    more_bytes: int
    saves: float
    buffers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where the memory goes, and what would lower the peak.

    Args:
        name: of the file or program.
        buffers: how many are planned.
        followed: whether there was a program to follow; without one only lifetimes are known.
        peaks: one for each arena that holds anything.
        advice: what wins most comes first.
        memory: what the arena holds and what it does not.
        arena_bytes: of the plan that the source has, or else of one that was made; None if none fits.
        lower_bound_bytes: that no plan of this kind can be below; None where there is no plan.
        banks: of the memory map, fastest first; empty without one.
        more_room: what larger banks would win.
        ram: everything that it takes on a device, if one was named.
    """

    name: str
    buffers: int
    followed: bool
    peaks: tuple[Peak, ...]
    advice: tuple[Advice, ...]
    memory: tuple[Share, ...]
    arena_bytes: int | None = None
    lower_bound_bytes: int | None = None
    banks: tuple[BankShare, ...] = ()
    more_room: tuple[MoreRoom, ...] = ()
    ram: DeviceMemory | None = None

    @property
    def peak_bytes(self) -> int:
        """The live peaks of all arenas together."""
        return sum(peak.bytes for peak in self.peaks)

    def to_json(self) -> str:
        """As JSON text; ``lowtide/schema/explanation.schema.json`` describes it."""
        import lowtide

        return lowtide.to_json(self)

    def to_markdown(self) -> str:
        """As Markdown, fit for a comment on a pull request."""
        import lowtide

        return lowtide.to_markdown(self)
