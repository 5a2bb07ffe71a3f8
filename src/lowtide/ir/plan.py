"""What planning found: Plan, and what it says of each arena.

A Plan is a Problem with its offsets and what was proved about them: a frozen, comparable, serialisable
value. Its methods ``verify`` and ``to_json`` are short for the functions of the package's face, so that this
module knows of neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError, LowtideError
from lowtide.base.frozen import freeze

if TYPE_CHECKING:
    from lowtide.ir.problem import Problem


@dataclass(frozen=True, slots=True)
class ArenaUse:
    """What a plan makes of one arena, in bytes.

    Args:
        bytes: end of the highest buffer, or the reserved prefix if that is larger.
        live_peak_bytes: the most bytes alive at any time, reserved prefix included.
        lower_bound_bytes: no plan can be smaller than this.
    """

    id: int
    bytes: int
    live_peak_bytes: int
    lower_bound_bytes: int


@dataclass(frozen=True, slots=True)
class BankUse:
    """What a plan makes of one bank of a memory map; its bytes are those of the arena with its memory id.

    Args:
        name, mem_id, alignment, read_cost, write_cost: of the bank.
        read_bytes, written_bytes: of its buffers in a run.
    """

    name: str
    mem_id: int
    alignment: int
    read_cost: float
    write_cost: float
    read_bytes: int
    written_bytes: int

    @property
    def accessed_bytes(self) -> int:
        """Bytes read and written in a run."""
        return self.read_bytes + self.written_bytes

    @property
    def cost(self) -> Fraction:
        """Of all accesses in a run."""
        reading, writing = Fraction(repr(self.read_cost)), Fraction(repr(self.write_cost))
        return self.read_bytes * reading + self.written_bytes * writing


@dataclass(frozen=True, slots=True)
class Progress:
    """One improvement on the way: seconds since the start, arena bytes and proved bound then."""

    seconds: float
    arena_bytes: int
    lower_bound_bytes: int


@dataclass(frozen=True, slots=True)
class Applied:
    """A step of which a plan makes more than lifetimes do.

    Args:
        step: qualified name.
        technique: ``in-place`` (the output lies exactly over an input that dies), ``elided-copy`` (what the
            step copies is where it belongs already), ``reordered`` (it runs at another time) or ``folded``
            (it is a constant).
        written, read: names of the storages that share bytes; empty where that is not the point.
    """

    step: str
    technique: str
    written: str = ""
    read: str = ""


@dataclass(frozen=True)
class Plan:
    """A Problem with an offset for every buffer, and what was proved.

    Args:
        problem: what was asked.
        offsets: bytes from the start of the buffer's arena, in the order of ``problem.buffers``.
        uses: one entry an arena, in the order of ``problem.arenas``.
        packer: name of the packer that found it.
        hierarchy: policy under which it was found.
        object_ids: shared object of each buffer within its arena, where the packer works with such.
        seconds: time that planning took; not compared.
        history: how the plan improved; not compared.
        banks: what it makes of the banks of a memory map, in the map's order; empty without one.
        cost_bound: no plan of the problem costs less, given the map; None without one.
        applied: where the plan uses more than lifetimes, for reports; not compared.
        interrupted: whether Ctrl-C cut planning short, so that more time might find more; not compared.
        extra: what a front end or a technique adds, by its namespace, each with a ``version`` of its own;
            JSON values, which the plan's JSON carries on whoever knows them; not compared.

    Raises:
        InputError: an entry of ``extra`` has no version, or is not JSON.
    """

    problem: Problem
    offsets: tuple[int, ...]
    uses: tuple[ArenaUse, ...]
    packer: str
    hierarchy: str = "joint"
    object_ids: tuple[int | None, ...] | None = None
    banks: tuple[BankUse, ...] = ()
    cost_bound: float | None = None
    seconds: float = field(default=0.0, compare=False)
    history: tuple[Progress, ...] = field(default=(), compare=False)
    interrupted: bool = field(default=False, compare=False)
    applied: tuple[Applied, ...] = field(default=(), compare=False)
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        extra = freeze(self.extra, "extra")
        for namespace, entry in extra.items():
            version = entry.get("version") if isinstance(entry, Mapping) else None
            if type(version) is not int or version < 1:
                raise InputError(f"extra.{namespace}: needs fields, and a version: a whole number from 1 on")
        object.__setattr__(self, "extra", extra)

    @property
    def arena_bytes(self) -> int:
        """Bytes of all arenas together."""
        return sum(use.bytes for use in self.uses)

    @property
    def arenas(self) -> dict[int, int]:
        """Bytes of each arena by memory id."""
        return {use.id: use.bytes for use in self.uses}

    @property
    def live_peak_bytes(self) -> int:
        """The most bytes alive at any time, summed over arenas."""
        return sum(use.live_peak_bytes for use in self.uses)

    @property
    def lower_bound_bytes(self) -> int:
        """No plan of this problem can be smaller; summed over arenas."""
        return sum(use.lower_bound_bytes for use in self.uses)

    @property
    def is_optimal(self) -> bool:
        """Whether every arena is proved to be as small as it can be."""
        return all(use.bytes == use.lower_bound_bytes for use in self.uses)

    @property
    def cost(self) -> float | None:
        """Bytes accessed in a run times what each costs in its bank; None without a memory map."""
        return float(sum((bank.cost for bank in self.banks), Fraction())) if self.banks else None

    def bank_of(self, i: int) -> str | None:
        """Name of the bank that the buffer at a position is in, if it is in one."""
        arena = self.problem.buffers[i].arena
        return next((bank.name for bank in self.banks if bank.mem_id == arena), None)

    @cached_property
    def names(self) -> dict[str, int]:
        """Position of the buffer that goes by each id, name, or member's name."""
        names: dict[str, int] = {}
        for i, buffer in enumerate(self.problem.buffers):
            for name in (*buffer.members, buffer.name, buffer.id):
                if name:
                    names.setdefault(name, i)
        return names

    def position_of(self, name: str) -> int:
        """Position in ``problem.buffers`` of the buffer that holds ``name``.

        Raises:
            LowtideError: the plan has no such buffer.
        """
        try:
            return self.names[name]
        except KeyError:
            raise LowtideError(f"the plan has no buffer {name!r}: plan.problem.buffers lists them") from None

    def offset_of(self, name: str) -> int:
        """Offset in bytes of the buffer called ``name``: an id, a name, or a storage that shares it."""
        return self.offsets[self.position_of(name)]

    def verify(self) -> int:
        """Check lifetimes against offsets; return how many pairs of buffers reuse each other's bytes.

        Raises:
            VerificationError: the plan is wrong.
        """
        import lowtide

        return lowtide.verify(self).reuse_pairs

    def to_json(self) -> str:
        """The plan as JSON text; ``lowtide.formats.json.reading.plan_from_json`` is the way back."""
        import lowtide

        return lowtide.to_json(self)
