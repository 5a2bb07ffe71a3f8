"""Program -> Fitting: the program with segments run in parts, as far as a budget of work allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch.export import ExportedProgram

from lowtide.base.errors import InputError
from lowtide.transforms.split.rules import is_barrier
from lowtide.transforms.split.search import Choice, Search
from lowtide.transforms.split.work import total_macs
from lowtide.transforms.split.writing import Dialect, write

Judge = Callable[[ExportedProgram], int]
"""Bytes of the packed arena of a program."""

_TRIED = 3
"""So many choices are packed at the most, those of the least peak first."""

_MARGINS = (1.0, 0.97, 0.93, 0.88)
"""Peaks that are asked for, over the arena allowed: packing may leave gaps."""


@dataclass(frozen=True)
class SplitStep:
    """One segment that runs in parts.

    Args:
        first, last: names of its first and last step.
        nodes: how many steps it has.
        axis: of the last step's result.
        parts: how many.
        keeps: whether overlaps are kept from part to part, not computed again.
        macs: multiply-adds that it costs.
        peak: most bytes alive while it runs, by the quick judge.
    """

    first: str
    last: str
    nodes: int
    axis: int
    parts: int
    keeps: bool
    macs: int
    peak: int


@dataclass(frozen=True)
class Fitting:
    """What splitting made of a program.

    Args:
        program: the new program; the given one if nothing better was found.
        steps: the segments that run in parts.
        arena_before, arena_after: bytes of the packed arena.
        macs_before, macs_after: multiply-adds.
        front: pairs of peak, as the quick judge counts, and multiply-adds: none seen has less of both.
        barriers: operators that nothing is known of, which no segment crosses.
    """

    program: ExportedProgram
    steps: tuple[SplitStep, ...]
    arena_before: int
    arena_after: int
    macs_before: int
    macs_after: int
    front: tuple[tuple[int, int], ...]
    barriers: tuple[str, ...]

    @property
    def work(self) -> float:
        """Multiply-adds over those of the given program."""
        return self.macs_after / self.macs_before if self.macs_before else 1.0


def check_limits(max_arena: int | None, max_macs: float, timeout: float | None) -> None:
    """Refuse limits that mean nothing.

    Raises:
        InputError: a limit is no positive number, or less work is asked for than the program has.
    """
    if max_arena is not None and max_arena <= 0:
        raise InputError(f"max_arena {max_arena}: an arena has at least one byte")
    if not max_macs >= 1:
        raise InputError(f"max_macs {max_macs:g}: parts never need less work than the whole: give 1 or more")
    if timeout is not None and not timeout >= 0:
        raise InputError(f"timeout {timeout:g}: give seconds, 0 or more")


def split_to_fit(
    program: ExportedProgram,
    dialect: Dialect,
    judge: Judge,
    *,
    max_arena: int | None = None,
    max_macs: float = 1.10,
    timeout: float | None = 60,
) -> Fitting:
    """Run chains of steps in parts, so that the arena is as small as the work allowed can make it.

    Args:
        program: what to split; it is left as it is.
        dialect: the operators to cut and join with.
        judge: packs an arena, and has the last word: a program is given back changed only if it is smaller.
        max_arena: bytes; the choice of least work that fits them is taken, or the smallest if none does.
        max_macs: multiply-adds allowed, over those of the program.
        timeout: seconds for the search; packing what it found comes on top.

    Raises:
        InputError: a limit means nothing.
    """
    check_limits(max_arena, max_macs, timeout)
    deadline = None if timeout is None else time.monotonic() + timeout
    search = Search(program, max_macs, deadline)
    before = judge(program)
    best: tuple[int, ExportedProgram, Choice] = before, program, Choice((), search.whole_peak, 0)

    def try_out(choice: Choice) -> bool:
        """Pack a choice; whether it is the best so far."""
        nonlocal best
        changed = write(program, [option.tape for option in choice.options if option.tape], dialect)
        arena = judge(changed)
        if arena < best[0]:
            best = arena, changed, choice
            return True
        return False

    fits = max_arena is not None and before <= max_arena
    if max_arena is not None and not fits:
        for margin in _MARGINS:
            choice = search.within(int(max_arena * margin))
            if choice is not None and choice.options and try_out(choice) and best[0] <= max_arena:
                fits = True
                break
    if not fits:
        search.least()
        choices = sorted({choice.peak: choice for choice in search.front if choice.options}.items())
        for place, (peak, choice) in enumerate(choices[:_TRIED]):
            late = place > 0 and search.is_late
            if late or peak >= best[0] * 1.5 or (place > 0 and best[0] <= peak):
                break
            try_out(choice)
    arena, changed, choice = best
    return Fitting(
        changed,
        tuple(_steps(choice)),
        before,
        arena,
        search.macs,
        total_macs(list(changed.graph.nodes)),
        _front(search.front, search.macs),
        tuple(sorted({str(node.target) for node in search.steps if is_barrier(node)})),
    )


def _steps(choice: Choice) -> Sequence[SplitStep]:
    return [
        SplitStep(
            first=next(iter(option.segment.axes)).name,
            last=option.segment.end.name,
            nodes=len(option.segment.axes),
            axis=option.segment.axes[option.segment.end],
            parts=option.count,
            keeps=option.keeps,
            macs=option.macs,
            peak=option.peak,
        )
        for option in choice.options
    ]


def _front(choices: Sequence[Choice], whole: int) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for peak, macs in sorted({(choice.peak, choice.macs) for choice in choices}):
        if not found or whole + macs < found[-1][1]:
            found.append((peak, whole + macs))
    return tuple(found)
