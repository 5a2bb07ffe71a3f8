"""diff: what one plan makes of memory that another does not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lowtide.api import plan_source
from lowtide.base.constants import DEFAULT_TIMEOUT
from lowtide.lifetimes.lowering import lower
from lowtide.pack.registry import Options
from lowtide.report.matching import match
from lowtide.report.peaks import find_peaks
from lowtide.sources import load, make_request

if TYPE_CHECKING:
    from lowtide.frontends.front_end import Source
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Buffer
    from lowtide.report.findings import Moment

ChangeKind = Literal["came", "went", "grew", "shrank", "moved"]


@dataclass(frozen=True, slots=True)
class BufferPlace:
    """A buffer in one of the plans: its name, size, arena and offset in bytes."""

    name: str
    bytes: int
    arena: int
    offset: int


@dataclass(frozen=True, slots=True)
class BufferChange:
    """A buffer that is not what, or where, it was.

    Args:
        kind: came, went; grew, shrank, whether it moved or not; moved: same size, another offset or arena.
        old, new: where it was and is; None where there is no such buffer.
        operator, source: what made it, of the new one if there is one.
    """

    kind: ChangeKind
    old: BufferPlace | None
    new: BufferPlace | None
    operator: str | None = None
    source: str | None = None

    @property
    def name(self) -> str:
        """The new name if there is one, else the old."""
        place = self.new or self.old
        assert place is not None
        return place.name

    @property
    def bytes(self) -> int:
        """By how much it grew."""
        return (self.new.bytes if self.new else 0) - (self.old.bytes if self.old else 0)


@dataclass(frozen=True, slots=True)
class ArenaChange:
    """One arena in both plans; 0 and None on the side that has no such arena.

    Args:
        arena: memory id.
        old_bytes, new_bytes: what the plans take.
        old_bound_bytes, new_bound_bytes: below which no plan is.
        old_peak, new_peak: where the most bytes are alive.
    """

    arena: int
    old_bytes: int
    new_bytes: int
    old_bound_bytes: int
    new_bound_bytes: int
    old_peak: Moment | None = None
    new_peak: Moment | None = None

    @property
    def differs(self) -> bool:
        """Whether its bytes or its bound are others."""
        return self.old_bytes != self.new_bytes or self.old_bound_bytes != self.new_bound_bytes


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two plans.

    Args:
        old, new: names of the files or programs.
        arenas: every arena of either, by memory id.
        changes: buffers that came, went, grew or shrank, the largest change first; then those that moved.
        unchanged: how many buffers have the same size and place as before.
    """

    old: str
    new: str
    arenas: tuple[ArenaChange, ...]
    changes: tuple[BufferChange, ...]
    unchanged: int

    @property
    def differs(self) -> bool:
        """Whether anything does."""
        return bool(self.changes) or any(arena.differs for arena in self.arenas)

    @property
    def old_bytes(self) -> int:
        """All arenas of the old plan."""
        return sum(arena.old_bytes for arena in self.arenas)

    @property
    def new_bytes(self) -> int:
        """All arenas of the new plan."""
        return sum(arena.new_bytes for arena in self.arenas)

    def to_json(self) -> str:
        """As JSON text; ``lowtide/schema/difference.schema.json`` describes it."""
        import lowtide

        return lowtide.to_json(self)

    def to_markdown(self) -> str:
        """As Markdown, fit for a comment on a pull request."""
        import lowtide

        return lowtide.to_markdown(self)


def diff(old: Any, new: Any, *, timeout: float | None = DEFAULT_TIMEOUT, **request: Any) -> Difference:
    """Compare two plans, or what two programs need.

    Plans are taken as they are; anything else is planned first, as ``lowtide.plan`` does by default.

    Args:
        old, new: plans, programs or paths, as for ``lowtide.plan``.
        timeout: seconds that search may take for each side that is not a plan yet.
        request: what is planned, as for ``lowtide.plan``.

    Raises:
        InputError: a source, or an option, cannot be used.
        UnsupportedError: a program holds something that cannot be planned; the message names it.
    """
    asked = make_request(request)
    sides = [load(source, asked) for source in (old, new)]
    options = Options(timeout=timeout)
    plans = [
        side.plan or plan_source(side, packer="auto", hierarchy="joint", options=options) for side in sides
    ]
    names = [
        os.path.basename(source) if isinstance(source, (str, os.PathLike)) else name
        for source, name in ((old, "old"), (new, "new"))
    ]
    return compare(plans[0], plans[1], (str(names[0]), str(names[1])), (sides[0], sides[1]))


def compare(
    old: Plan, new: Plan, names: tuple[str, str], sources: tuple[Source, Source] | None = None
) -> Difference:
    """Compare two plans; what they were loaded from lets the peaks be named by step."""
    changes: list[BufferChange] = []
    unchanged = 0
    for a, b in match(old.problem.buffers, new.problem.buffers):
        change = _change(_place(old, a), _place(new, b), _buffer(old, a, new, b))
        if change is None:
            unchanged += 1
        else:
            changes.append(change)
    changes.sort(key=lambda change: (change.kind == "moved", -abs(change.bytes)))
    peaks = []
    for side, plan in enumerate((old, new)):
        flow = None
        if sources is not None:
            program, flow = sources[side].program, sources[side].flow
            flow = flow if program is None else lower(program)
        peaks.append({peak.arena: peak.at for peak in find_peaks(plan.problem, flow, plan)})
    uses = [{use.id: use for use in plan.uses} for plan in (old, new)]
    arenas = []
    for id in sorted(uses[0].keys() | uses[1].keys()):
        before, after = uses[0].get(id), uses[1].get(id)
        arenas.append(
            ArenaChange(
                arena=id,
                old_bytes=before.bytes if before else 0,
                new_bytes=after.bytes if after else 0,
                old_bound_bytes=before.lower_bound_bytes if before else 0,
                new_bound_bytes=after.lower_bound_bytes if after else 0,
                old_peak=peaks[0].get(id),
                new_peak=peaks[1].get(id),
            )
        )
    return Difference(names[0], names[1], tuple(arenas), tuple(changes), unchanged)


def _place(plan: Plan, position: int | None) -> BufferPlace | None:
    if position is None:
        return None
    buffer = plan.problem.buffers[position]
    return BufferPlace(buffer.label, buffer.size, buffer.arena, plan.offsets[position])


def _buffer(old: Plan, a: int | None, new: Plan, b: int | None) -> Buffer:
    if b is not None:
        return new.problem.buffers[b]
    assert a is not None
    return old.problem.buffers[a]


def _change(old: BufferPlace | None, new: BufferPlace | None, buffer: Buffer) -> BufferChange | None:
    kind: ChangeKind
    if old is None:
        kind = "came"
    elif new is None:
        kind = "went"
    elif new.bytes != old.bytes:
        kind = "grew" if new.bytes > old.bytes else "shrank"
    elif (new.arena, new.offset) != (old.arena, old.offset):
        kind = "moved"
    else:
        return None
    return BufferChange(kind, old, new, buffer.operator, buffer.source)
