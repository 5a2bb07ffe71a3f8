"""Plans with one thing wrong: what verifier and replay have to find.

A mutant keeps to what a planner could have got wrong: where a buffer is, when it is alive, what shares it.
Not every mutant is a wrong plan: bytes moved to where nobody is do no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from lowtide.ir.plan import Plan
from lowtide.ir.problem import Buffer, Problem, merge_intervals


@dataclass(frozen=True, slots=True)
class Mutant:
    """A plan, what was done to it, and to which buffers."""

    kind: str
    plan: Plan
    what: str


def _moved(plan: Plan, offsets: dict[int, int]) -> Plan:
    """Other offsets; the arenas end where their buffers do."""
    found = list(plan.offsets)
    for position, offset in offsets.items():
        found[position] = offset
    uses = []
    for use in plan.uses:
        top = max(
            (o + b.size for o, b in zip(found, plan.problem.buffers, strict=True) if b.arena == use.id),
            default=0,
        )
        uses.append(replace(use, bytes=max(use.bytes, top)))
    return replace(plan, offsets=tuple(found), uses=tuple(uses), object_ids=None)


def _changed(plan: Plan, position: int, buffer: Buffer) -> Plan:
    buffers = list(plan.problem.buffers)
    buffers[position] = buffer
    return replace(plan, problem=_of(plan.problem, buffers), object_ids=None)


def _of(problem: Problem, buffers: list[Buffer]) -> Problem:
    """The problem with other buffers; what named one that is gone is gone too."""
    known = {buffer.id for buffer in buffers}
    return replace(
        problem,
        buffers=tuple(buffers),
        may_coincide=tuple(pair for pair in problem.may_coincide if known.issuperset(pair)),
        placements=tuple(p for p in problem.placements if known.issuperset((p.inner, p.outer))),
    )


def shift(plan: Plan, random: Random) -> tuple[Plan, str] | None:
    """Move a buffer by a few multiples of its alignment."""
    position, buffer = _any(plan, random)
    offset = plan.offsets[position] + random.choice((-2, -1, 1, 2)) * buffer.alignment
    return (_moved(plan, {position: offset}), buffer.label) if offset >= 0 else None


def misalign(plan: Plan, random: Random) -> tuple[Plan, str] | None:
    """Move a buffer by one byte."""
    position, buffer = _any(plan, random)
    if buffer.alignment == 1:
        return None
    return _moved(plan, {position: plan.offsets[position] + 1}), buffer.label


def swap(plan: Plan, random: Random) -> tuple[Plan, str] | None:
    """Exchange the offsets of two buffers."""
    a, first = _any(plan, random)
    b, second = _any(plan, random)
    if plan.offsets[a] == plan.offsets[b] or first.arena != second.arena:
        return None
    return _moved(plan, {a: plan.offsets[b], b: plan.offsets[a]}), f"{first.label}, {second.label}"


def collide(plan: Plan, random: Random) -> tuple[Plan, str] | None:
    """Put a buffer where another is."""
    a, first = _any(plan, random)
    b, second = _any(plan, random)
    if plan.offsets[a] == plan.offsets[b] or first.arena != second.arena:
        return None
    return _moved(plan, {a: plan.offsets[b]}), f"{first.label} to {second.label}"


def cut_start(plan: Plan, random: Random) -> tuple[Plan, str] | None:
    """Let an interval of a lifetime begin a tick late."""
    return _cut(plan, random, lambda start, stop: [(start + 1, stop)])


def cut_end(plan: Plan, random: Random) -> tuple[Plan, str] | None:
    """Let an interval of a lifetime end a tick early."""
    return _cut(plan, random, lambda start, stop: [(start, stop - 1)])


def cut_middle(plan: Plan, random: Random) -> tuple[Plan, str] | None:
    """Make a hole of one tick in a lifetime."""

    def hole(start: int, stop: int) -> list[tuple[int, int]]:
        if stop - start < 3:
            return []
        at = random.randrange(start + 1, stop - 1)
        return [(start, at), (at + 1, stop)]

    return _cut(plan, random, hole)


def coalesce(plan: Plan, random: Random) -> tuple[Plan, str] | None:
    """Make one buffer of two, as if neither disturbed the other."""
    a, first = _any(plan, random)
    b, second = _any(plan, random)
    if a == b or first.size != second.size or first.arena != second.arena:
        return None
    members = (*(first.members or (first.id,)), *(second.members or (second.id,)))
    both = replace(first, lifetime=merge_intervals((*first.lifetime, *second.lifetime)), members=members)
    changed = _changed(plan, a, both)
    keep = [i for i in range(len(plan.offsets)) if i != b]
    problem = _of(changed.problem, [changed.problem.buffers[i] for i in keep])
    offsets = tuple(plan.offsets[i] for i in keep)
    return replace(changed, problem=problem, offsets=offsets), f"{first.label} and {second.label}"


def forget(plan: Plan, random: Random) -> tuple[Plan, str] | None:
    """Leave a member out of the buffer that it shares."""
    position, buffer = _any(plan, random)
    if len(buffer.members) < 2:
        return None
    lost = random.choice(buffer.members)
    kept = tuple(name for name in buffer.members if name != lost)
    changed = replace(buffer, members=kept, id=kept[0], name=kept[0])
    return _changed(plan, position, changed), f"{lost} of {buffer.label}"


def shrink(plan: Plan, random: Random) -> tuple[Plan, str] | None:
    """Make a buffer smaller than what it holds."""
    position, buffer = _any(plan, random)
    if buffer.size < 2:
        return None
    return _changed(plan, position, replace(buffer, size=buffer.size // 2)), buffer.label


MUTATIONS: dict[str, Callable[[Plan, Random], tuple[Plan, str] | None]] = {
    mutation.__name__: mutation
    for mutation in (
        shift,
        misalign,
        swap,
        collide,
        cut_start,
        cut_end,
        cut_middle,
        coalesce,
        forget,
        shrink,
    )
}


def mutants(
    plan: Plan, random: Random, count: int, kinds: tuple[str, ...] = tuple(MUTATIONS)
) -> list[Mutant]:
    """Up to so many mutants, kinds in turn; fewer where a plan is too small for a kind."""
    found: list[Mutant] = []
    if not plan.offsets:
        return found
    for k in range(4 * count):
        kind = kinds[k % len(kinds)]
        mutated = MUTATIONS[kind](plan, random)
        if mutated is not None:
            found.append(Mutant(kind, *mutated))
        if len(found) == count:
            break
    return found


def _any(plan: Plan, random: Random) -> tuple[int, Buffer]:
    position = random.randrange(len(plan.problem.buffers))
    return position, plan.problem.buffers[position]


def _cut(
    plan: Plan, random: Random, cut: Callable[[int, int], list[tuple[int, int]]]
) -> tuple[Plan, str] | None:
    position, buffer = _any(plan, random)
    lifetime = list(buffer.lifetime)
    which = random.randrange(len(lifetime))
    lifetime[which : which + 1] = [(a, b) for a, b in cut(*lifetime[which]) if a < b]
    if not lifetime:
        return None
    return _changed(plan, position, replace(buffer, lifetime=tuple(lifetime))), buffer.label
