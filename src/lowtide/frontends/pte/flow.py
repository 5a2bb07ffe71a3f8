"""A method's instructions as program points: the form that liveness, coalescing and packers work on.

One storage stands for each planned tensor that is no static view; a view is another name for its base's
storage. A move is written down as a copy to a storage of the result's own: if the ends of all moves to a
result share one buffer, pointing and copying are the same, and a static view of the result lies where its
content is. A result whose moves cannot all be merged so has no storage: it may be any of its sources, and
all of them live until its last use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_ARENA
from lowtide.base.errors import UnsupportedError
from lowtide.ir.flow import Activation, Copy, FlowGraph, Point, SameBytes
from lowtide.ir.problem import align_up
from lowtide.ir.program import Program, Region, Step, Storage, StorageKind, Value
from lowtide.lifetimes.timeline import problem_of_flow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lowtide.frontends.pte.analysis import Analysis
    from lowtide.frontends.pte.instruction_effects import PteEffect
    from lowtide.ir.problem import Problem


@dataclass(frozen=True)
class Layout:
    """A method's packing problem, and which buffer holds each planned tensor.

    Args:
        flow: its program points.
        problem: its buffers.
        buffer: for each planned tensor that is ever touched the position of its buffer.
        storage: for each planned tensor that has one the position of its storage.
    """

    flow: FlowGraph
    problem: Problem
    buffer: dict[int, int]
    storage: dict[int, int]


def layout_of(
    analysis: Analysis,
    alignment: dict[int, int],
    *,
    in_place: bool = False,
    elide_copies: bool = False,
    freed: Collection[int] = (),
) -> Layout:
    """The packing problem of a method.

    Args:
        analysis: the method.
        alignment: bytes, by memory id.
        freed: memory ids whose tensors may leave their arena, and share bytes with others that may.
        in_place, elide_copies: as for ``lowtide.lifetimes.timeline.build_problem``.

    Raises:
        UnsupportedError: a static view has no place that is right on every path, or none that is known.
    """
    if analysis.views.lost:
        view = min(analysis.views.lost)
        raise UnsupportedError(
            f"method {analysis.method.name!r}: {analysis.method.tensors[view]} is a view of a tensor that "
            "the file does not name, so no plan can be right for sure: export the model again"
        )
    apart: frozenset[int] = frozenset()
    merge_copies = True
    while True:
        elide = elide_copies and merge_copies
        builder = _Builder(
            analysis, alignment, apart, merge_copies, allowances=in_place or elide, freed=freed
        )
        flow = builder.run()
        problem = problem_of_flow(flow, in_place=in_place, elide_copies=elide)
        buffer = {
            int(member): position
            for position, found in enumerate(problem.buffers)
            for member in (name.rpartition("%")[2] for name in found.members)
        }
        failed = builder.unmerged(buffer)
        if not failed:
            _add_views(analysis, builder, buffer, freed)
            return Layout(flow, problem, buffer, builder.position)
        if merge_copies:  # a copy that was merged first may stand in the way of a move, which matters more
            merge_copies = False
            continue
        apart |= failed
        _refuse_views(analysis, apart)


def own_layout(analysis: Analysis, alignment: dict[int, int]) -> Layout:
    """As ``layout_of``, with every tensor apart and pointers moved as the runtime moves them.

    This is what the file's own plan is a plan of. Views whose base is not known are left out.
    """
    builder = _Builder(analysis, alignment, frozenset(analysis.views.targets), merge_copies=False)
    flow = builder.run()
    problem = problem_of_flow(flow)
    buffer = {int(found.id.rpartition("%")[2]): i for i, found in enumerate(problem.buffers)}
    return Layout(flow, problem, buffer, builder.position)


def _refuse_views(analysis: Analysis, apart: frozenset[int]) -> None:
    for view, base in sorted(analysis.views.base.items()):
        if base in apart:
            tensors = analysis.method.tensors
            raise UnsupportedError(
                f"method {analysis.method.name!r}: {tensors[view]} is a view of {tensors[base]}, which is "
                "one tensor or another depending on the path, and both are needed at once: export it again"
            )


def _add_views(analysis: Analysis, builder: _Builder, buffer: dict[int, int], freed: Collection[int]) -> None:
    """Static views lie in their base's buffer; what ``et_view`` points elsewhere anyway, beside its base."""
    for view, base in analysis.views.base.items():
        if base in buffer:
            buffer[view] = buffer[base]
    for tensor in analysis.method.planned:
        sources = builder.viewed.get(tensor.index, ())
        if tensor.index in buffer or len(sources) != 1 or sources[0] not in buffer:
            continue
        seen = analysis.method.tensors[sources[0]]
        if seen.place is None or tensor.place is None or seen.size < tensor.size:
            continue
        if seen.place.memory == tensor.place.memory or {seen.place.memory, tensor.place.memory} <= {*freed}:
            buffer[tensor.index] = buffer[sources[0]]


class _Builder:
    def __init__(
        self,
        analysis: Analysis,
        alignment: dict[int, int],
        apart: frozenset[int],
        merge_copies: bool,
        *,
        allowances: bool = False,
        freed: Collection[int] = (),
    ) -> None:
        self.analysis, self.method, self.views = analysis, analysis.method, analysis.views
        self.freed = freed
        self.apart, self.merge_copies, self.allowances = apart, merge_copies, allowances
        self.sources: dict[int, list[int]] = {}
        self.viewed: dict[int, list[int]] = {}
        self.maybe: dict[int, list[int]] = {}
        for effect in analysis.effects:
            for to, source in effect.moves:
                self.sources.setdefault(to, []).append(source)
            for to, source in effect.views:
                self.viewed.setdefault(to, []).append(source)
            for to, source in effect.may_view:
                self.maybe.setdefault(to, []).append(source)
        self.scratch = {value for effect in analysis.effects for value in effect.scratch}
        self.storages: list[Storage] = []
        self.position: dict[int, int] = {}
        for tensor in self.method.planned:
            if tensor.index not in self.views.base and tensor.index not in self.viewed:
                self.position[tensor.index] = len(self.storages)
                self.storages.append(self.storage(tensor.index, alignment))

    def storage(self, value: int, alignment: dict[int, int]) -> Storage:
        tensor = self.method.tensors[value]
        assert tensor.place is not None
        unit = alignment[tensor.place.memory]
        kind: StorageKind = "temporary"
        if value in self.method.inputs:
            kind = "input"
        elif value in self.views.state:
            kind = "state"
        elif value in self.method.outputs:
            kind = "output"
        elif value in self.sources:
            kind = "result"
        elif value in self.scratch:
            kind = "scratch"
        return Storage(
            name=f"{self.method.name}/%{value}",
            size=align_up(tensor.size, unit),
            kind=kind,
            persistent=kind == "state",
            alignment=unit,
            arena=DEFAULT_ARENA if tensor.place.memory in self.freed else tensor.place.memory,
            dtype=tensor.dtype,
            shape=tensor.shape,
            operator=self.maker(value),
        )

    def maker(self, value: int) -> str | None:
        for instruction, effect in zip(self.method.instructions, self.analysis.effects, strict=True):
            if value in effect.writes:
                return instruction.operator or None
        return None

    def merged(self, value: int) -> bool:
        """Whether a moved tensor has a storage that its moves are to be merged with."""
        return value in self.position and value not in self.apart

    def where(self, value: int, seen: frozenset[int] = frozenset()) -> tuple[int, ...]:
        """Storages whose bytes a tensor may see."""
        value = self.views.base.get(value, value)
        if value in seen:
            return ()
        seen |= {value}
        if value in self.sources and not self.merged(value):
            return self.all(self.sources[value], seen)
        if value in self.viewed:
            return self.all(self.viewed[value], seen)
        own = (self.position[value],) if value in self.position else ()
        return tuple(dict.fromkeys((*own, *self.all(self.maybe.get(value, ()), seen))))

    def all(self, values: Iterable[int], seen: frozenset[int] = frozenset()) -> tuple[int, ...]:
        return tuple(dict.fromkeys(storage for value in values for storage in self.where(value, seen)))

    def run(self) -> FlowGraph:
        paths = self.analysis.paths
        given = tuple(i for i, storage in enumerate(self.storages) if storage.kind in ("input", "state"))
        # One tick for the entry, one an instruction, one before an instruction for each way into a loop.
        tick: dict[int, int] = {}
        begin: dict[tuple[int, int], int] = {}
        count = 1
        for at in range(paths.count):
            for edge in self.analysis.begins:
                if edge[1] == at:
                    begin[edge] = count
                    count += 1
            tick[at] = count
            count += 1
        points: list[Point | None] = [None] * count
        steps: list[Step] = []
        points[0] = Point("entry", 0, writes=given, successors=(self.next(-1, 0, tick, begin),))
        for at in range(paths.count - 1):
            successors = tuple(self.next(at, to, tick, begin) for to in paths.successors[at])
            points[tick[at]] = self.point(at, len(steps), successors)
            steps.append(self.step(at))
        for edge, at in begin.items():
            filled = self.all(self.analysis.begins[edge])
            points[at] = Point("step", 0, edge[1], writes=filled, successors=(tick[edge[1]],))
        points[-1] = Point("exit", 0, reads=self.all((*self.method.outputs, *sorted(self.views.state))))
        values = tuple(
            Value(f"{self.method.name}/%{value}", storage=position)
            for value, position in self.position.items()
        )
        program = Program((Region(steps=tuple(steps)),), values, tuple(self.storages), name=self.method.name)
        made = tuple(point for point in points if point is not None)
        return FlowGraph(program, made, (Activation(0, None, -1, {}),), ((0, 0, count),))

    @staticmethod
    def next(at: int, to: int, tick: dict[int, int], begin: dict[tuple[int, int], int]) -> int:
        return begin.get((at, to), tick[to])

    def step(self, at: int) -> Step:
        instruction = self.method.instructions[at]
        name = f"{at} {instruction.operator or instruction.kind}"
        return Step(name, instruction.operator or instruction.kind, source=instruction.source or None)

    def point(self, at: int, step: int, successors: tuple[int, ...]) -> Point:
        effect = self.analysis.effects[at]
        copies = [copy for to, source in effect.moves if (copy := self.copy(to, source)) is not None]
        copied = dict(effect.copies) if self.merge_copies else {}
        made = [copy for to, source in copied.items() if (copy := self.copy(to, source)) is not None]
        done = {copy.target_storage for copy in made}
        whole, some = self.written(effect)
        whole = tuple(s for s in whole if s not in done)
        return Point(
            "step",
            0,
            step,
            reads=() if made else self.all(effect.reads),
            writes=whole,
            partial=some,
            copies=(*copies, *made),
            successors=successors,
            overwrites=self.overwrites(at) if self.allowances else (),
            matches=self.matches(at) if self.allowances else (),
        )

    def overwrites(self, at: int) -> tuple[tuple[int, int], ...]:
        """Storages that the kernel may write over others; not over what it also reads in another way."""
        over, reads = self.analysis.allowance(at).over, self.analysis.effects[at].reads
        found = set()
        for written in dict.fromkeys(written for written, _ in over):
            allowed = {read for other, read in over if other == written}
            refused = set(self.all(read for read in reads if read not in allowed))
            target = self.whole(written)
            for source in map(self.whole, allowed):
                if None not in (target, source) and source != target and source not in refused:
                    found.add((target, source))
        return tuple(sorted((a, b) for a, b in found if a is not None and b is not None))

    def matches(self, at: int) -> tuple[SameBytes, ...]:
        """Storages that are the same bytes afterwards, without those that match at several distances."""
        found: dict[tuple[int, int], set[int]] = {}
        for inner, outer, distance in self.analysis.allowance(at).same:
            a, b = self.whole(inner), self.whole(outer)
            if a is not None and b is not None and a != b:
                found.setdefault((a, b), set()).add(distance)
        return tuple(SameBytes(a, b, d.pop()) for (a, b), d in found.items() if len(d) == 1)

    def whole(self, value: int) -> int | None:
        """The one storage that a tensor covers from end to end; None if there is none."""
        found = self.where(value)
        if len(found) != 1:
            return None
        owner = self.method.tensors[int(self.storages[found[0]].name.rpartition("%")[2])]
        return found[0] if owner.size == self.method.tensors[value].size else None

    def copy(self, to: int, source: int) -> Copy | None:
        """``to := source``, if ``to`` has a storage of its own."""
        if not self.merged(to) if to in self.sources else to not in self.position:
            return None
        target, origins = self.position[to], self.where(source)
        same = len(origins) == 1 and self.storages[origins[0]].size == self.storages[target].size
        return Copy(None, None, target, origins, same)

    def written(self, effect: PteEffect) -> tuple[tuple[int, ...], tuple[int, ...]]:
        whole: dict[int, None] = {}
        some = dict.fromkeys(self.all((*effect.updates, *effect.gathers)))
        for value in (*effect.defines, *effect.overwrites, *effect.scratch):
            root = self.views.base.get(value, value)
            found = self.where(value)
            covers = len(found) == 1 and self.method.tensors[root].size <= self.method.tensors[value].size
            own = root in self.position and root not in self.sources
            (whole if own or covers else some).update(dict.fromkeys(found[:1] if own else found))
        return tuple(whole), tuple(s for s in some if s not in whole)

    def unmerged(self, buffer: dict[int, int]) -> frozenset[int]:
        """Moved tensors that do not share one buffer with all that is moved to them."""
        failed = set()
        for to, sources in self.sources.items():
            if not self.merged(to) or to not in buffer:
                continue
            for source in sources:
                found = self.where(source)
                names = {int(self.storages[s].name.rpartition("%")[2]) for s in found}
                if len(found) != 1 or {buffer.get(name) for name in names} != {buffer[to]}:
                    failed.add(to)
        return frozenset(failed)
