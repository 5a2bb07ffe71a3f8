"""Recomputation as advice: what could be computed again just before a late use, instead of being kept.

Trading work for memory by keeping less is old for training (Chen, Xu, Zhang and Guestrin, *Training deep nets
with sublinear memory cost*, 2016; Jain et al., *Checkmate*, MLSys 2020). Here each change is made to a copy
of the Program and the live peak computed anew; nothing is changed for the user.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.lifetimes.liveness import bits, positions, solve
from lowtide.lifetimes.lowering import lower
from lowtide.lifetimes.timeline import build_problem
from lowtide.pack.bounds import lower_bound
from lowtide.transforms.reorder.dependences import RegionLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.ir.program import Program, Step

MOST = 8
"""Pieces of advice, each on top of those before it."""

TRIALS = 12
"""Buffers that are tried for each, the largest first."""

DEPTH = 3
"""Steps that are computed again at the most for one buffer: its producer, and what that reads."""

_RANDOM = re.compile(r"rand|bernoulli|multinomial|dropout|poisson|exponential|uniform|normal(?!i)|geometric")
_CONTRACTION = re.compile(r"conv|mm\b|matmul|linear|einsum|attention|bmm|lstm|gru")


@dataclass(frozen=True, slots=True)
class Recomputation:
    """Something that could be computed again.

    Args:
        steps: qualified names of the steps to run again, in order.
        before: qualified name of the step just before which they would run.
        peak_before, peak_after: live peak in bytes without and with it, all arenas together; what earlier
            advice changes is taken for done.
        work: extra work, an estimate: elements read and written, multiplications of a contraction.
        share: of the work of the whole program, each region counted once.
    """

    steps: tuple[str, ...]
    before: str
    peak_before: int
    peak_after: int
    work: int
    share: float

    @property
    def saves(self) -> int:
        """Bytes by which the live peak goes down."""
        return self.peak_before - self.peak_after


def advise(program: Program, *, in_place: bool = False, dearest: float = 0.05) -> tuple[Recomputation, ...]:
    """What to compute again so that fewer bytes are alive at the peak.

    Args:
        program: what runs; it stays as it is.
        in_place: whether outputs may lie over inputs that die, where the kernel allows it.
        dearest: the most extra work of one piece of advice, as a share of the whole program's.

    Returns:
        Recomputation in the order in which to follow it: each saves most of all that is left to try.
    """
    total = sum(work_of(program, step) for region in program.regions for step in region.steps)
    found: list[Recomputation] = []
    peak = _peak(program, in_place)
    while len(found) < MOST:
        best: tuple[int, int, Program, _Again] | None = None
        for again in _candidates(program, dearest * total):
            changed = again.apply(program)
            after = _peak(changed, in_place)
            if after < peak and (best is None or (after, again.work) < best[:2]):
                best = (after, again.work, changed, again)
        if best is None:
            break
        after, work, changed, again = best
        found.append(again.advice(program, peak, after, work / max(total, 1)))
        program, peak = changed, after
    return tuple(found)


def work_of(program: Program, step: Step) -> int:
    """An estimate of a step's work: elements read and written, or the multiplications of a contraction."""
    read = [_elements(program, value) for value in step.reads]
    written = sum(_elements(program, value) for value in (*step.writes, *step.partial))
    if _CONTRACTION.search(step.operator) and len(read) > 1 and written:
        first, second = sorted(read, reverse=True)[:2]
        # For matrices m x k and k x n this is m x n x k; of convolutions it is the order of magnitude.
        return int(written * max(1.0, math.sqrt(first * second / written)))
    return sum(read) + written


def _elements(program: Program, value: int) -> int:
    found = program.values[value]
    while found.storage is None:
        if not found.aliases:
            return 0
        found = program.values[found.aliases[0]]
    storage = program.storages[found.storage]
    if storage.shape is not None and all(isinstance(size, int) for size in storage.shape):
        return math.prod(int(size) for size in storage.shape)
    return storage.size or 0


def _peak(program: Program, in_place: bool) -> int:
    problem = build_problem(program, in_place=in_place)
    return sum(lower_bound(problem.part(arena)[0]) for arena in problem.arenas)


@dataclass(frozen=True, slots=True)
class _Again:
    """Steps of a region, and the later step just before which they run again."""

    region: int
    steps: tuple[int, ...]
    before: int
    work: int

    def advice(self, program: Program, before: int, after: int, share: float) -> Recomputation:
        region = program.regions[self.region]
        names = tuple(f"{region.name}/{region.steps[step].name}" for step in self.steps)
        return Recomputation(
            names, f"{region.name}/{region.steps[self.before].name}", before, after, self.work, share
        )

    def apply(self, program: Program) -> Program:
        """The program with the steps run again, and later uses of what they made reading the new bytes."""
        region = program.regions[self.region]
        storages, values = list(program.storages), list(program.values)
        new: dict[int, int] = {}
        moved: dict[int, int] = {}
        for step in self.steps:
            for value in region.steps[step].writes:
                storage = program.values[value].storage
                assert storage is not None
                moved[storage] = len(storages)
                storages.append(replace(storages[storage], name=f"{storages[storage].name}/{len(storages)}"))
        for position, known in enumerate(program.values):
            aliases = tuple(new.get(alias, alias) for alias in known.aliases)
            if known.storage in moved or aliases != known.aliases:
                new[position] = len(values)
                own = None if known.storage is None else moved.get(known.storage, known.storage)
                name = f"{known.name}/{len(values)}"
                values.append(replace(known, name=name, storage=own, aliases=aliases))
        again = [
            _renamed(replace(region.steps[step], name=f"{region.steps[step].name}/{len(values)}"), new)
            for step in self.steps
        ]
        late = [_renamed(step, new) for step in region.steps[self.before :]]
        steps = (*region.steps[: self.before], *again, *late)
        regions = list(program.regions)
        regions[self.region] = replace(region, steps=steps)
        return replace(program, regions=tuple(regions), values=tuple(values), storages=tuple(storages))


def _renamed(step: Step, new: dict[int, int]) -> Step:
    """A step with other values for some of those that it reads, writes and passes."""

    def each(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(new.get(value, value) for value in values)

    def some(values: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return tuple(None if value is None else new.get(value, value) for value in values)

    call = step.call
    if call is not None:
        selector = None if call.selector is None else new.get(call.selector, call.selector)
        call = replace(
            call,
            operands=some(call.operands),
            inits=some(call.inits),
            slices=each(call.slices),
            selector=selector,
        )
    matches = tuple(
        replace(m, inner=new.get(m.inner, m.inner), outer=new.get(m.outer, m.outer)) for m in step.matches
    )
    return replace(
        step,
        reads=each(step.reads),
        writes=each(step.writes),
        call=call,
        overwrites=tuple((new.get(a, a), new.get(b, b)) for a, b in step.overwrites),
        matches=matches,
    )


def _candidates(program: Program, dearest: float) -> Iterator[_Again]:
    """What could be run again so that the largest idle buffers need not be kept over the peak."""
    flow = lower(program)
    liveness = solve(flow)
    layout = RegionLayout(flow, liveness)
    sizes = [(s.size or 0) if s.planned else 0 for s in program.storages]
    tick = max(range(len(flow.points)), key=lambda t: (sum(sizes[s] for s in liveness.occupied_at(t)), -t))
    activation = flow.points[tick].activation
    region = flow.activations[activation].region
    steps = program.regions[region].steps
    now = flow.points[tick].step
    if now < 0:
        return
    accesses = [layout.access(activation, step) for step in range(len(steps))]
    touched = accesses[now].touched
    makers = _makers(program, region)
    occupied = liveness.occupied_at(tick)
    idle = [s for s in occupied if not touched >> s & 1 and s in makers and makers[s] < now]
    for storage in sorted(idle, key=lambda s: (-sizes[s], s))[:TRIALS]:
        use = next((p for p in range(now + 1, len(steps)) if accesses[p].touched >> storage & 1), None)
        if use is None:
            continue
        chain = [makers[storage]]
        while len(chain) <= DEPTH:
            between = [accesses[p].fills | accesses[p].changes for p in range(chain[0] + 1, use)]
            inputs = 0
            for step in chain:
                inputs |= accesses[step].reads
            own = bits(s for s, maker in makers.items() if maker in chain)
            work = sum(work_of(program, steps[step]) for step in chain)
            if not any(mask & inputs & ~own for mask in between) and work <= dearest:
                yield _Again(region, tuple(chain), use, work)
            deeper = [makers[s] for s in positions(inputs & ~own) if s in makers]
            if not deeper:
                break
            chain = sorted({max(deeper), *chain})


def _makers(program: Program, region: int) -> dict[int, int]:
    """For each storage that can be made again the step that makes it, which does that and nothing else."""
    steps = program.regions[region].steps
    own: dict[int, int | None] = {}
    for position, step in enumerate(steps):
        pure = not step.effects and step.call is None and not step.partial and len(step.writes) == 1
        for value in (*step.writes, *step.partial):
            for storage in program.storages_of(value):
                known = storage in own
                single = pure and program.values[value].storage is not None
                fixed = not program.values[value].aliases and not _RANDOM.search(step.operator)
                own[storage] = position if single and fixed and not known else None
    elsewhere = {
        storage
        for other, found in enumerate(program.regions)
        for value in (*_named(found.steps if other != region else ()), *_given(found.outputs))
        for storage in program.storages_of(value)
    }
    elsewhere |= {s for pair in program.writebacks for value in pair for s in program.storages_of(value)}
    return {
        storage: maker
        for storage, maker in own.items()
        if maker is not None and storage not in elsewhere and program.storages[storage].kind == "temporary"
    }


def _named(steps: Sequence[Step]) -> Iterator[int]:
    for step in steps:
        yield from step.values


def _given(values: Sequence[int | None]) -> Iterator[int]:
    yield from (value for value in values if value is not None)
