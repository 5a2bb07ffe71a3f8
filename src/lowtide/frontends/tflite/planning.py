"""Plans a model's arena as the interpreter will have it.

The interpreter takes offsets for tensors only: the scratch of kernels, and what must stay with it, it
places itself, around them. So these are planned as well and left out of the metadata, and where the
interpreter will put them is worked out from the rest. That is the plan: every byte of it is followed through
the program, and offsets that give no smaller arena than the file had are not taken.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.base.errors import UnsupportedError, VerificationError
from lowtide.frontends.tflite.arena_plans import arena_layouts, own_plan, placed_plan
from lowtide.frontends.tflite.interpreter import Simulation, lifetimes, simulate
from lowtide.frontends.tflite.judging import judge, must_stay_online
from lowtide.frontends.tflite.metadata import ONLINE, offsets_in
from lowtide.frontends.tflite.programs import Imported, program_of
from lowtide.ir.problem import Buffer, merge_intervals
from lowtide.lifetimes.nesting import overlap
from lowtide.pack.bounds import lower_bound
from lowtide.pack.techniques import Techniques, plan_layouts
from lowtide.verifier.checks import verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lowtide.base.errors import Violation
    from lowtide.frontends.tflite.interpreter import Scratch
    from lowtide.frontends.tflite.model import Model
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Problem
    from lowtide.pack.registry import Options

_LIMIT = 2**31


@dataclass(frozen=True)
class Planned:
    """A model's arena, before and after.

    Args:
        model: what was planned.
        imported: its program.
        before: the arena that the interpreter makes of the file as it is.
        faults: of the offsets that the file has, if any.
        stock: the arena that the interpreter makes without any offsets.
        after: the arena that it makes with ``offsets``.
        offsets: for the metadata, one a tensor of all subgraphs; None if the file should stay as it is.
        plan: ``after`` as a plan, every byte of which was followed.
        bound: bytes; no head can be smaller, with what the plan makes use of.
    """

    model: Model
    imported: Imported
    before: Simulation
    faults: tuple[Violation, ...]
    stock: Simulation
    after: Simulation
    offsets: tuple[int, ...] | None
    plan: Plan
    bound: int


def plan_model(
    model: Model,
    scratch: Sequence[Scratch] = (),
    *,
    techniques: Techniques | None = None,
    pins: Mapping[int, int] | None = None,
    packer: str = "auto",
    options: Options,
) -> Planned:
    """Find offsets under which the interpreter needs a smaller arena, if there are any.

    Args:
        model: what to plan.
        scratch: what its kernels ask for on the target.
        techniques: what to make use of besides lifetimes; they hold for the reference kernels.
        pins: offsets that stay, by tensor of all subgraphs.
        packer, options: as for ``plan_problem``.

    Raises:
        InputError: the offsets in the file cannot be read, or a call does not fit its subgraphs.
        UnsupportedError: it cannot be planned.
        InfeasibleError: the pins share bytes while both are alive.
        VerificationError: the offsets that are to stay are wrong.
    """
    began = time.perf_counter()
    kept = must_stay_online(model)
    imported = program_of(model, scratch, apart=kept)
    given = offsets_in(model)
    before, stock = simulate(model, given, scratch), simulate(model, None, scratch)
    faults = tuple(judge(model, imported, given, scratch)) if given is not None else ()
    if pins and faults:
        raise VerificationError(faults)
    layouts = arena_layouts(imported)
    best: _Found | None = None
    for joined in (False, True):
        rules = _Rules(imported, model, scratch, kept, joined, pins or {})
        if joined and not rules.groups:
            continue
        plan = plan_layouts(
            layouts, techniques or Techniques(), packer=packer, options=options, limit=rules.apply
        )
        found = rules.as_placed(plan)
        if best is None or found.after.head < best.after.head:
            best = found
        if best.after.head <= best.bound:
            break
    assert best is not None
    if best.after.head >= _LIMIT:
        raise UnsupportedError(f"{model.name}: takes 2 GiB or more, which the interpreter cannot count")
    verify(best.plan, imported.program)
    wrong = judge(model, imported, best.offsets, scratch)
    if wrong:
        raise VerificationError(wrong)
    # Offsets that are wrong are no measure: then what the interpreter does by itself is.
    if best.after.head >= (stock if faults else before).head:
        left, none = (stock, (ONLINE,) * model.tensor_count) if faults else (before, None)
        own = replace(own_plan(imported, left), seconds=time.perf_counter() - began)
        return Planned(model, imported, before, faults, stock, left, none, own, best.bound)
    plan = replace(best.plan, seconds=time.perf_counter() - began)
    return Planned(model, imported, before, faults, stock, best.after, best.offsets, plan, best.bound)


@dataclass(frozen=True)
class _Found:
    after: Simulation
    offsets: tuple[int, ...]
    plan: Plan
    bound: int


class _Rules:
    """What the packer must know of the interpreter's own placement, and what comes of it.

    The interpreter keeps what it places itself apart from all that it takes to be alive at that time, which
    may be more than is: for each such pair both get a tick of their own after the program's end. And it fills
    gaps by decreasing size: if the requests of one operator are planned as one block (``joined``), they fit
    into its gap for sure; apart, they may need less.
    """

    def __init__(
        self,
        imported: Imported,
        model: Model,
        scratch: Sequence[Scratch],
        kept: frozenset[int],
        joined: bool,
        pins: Mapping[int, int],
    ) -> None:
        self.imported, self.model, self.scratch = imported, model, scratch
        self.pins = {imported.tensors[i]: offset for i, offset in pins.items() if i in imported.tensors}
        self.spans = lifetimes(model, scratch)
        self.kept = kept & imported.tensors.keys()
        self.groups = _groups(imported, scratch)
        self.joined = self.groups if joined else {}
        self.removed: dict[str, Buffer] = {}
        self.clock = 0
        self.exact = True  # whether a bound of the problem as it is planned is one of the program's, too

    def apply(self, problem: Problem) -> Problem:
        """The problem as it is to be planned."""
        self.clock = max((buffer.lifetime[-1][1] for buffer in problem.buffers), default=0)
        buffers = {buffer.id: self.pinned(buffer) for buffer in problem.buffers}
        self.removed = {}
        for name, members in self.joined.items():
            parts = [buffers.pop(member) for member in members]
            self.removed |= {part.id: part for part in parts}
            size = sum(part.size for part in parts)
            buffers[name] = replace(parts[0], id=name, name=name, size=size, members=())
        tick = self.clock
        for a, b in self.conflicts(problem):
            if a in buffers and b in buffers and not overlap(buffers[a].lifetime, buffers[b].lifetime):
                for id in (a, b):
                    lifetime = (*buffers[id].lifetime, (tick, tick + 1))
                    buffers[id] = replace(buffers[id], lifetime=merge_intervals(lifetime))
                tick += 2
        self.exact = self.exact and not self.joined and tick == self.clock
        return replace(problem, buffers=tuple(buffers.values()))

    def pinned(self, buffer: Buffer) -> Buffer:
        """The buffer, where the offsets that stay want it."""
        places = {self.pins[name] for name in (buffer.id, *buffer.members) if name in self.pins}
        if len(places) > 1:
            raise UnsupportedError(f"{self.model.name}: {buffer.id} is to stay at two places: plan it anew")
        return replace(buffer, offset=places.pop()) if places else buffer

    def conflicts(self, problem: Problem) -> Iterator[tuple[str, str]]:
        """Buffers of which the interpreter places one, and which it takes to be alive together."""
        if len(self.model.subgraphs) == 1:
            return  # then it is right
        holder = {name: buffer.id for buffer in problem.buffers for name in (*buffer.members, buffer.id)}
        holder |= {member: block for block, members in self.joined.items() for member in members}
        spans = [
            (self.spans.tensors[i], i in self.kept, holder[name]) for i, name in self.imported.tensors.items()
        ]
        for name, span in zip(self.imported.scratch, self.spans.scratch, strict=True):
            if name is not None:
                spans.append((span, True, holder[name]))
        seen: set[tuple[str, str]] = set()
        open_: list[
            tuple[int, str]
        ] = []  # last tick and buffer of what is alive, and of what is online besides
        online: list[tuple[int, str]] = []
        for (first, last), is_online, id in sorted(spans):
            open_ = [found for found in open_ if found[0] >= first] if is_online else open_
            online = [found for found in online if found[0] >= first]
            for _, other in open_ if is_online else online:
                pair = (min(id, other), max(id, other))
                if id != other and pair not in seen:
                    seen.add(pair)
                    yield pair
            open_.append((last, id))
            if is_online:
                online.append((last, id))

    def as_placed(self, plan: Plan) -> _Found:
        """What the interpreter makes of a plan."""
        places = plan.names
        offsets = []
        for i in range(self.model.tensor_count):
            name = self.imported.tensors.get(i)
            offsets.append(ONLINE if i in self.kept or name is None else plan.offsets[places[name]])
        after = simulate(self.model, offsets, self.scratch)
        problem = self.original(plan.problem)
        placed = placed_plan(self.imported, after, problem)
        floor = lower_bound(problem)
        bound = plan.lower_bound_bytes if self.exact else floor
        use = replace(placed.uses[0], lower_bound_bytes=min(max(bound, floor), placed.uses[0].bytes))
        return _Found(
            after, tuple(offsets), replace(plan, problem=problem, offsets=placed.offsets, uses=(use,)), bound
        )

    def original(self, problem: Problem) -> Problem:
        """The problem without what was added to it."""
        found = []
        for buffer in problem.buffers:
            if buffer.id in self.joined:
                found += [self.removed[member] for member in self.joined[buffer.id]]
            else:
                kept = tuple(interval for interval in buffer.lifetime if interval[0] < self.clock)
                found.append(replace(buffer, lifetime=kept) if kept != buffer.lifetime else buffer)
        return replace(problem, buffers=tuple(found))


def _groups(imported: Imported, scratch: Sequence[Scratch]) -> dict[str, list[str]]:
    """Requests of operators that ask more than once, by a name for all of them together."""
    found: dict[tuple[int, int], list[str]] = {}
    for name, request in zip(imported.scratch, scratch, strict=True):
        if name is not None:
            found.setdefault((request.subgraph, request.operator), []).append(name)
    return {f"{names[0]} and more": names for names in found.values() if len(names) > 1}
