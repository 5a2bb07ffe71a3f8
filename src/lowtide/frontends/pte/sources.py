"""A method of a ``.pte`` as the rest of Lowtide takes it: a problem, its own plan, a check of plans."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.base.errors import InputError, UnsupportedError, Violation
from lowtide.base.files import show_name
from lowtide.frontends.coinciding import permit_sharing, sharing_pairs
from lowtide.frontends.front_end import Source
from lowtide.frontends.pte.analysis import analyse
from lowtide.frontends.pte.auditing import check_places
from lowtide.frontends.pte.banking import freed_memories
from lowtide.frontends.pte.contents import contents_of
from lowtide.frontends.pte.flow import layout_of, own_layout
from lowtide.frontends.pte.methods import Place, alignment_in
from lowtide.frontends.pte.on_device import device_memory
from lowtide.ir.problem import Arena, Problem
from lowtide.pack.bounds import live_peak, lower_bound
from lowtide.pack.planner import plan_at
from lowtide.verifier.banks import may_move

if TYPE_CHECKING:
    from lowtide.frontends.pte.analysis import Analysis
    from lowtide.frontends.pte.faults import Finding
    from lowtide.frontends.pte.flow import Layout
    from lowtide.frontends.pte.on_device import Loading
    from lowtide.frontends.pte.reading import PteFile
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.memory_map import MemoryMap
    from lowtide.ir.plan import Plan
    from lowtide.pack.techniques import Techniques


def load_methods(
    file: PteFile,
    alignment: int,
    wanted: str | None = None,
    loading: Loading | None = None,
    memory: MemoryMap | None = None,
) -> tuple[Source, ...]:
    """The methods of a file that plan any memory, or the one asked for.

    Args:
        file: as read.
        alignment: bytes, of every offset and size.
        wanted: name of the one; None for all.
        loading: how they are loaded on a device, if one was named.
        memory: the banks that tensors go to, if there are any.

    Raises:
        InputError: there is no such method, none plans any memory, or one does not fit the device's pool.
        UnsupportedError: a method has a view that no place is right for.
    """
    analyses = analyse(file)
    names = [analysis.method.name for analysis in analyses]
    if wanted is not None and wanted not in names:
        raise InputError(
            f"{file.name}: there is no method {wanted!r}: it has {', '.join(map(show_name, names))}"
        )
    chosen = [
        analysis
        for analysis in analyses
        if analysis.method.name == wanted or (wanted is None and any(True for _ in analysis.method.planned))
    ]
    if not chosen:
        raise InputError(f"{file.name}: no method plans any memory")
    found = tuple(_load(file, analysis, alignment, memory) for analysis in chosen)
    if loading is None:
        return found
    return tuple(
        replace(source, device_memory=device_memory(file, analysis, analyses, loading))
        for source, analysis in zip(found, chosen, strict=True)
    )


def _load(file: PteFile, analysis: Analysis, alignment: int, memory: MemoryMap | None) -> Source:
    method = analysis.method
    memories = sorted({t.place.memory for t in method.planned if t.place is not None})
    unit = dict.fromkeys(memories, alignment)
    try:
        layout = layout_of(analysis, unit)
    except UnsupportedError as error:
        raise UnsupportedError(f"{file.name}: {error}") from None
    arenas = tuple(Arena(memory) for memory in memories)
    problem = replace(layout.problem, arenas=arenas)

    own = own_layout(analysis, {m: alignment_in(method, m, most=alignment) for m in memories})
    plan = _own_plan(analysis, replace(own.problem, arenas=arenas), alignment)

    def follow(other: Plan) -> list[Violation]:
        if other == plan:
            return _violations(analysis, _audit(analysis, alignment))
        return _follow(analysis, layout, other, alignment)

    freed = () if memory is None else freed_memories(method, memory)

    def layouts(choice: Techniques) -> tuple[Problem, FlowGraph]:
        found = layout_of(
            analysis, unit, in_place=choice.in_place, elide_copies=choice.elide_copies, freed=freed
        )
        kept = tuple(arena for arena in arenas if arena.id not in freed)
        return replace(found.problem, arenas=kept), found.flow

    return Source(
        problem,
        follow=follow,
        flow=own.flow,
        layouts=layouts,
        plan=plan,
        contents=contents_of(file, analysis),
        origin=file,
        file=file.name,
        name=method.name,
        remarks=tuple(_remark(analysis, own, plan, memory, problem) for memory in memories),
    )


def _own_plan(analysis: Analysis, problem: Problem, alignment: int) -> Plan:
    """The file's plan; what shares bytes while it is alive may do so, unless it is found to be lost."""
    tensors = analysis.method.tensors
    offsets: list[int] = []
    for buffer in problem.buffers:
        place = tensors[int(buffer.id.rpartition("%")[2])].place
        assert place is not None
        offsets.append(place.start)
    if sharing_pairs(problem, offsets):
        problem, offsets = permit_sharing(problem, offsets, _at_fault(analysis, alignment))
    return plan_at(problem, offsets)


def _at_fault(analysis: Analysis, alignment: int) -> set[str]:
    """Ids of the buffers of tensors that the file's own plan makes lose their bytes."""
    base = analysis.views.base
    return {
        f"{analysis.method.name}/%{base.get(value, value)}"
        for finding in _audit(analysis, alignment)
        if finding.kind in ("overlap", "unwritten")
        for value in finding.values
    }


def _audit(analysis: Analysis, alignment: int) -> list[Finding]:
    """Faults of the file's own plan, in which views and results have places that no plan of buffers names."""
    from lowtide.frontends.pte.auditing import check_places

    places = {t.index: t.place for t in analysis.method.planned if t.place is not None}
    return check_places(analysis, places, analysis.method.arenas, alignment)


def _remark(analysis: Analysis, own: Layout, plan: Plan, memory: int, problem: Problem) -> str:
    size = analysis.method.arenas.get(memory, 0)
    part, _ = problem.part(problem.arena(memory))
    bound = lower_bound(part, peak=live_peak(part))
    if plan.problem.has_permissions:  # it may be below what is needed where no live tensors share bytes
        bound = min(bound, *(use.lower_bound_bytes for use in plan.uses if use.id == memory))
    unused = size - _touched(analysis, own, memory)
    times = f", {size / bound:.3f} times the lower bound" if bound else ""
    return f"The file's own plan: arena {memory} has {size:,} bytes{times}; {unused:,} are never used."


def _touched(analysis: Analysis, own: Layout, memory: int) -> int:
    """Bytes of an arena that some tensor is alive in at some time."""
    tensors, buffers = analysis.method.tensors, own.problem.buffers
    places = [(tensors[value].place, buffers[i].size) for value, i in own.buffer.items()]
    spans = sorted((p.start, p.start + size) for p, size in places if p is not None and p.memory == memory)
    total, reach = 0, 0
    for start, stop in spans:
        total += max(stop - max(start, reach), 0)
        reach = max(reach, stop)
    return total


def _follow(analysis: Analysis, layout: Layout, plan: Plan, alignment: int) -> list[Violation]:
    places, unplaced = {}, []
    names = {f"{analysis.method.name}/%{tensor.index}": tensor for tensor in analysis.method.planned}
    for name, tensor in names.items():
        assert tensor.place is not None
        holder = layout.buffer.get(tensor.index)
        if holder is None:
            continue  # nothing ever touches it
        label = name if name in plan.names else layout.problem.buffers[holder].id
        if label not in plan.names:
            unplaced.append(Violation("unplaced", f"{name} has no place in the plan", (name,)))
            continue
        start, answered = plan.offset_of(label), plan.problem.buffers[plan.names[label]].arena
        if not may_move(plan, tensor.place.memory, answered):
            unplaced.append(Violation("misfit", f"{name} is not in the arena that was asked for", (name,)))
        places[tensor.index] = Place(answered, start, start + tensor.size)
    if unplaced:
        return unplaced
    known = {name for buffer in layout.problem.buffers for name in buffer.members} | names.keys()
    strange = [name for buffer in plan.problem.buffers for name in (buffer.members or (buffer.id,))]
    found = [
        Violation("unknown", f"the program has no tensor {name!r}", (name,))
        for name in strange
        if name not in known
    ]
    arenas = {use.id: use.bytes for use in plan.uses}
    return found + _violations(analysis, check_places(analysis, places, arenas, alignment))


def _violations(analysis: Analysis, findings: list[Finding]) -> list[Violation]:
    return [
        Violation("lost", finding.message, tuple(f"{analysis.method.name}/%{v}" for v in finding.values))
        for finding in findings
    ]
