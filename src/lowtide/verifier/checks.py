"""Is a plan right? Independent of the packers and, given the program, of the lifetimes too.

Given a plan alone, its stated lifetimes are checked against its offsets. Given the program as well,
the bytes themselves are followed (``ownership``), so that a wrong lifetime is found too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.base.errors import VerificationError, Violation
from lowtide.ir.problem import Problem, end_of
from lowtide.ir.program import Program
from lowtide.lifetimes.frees import find_frees
from lowtide.pack.arrays import to_kernel
from lowtide.pack.bounds import live_peak, lower_bound
from lowtide.verifier.banks import check_banks, may_move
from lowtide.verifier.describe import describe_buffer
from lowtide.verifier.ownership import check_ownership

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from lowtide.ir.plan import ArenaUse, Plan
    from lowtide.ir.problem import Arena, Buffer

    Follow: TypeAlias = Callable[[Plan], list[Violation]]

__all__ = ["Report", "Violation", "find_violations", "verify"]


@dataclass(frozen=True, slots=True)
class Report:
    """What a verification looked at.

    Args:
        buffers: how many have a place.
        reuse_pairs: pairs of buffers that share bytes at different times.
        followed: whether the bytes were followed through the program.
    """

    buffers: int
    reuse_pairs: int
    followed: bool


def verify(plan: Plan, against: Program | Problem | Follow | None = None) -> Report:
    """Check a plan; with its program, also follow every byte through it; with its problem, compare that.

    A function of a plan stands for a program that has program points of its own: it follows the bytes.

    Raises:
        VerificationError: the plan is wrong; ``violations`` has every fault with names, lifetimes and bytes.
    """
    violations, reuse_pairs = find_violations(plan, against)
    if violations:
        raise VerificationError(violations)
    return Report(len(plan.offsets), reuse_pairs, isinstance(against, Program) or callable(against))


def find_violations(
    plan: Plan, against: Program | Problem | Follow | None = None, *, limit: int = 100
) -> tuple[list[Violation], int]:
    """Every fault of a plan, up to a limit, and the number of pairs of buffers that reuse bytes."""
    found: list[Violation] = []
    reuse_pairs = 0
    for arena, use in zip(plan.problem.arenas, plan.uses, strict=True):
        faults, pairs = _check_arena(plan, arena, use, limit)
        found += faults
        reuse_pairs += pairs
    found += _check_objects(plan)
    found += check_banks(plan)
    if isinstance(against, Program) and len(found) < limit:
        found += _check_frees(plan, against)
        found += check_ownership(against, plan, limit=limit - len(found))
    if callable(against):
        found += against(plan)
    if isinstance(against, Problem):
        found += _check_same_problem(plan, against)
    return found[:limit], reuse_pairs


def _check_arena(plan: Plan, arena: Arena, use: ArenaUse, limit: int) -> tuple[list[Violation], int]:
    """Lifetimes against offsets in one arena; near-linear in its buffers."""
    part, positions = plan.problem.part(arena)
    offsets = [plan.offsets[i] for i in positions]
    found = _check_totals(part, offsets, arena, use)
    result = _kernel.check(to_kernel(part), offsets, limit)
    for kind, i, j in result.violations:
        names = [describe_buffer(plan, positions[k]) for k in (i, j) if k >= 0]
        labels = tuple(part.buffers[k].label for k in (i, j) if k >= 0)
        found.append(Violation(kind, _SENTENCES[kind].format(*names, arena=arena), labels))
    return found, result.reuse_pairs or 0


def _check_frees(plan: Plan, program: Program) -> list[Violation]:
    """Whether everything unbounded is freed exactly where nothing needs it any more."""
    due, told = set(find_frees(program)), set(plan.problem.frees)
    return [
        Violation("frees", f"{free.buffer} {must} be freed after {free.region}/{free.after}", (free.buffer,))
        for must, frees in (("must", due - told), ("must not", told - due))
        for free in sorted(frees, key=lambda free: (free.region, free.buffer, free.after))
    ]


def _check_same_problem(plan: Plan, problem: Problem) -> list[Violation]:
    """Whether a plan answers the question: the same buffers, with the same needs."""
    asked, answered = problem.index, plan.problem.index
    found = [
        Violation(
            "unplaced", f"{problem.buffers[i].label} has no place in the plan", (problem.buffers[i].label,)
        )
        for id, i in asked.items()
        if id not in answered
    ]
    for id, i in answered.items():
        label = plan.problem.buffers[i].label
        if id not in asked:
            found.append(
                Violation("unknown", f"the plan has a buffer {label!r} that nobody asked for", (label,))
            )
            continue
        a, b = problem.buffers[asked[id]], plan.problem.buffers[i]
        differs = [
            name
            for name in _NEEDS
            if getattr(a, name) != getattr(b, name) and not _is_of_bank(plan, a, b, name)
        ]
        if differs:
            was, has = getattr(a, differs[0]), getattr(b, differs[0])
            found.append(
                Violation("misfit", f"{label}: the plan has {differs[0]} {has}, not {was}", (label,))
            )
    banks = {bank.mem_id for bank in plan.banks}
    if not found and _rules(problem, banks) != _rules(plan.problem, banks):
        message = "the plan is of a problem with other reserved bytes or permissions: plan this one again"
        found.append(Violation("misfit", message))
    return found


def _is_of_bank(plan: Plan, asked: Buffer, answered: Buffer, need: str) -> bool:
    """Whether a buffer differs from what was asked only by what its bank brings with it."""
    bank = next((bank for bank in plan.banks if bank.mem_id == answered.arena), None)
    if bank is None:
        return False
    if need == "arena":
        return may_move(plan, asked.arena, answered.arena) and asked.offset is None
    return need == "alignment" and answered.alignment == lcm(asked.alignment, bank.alignment)


def _rules(problem: Problem, banks: set[int]) -> tuple[object, ...]:
    reserved = {a.id: a.reserved for a in problem.arenas if a.reserved and a.id not in banks}
    return reserved, set(map(frozenset, problem.may_coincide)), set(problem.placements)


def _check_totals(part: Problem, offsets: list[int], arena: Arena, use: ArenaUse) -> list[Violation]:
    """What the plan says of the arena as a whole.

    A bound above the cheap one is a claim of exact search, which only such a search could check. One below
    it is that of the same program with more allowed than this plan makes use of.
    """
    end = max(end_of(part.buffers, offsets), arena.reserved)
    peak = live_peak(part)
    floor = lower_bound(part, peak=peak)
    said, found = f"arena {arena.id} is said to", []
    if use.bytes != end:
        found.append(f"{said} have {use.bytes} bytes, but its buffers end at {end}")
    if use.live_peak_bytes != peak:
        found.append(f"{said} have {use.live_peak_bytes} live bytes at its peak, not {peak}")
    if use.lower_bound_bytes > max(use.bytes, floor):
        found.append(f"{said} need {use.lower_bound_bytes} bytes; it needs {floor} and has {use.bytes}")
    return [Violation("totals", message) for message in found]


_NEEDS = ("size", "lifetime", "alignment", "arena", "offset")

_SENTENCES = {
    "overlap": "{0} and {1} share bytes while both are alive",
    "capacity": "{0} ends above the capacity of its arena, {arena.capacity} bytes",
    "reserved": "{0} uses the first {arena.reserved} bytes of its arena, which are reserved",
    "alignment": "{0} is not at a multiple of its alignment",
    "pin": "{0} is not where it is pinned",
    "placement": "{0} is not at its distance inside {1}",
}


def _check_objects(plan: Plan) -> list[Violation]:
    """Shared objects: given to all or none; buffers that share bytes share the object."""
    ids = plan.object_ids
    if ids is None:
        return []
    buffers = plan.problem.buffers
    missing = [buffer.label for buffer, id in zip(buffers, ids, strict=True) if id is None]
    if missing:
        message = (
            f"{missing[0]} has no shared object although others have one: give object ids to all or none"
        )
        return [Violation("objects", message, (missing[0],))]
    found = []
    spans = sorted(
        (buffer.arena, offset, offset + buffer.size, id, i)
        for i, (buffer, offset, id) in enumerate(zip(buffers, plan.offsets, ids, strict=True))
        if buffer.size and id is not None
    )
    # In address order an object's bytes are one run: compare the run so far with the next buffer.
    reach, holder = 0, -1
    for (arena, start, stop, id, i), previous in zip(spans, [None, *spans], strict=False):
        if previous is None or previous[0] != arena:
            reach, holder = stop, i
            continue
        if start < reach and id != ids[holder]:
            names = (buffers[holder].label, buffers[i].label)
            a, b = describe_buffer(plan, holder), describe_buffer(plan, i)
            found.append(Violation("objects", f"{a} and {b} share bytes but not their object", names))
        if stop > reach:
            reach, holder = stop, i
    return found
