"""The search: from what costs nothing to what costs work, until the program fits.

Each rung is packed as the runtime's planner will pack it, and kept only if that arena is smaller: packing,
outputs over dying inputs, copies left out, constants folded, rewrites, another order, parts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lowtide.transforms.copying import copy_program
from lowtide.transforms.fit.sources import number_sources
from lowtide.transforms.fit.stamp import Stamp, put_stamp, stamp_of
from lowtide.transforms.fit.values import Allowed, FitStep, Found
from lowtide.transforms.folding import fold_constants
from lowtide.transforms.rewrites import rewrite
from lowtide.transforms.split import split_to_fit
from lowtide.transforms.split.search import Search
from lowtide.transforms.split.work import total_macs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torch.export import ExportedProgram

    from lowtide.transforms.fit.values import Limits, Packed, StepKind, Target
    from lowtide.transforms.rewrites import Win
    from lowtide.transforms.split import Fitting, SplitStep


_NOTHING = Allowed(in_place=False, elide_copies=False)
_POINTS, _SHRINK = 40, 0.9
"""So many limits are asked for, each this much of the one before."""

_KEPT = 0.25
"""Of the time, kept back for packing what the search for parts has found."""


def fit_program(
    program: ExportedProgram,
    target: Target,
    limits: Limits,
    *,
    rules: Iterable[str] | None = None,
    progress: Callable[[str, int], None] | None = None,
    trade: bool = False,
) -> Found:
    """Find the cheapest way to make a program fit; the program itself is left as it is.

    Args:
        program: an export in the operators of the target's dialect.
        target: the runtime.
        limits: what may be spent, and when it is good enough.
        rules: names of the rewrites that are tried; all that there are if not given.
        progress: told what is tried, and the smallest arena so far.
        trade: whether the front is looked for from end to end, and not only on the way to the answer.

    An interrupt (Ctrl-C) ends the search with the best that it has found by then.

    Raises:
        InfeasibleError, UnsupportedError: the program cannot be planned for this runtime.
    """
    ladder = _Ladder(program, target, limits, progress, trade)
    ladder.climb(None if rules is None else tuple(rules))
    return ladder.found()


@dataclass(frozen=True)
class _Place:
    """Where a search stands: a program, its plan and work, the steps that led there, and what parts found."""

    program: ExportedProgram
    packed: Packed
    macs: int
    steps: tuple[FitStep, ...]
    whole: ExportedProgram
    front: tuple[tuple[int, int], ...]
    barriers: tuple[str, ...]


@dataclass
class _Ladder:
    """The state of a search."""

    program: ExportedProgram
    target: Target
    limits: Limits
    progress: Callable[[str, int], None] | None
    trade: bool
    steps: list[FitStep] = field(default_factory=list)
    complete: bool = True
    interrupted: bool = False
    front: tuple[tuple[int, int], ...] = ()
    barriers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.given = self.whole = self.program
        self.stamp = stamp_of(self.program)
        own = total_macs(list(self.program.graph.nodes))
        self.macs_before = self.stamp.macs if self.stamp is not None else own
        self.macs = own
        self.allowed = _NOTHING
        self.unwritten: _Place | None = None
        self.before = self.packed = self.target.before(self.program)

    @property
    def fits(self) -> bool:
        """Whether there is nothing left to do."""
        return self.limits.max_arena is not None and self.packed.arena_bytes <= self.limits.max_arena

    def climb(self, rules: tuple[str, ...] | None) -> None:
        """Every rung, until it fits."""
        try:
            self._planning()
            if self.stamp is not None and self.stamp.covers(self.target.name, self.limits):
                if self.trade:
                    self._look_for_trade()
                return
            self.whole = self.program
            for rung in (self._folding, lambda: self._rewrites(rules), self._order, self._parts):
                if self.fits:
                    break
                rung()
            if self.trade:
                self._look_for_trade()
        except KeyboardInterrupt:
            self.interrupted, self.complete = True, False

    def _say(self, what: str) -> None:
        if self.progress is not None:
            self.progress(what, self.packed.arena_bytes)

    def _planning(self) -> None:
        """What the planner can do by itself, a technique at a time."""
        for kind, allowed in (
            ("packing", _NOTHING),
            ("in_place", replace(_NOTHING, in_place=True)),
            ("elide_copies", Allowed()),
        ):
            if self.fits and kind != "packing":
                return
            self._say(f"planning with {kind.replace('_', ' ')}")
            self._take(kind, self.program, self.target.pack(self.program, allowed), allowed)  # type: ignore[arg-type]
        self.allowed = Allowed()

    def _folding(self) -> None:
        self._say("folding constants")
        folded = fold_constants(self.program, limit=self.limits.fold_limit, dense=not self.target.has_views)
        if folded.constants:
            packed = self.target.pack(folded.program, self.allowed)
            self._take("folding", folded.program, packed, nodes=folded.steps, file_bytes=folded.file_bytes)

    def _rewrites(self, rules: tuple[str, ...] | None) -> None:
        """Operators said in a way that takes less; each that won is a step of its own."""
        self._say("rewriting operators")
        packed: dict[int, Packed] = {}

        def judge(candidate: ExportedProgram) -> int:
            found = self.target.pack(candidate, self.allowed)
            packed[found.arena_bytes] = found
            return found.arena_bytes

        found = rewrite(
            self.program,
            allow_rounding=self.limits.allow_rounding,
            rules=rules,
            judge=judge,
            kernels=self.target.kernels,
        )
        if found.arena_after >= self.packed.arena_bytes:
            return
        self.unwritten = self._place()
        self.steps += _rewrite_steps(found.wins)
        before, self.macs = self.macs, total_macs(list(found.program.graph.nodes))
        self.steps[-1] = replace(self.steps[-1], macs=self.macs - before)
        self.program, self.packed = found.program, packed[found.arena_after]

    def _order(self) -> None:
        self._say("moving steps")
        ordered = self.target.ordered(self.program)
        if ordered is not None:
            packed = self.target.pack(ordered, self.allowed)
            self._take("order", ordered, packed, nodes=_moved(self.program, ordered))

    def _place(self) -> _Place:
        steps = tuple(self.steps)
        return _Place(self.program, self.packed, self.macs, steps, self.whole, self.front, self.barriers)

    def _go_to(self, place: _Place) -> None:
        self.program, self.packed, self.macs = place.program, place.packed, place.macs
        self.steps, self.whole = list(place.steps), place.whole
        self.front, self.barriers = place.front, place.barriers

    def _parts(self) -> None:
        """Run chains in parts, of the program as it was before it was rewritten too.

        A rewrite may put parts of its own where longer chains could run in parts.
        """
        if self.unwritten is None:
            self._parts_within(self._time_left())
            return
        written, left = self._place(), self._time_left()
        self._go_to(self.unwritten)
        self._parts_within(None if left is None else left / 2)
        first = self._place()
        if self.fits or (self.interrupted and first.packed.arena_bytes < written.packed.arena_bytes):
            return
        self._go_to(written)
        if not self.interrupted:
            self._parts_within(self._time_left())
        if first.packed.arena_bytes < self.packed.arena_bytes:
            self._go_to(first)

    def _parts_within(self, left: float | None) -> None:
        """Run chains of steps part by part; what was packed by an interrupt is not lost."""
        self._say("looking for chains to run in parts")
        self.whole = self.program
        budget = self.macs_before * self.limits.max_macs
        if self.macs and budget < self.macs:
            return
        tried: list[tuple[int, int, ExportedProgram]] = []
        judged = replace(self.allowed, reorder=True)

        deadline = None if left is None else time.monotonic() + left
        searched = 0.0  # until when: packing may take longer than the search was given

        def judge(candidate: ExportedProgram) -> int:
            nonlocal searched
            searched = time.monotonic()
            arena = self.target.pack(candidate, judged).arena_bytes
            tried.append((arena, len(tried), candidate))
            if self.progress is not None:
                self.progress(f"running chains in parts, {len(tried)} tried", min(tried)[0])
            return arena

        found: Fitting | None = None
        base, folding = self._folded_base()
        try:
            found = split_to_fit(
                base,
                self.target.dialect,
                judge,
                max_arena=self.limits.max_arena,
                max_macs=max(budget / self.macs, 1.0) if self.macs else self.limits.max_macs,
                timeout=left,
            )
            changed = found.program
            self.front, self.barriers = found.front, found.barriers
        except KeyboardInterrupt:
            self.interrupted, self.complete = True, False
            changed = min(tried)[2] if tried else base
        if len(tried) < 2:
            searched = time.monotonic()
        if deadline is not None and searched > deadline:
            self.complete = False
        if changed is base:
            return
        best, packed = self._in_order(changed, min(tried)[0])
        macs = total_macs(list(best.graph.nodes))
        if folding is not None and packed.arena_bytes < self.packed.arena_bytes:
            self.steps.append(folding)
        self._take(
            "split",
            best,
            packed,
            nodes=_replaced(base, best, () if found is None else found.steps),
            macs=macs - self.macs,
            parts=() if found is None else found.steps,
        )

    def _folded_base(self) -> tuple[ExportedProgram, FitStep | None]:
        """The program to run in parts, folded even if that wins nothing yet: its peak may be elsewhere."""
        folded = fold_constants(self.program, limit=self.limits.fold_limit, dense=not self.target.has_views)
        if (
            not folded.constants
            or self.target.pack(folded.program, self.allowed).arena_bytes > self.packed.arena_bytes
        ):
            return self.program, None
        remark = "wins with the parts alone"
        step = FitStep(
            "folding",
            tuple(folded.steps),
            self.packed.arena_bytes,
            0,
            file_bytes=folded.file_bytes,
            remark=remark,
        )
        return folded.program, step

    def _look_for_trade(self) -> None:
        """The front from the peak of the program without parts down to what its work allows."""
        self._say("looking for the trade of bytes against multiply-adds")
        deadline = None if self.limits.timeout is None else time.monotonic() + self.limits.timeout / 2
        search = Search(self.whole, self.limits.max_macs, deadline)
        points = {(search.whole_peak, search.macs), *self.front}
        limit = search.whole_peak
        for _ in range(_POINTS):
            limit = int(limit * _SHRINK)
            found = None if search.is_late else search.within(limit)
            if found is None:
                break
            points.add((found.peak, search.macs + found.macs))
            limit = min(limit, found.peak)
        self.front = _least(points)

    def _in_order(self, program: ExportedProgram, judged: int) -> tuple[ExportedProgram, Packed]:
        """A program in the order for which its arena was judged, so that planning need not find it again."""
        ordered = self.target.ordered(program)
        if ordered is not None:
            packed = self.target.pack(ordered, self.allowed)
            if packed.arena_bytes <= judged:
                return ordered, packed
        plain = self.target.pack(program, self.allowed)
        if ordered is not None and packed.arena_bytes < plain.arena_bytes:
            return ordered, packed
        return program, plain

    def _time_left(self) -> float | None:
        if self.limits.timeout is None:
            return None
        return max(self.limits.timeout * (1 - _KEPT) - (time.monotonic() - self.began), 0.0)

    def _take(
        self,
        kind: StepKind,
        program: ExportedProgram,
        packed: Packed,
        allowed: Allowed | None = None,
        **more: Any,
    ) -> None:
        """Keep a rung if its arena is smaller."""
        wins = self.packed.arena_bytes - packed.arena_bytes
        if wins <= 0:
            if program is self.program and allowed == self.allowed:
                self.packed = packed  # with its plan, which the runtime's own does not give
            return
        self.steps.append(FitStep(kind, tuple(more.pop("nodes", ())), packed.arena_bytes, wins, **more))
        self.program, self.packed = program, packed
        self.macs = total_macs(list(program.graph.nodes))
        if allowed is not None:
            self.allowed = allowed

    def found(self) -> Found:
        """What it came to; a changed program bears a stamp."""
        changed = self.program is not self.given
        exhausted = self.complete and not self.fits
        program = self.program
        if changed:
            program = copy_program(program)
            stamp = Stamp(
                self.target.name,
                self.macs_before,
                self.limits.max_macs,
                exhausted,
                self.limits.allow_rounding,
                any(step.kind == "split" for step in self.steps)
                or (self.stamp is not None and self.stamp.parts),
            )
            put_stamp(program, stamp)
            number_sources(program)
        return Found(
            program=program,
            allowed=self.allowed,
            steps=tuple(self.steps),
            before=self.before,
            packed=self.packed,
            macs_before=self.macs_before,
            macs_after=self.macs,
            front=self.front,
            barriers=self.barriers,
            fits=self.limits.max_arena is None or self.fits,
            complete=self.complete,
            interrupted=self.interrupted,
            changed=changed,
        )


def _rewrite_steps(wins: Iterable[Win]) -> Iterator[FitStep]:
    """A step for each rewrite that won; one that won nothing itself goes with the next that did."""
    nodes: list[str] = []
    rules: list[str] = []
    for win in wins:
        nodes += [name for change in win.changes for name in change.nodes]
        rules.append(win.rule if win.keeps_bits else f"{win.rule}, which may round differently")
        if win.after < win.before:
            remark = " and ".join(dict.fromkeys(rules))
            yield FitStep("rewrite", tuple(nodes), win.after, win.before - win.after, remark=remark)
            nodes, rules = [], []


def _least(points: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Of pairs of bytes and multiply-adds those that no other beats in both, the fewest bytes first."""
    found: list[tuple[int, int]] = []
    for size, macs in sorted(points):
        if not found or macs < found[-1][1]:
            found.append((size, macs))
    return tuple(found)


def _moved(old: ExportedProgram, new: ExportedProgram) -> tuple[str, ...]:
    """Names of the fewest nodes that, moved, make the new order of the old one."""
    from lowtide.transforms import staying_places

    places = {node.name: place for place, node in enumerate(old.graph.nodes)}
    names = [node.name for node in new.graph.nodes]
    staying = staying_places([places[name] for name in names])
    return tuple(name for place, name in enumerate(names) if place not in staying)


def _replaced(old: ExportedProgram, new: ExportedProgram, parts: Sequence[SplitStep]) -> tuple[str, ...]:
    """Names of the nodes that run in parts: they are gone, or name what their parts are joined to."""
    left = {node.name for node in new.graph.nodes}
    ends = {part.last for part in parts}
    return tuple(node.name for node in old.graph.nodes if node.name not in left or node.name in ends)
