"""What the arena holds of the memory that a program takes, and what it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.report.findings import Share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lowtide.frontends.front_end import Source
    from lowtide.ir.program import Program

_NO_PROGRAM = "the file does not say: it lists buffers only"


def shares(source: Source) -> tuple[Share, ...]:
    """Every kind of memory by name, as far as the file tells."""
    program = source.program
    found = list(_planned(source))
    if program is not None:
        found += _unplanned(program)
    found += [
        _constants(source),
        _delegates(source),
        _scratch(source, delegates=True),
        _scratch(source, delegates=False),
    ]
    if program is not None and _loops(program):
        remark = "carries that change places, and the like, need a temporary for the time of the copy"
        found.append(Share("parallel copies", False, None, remark))
    found.append(_bookkeeping(source))
    return tuple(found)


def _bookkeeping(source: Source) -> Share:
    """What the runtime allocates for itself: told where a device was named."""
    told = source.device_memory
    what, remark = "runtime bookkeeping", "tensor descriptors, instruction lists, the allocator's own"
    if told is None:
        return Share(what, False, None, remark)
    return Share(what, False, told.pool_bytes("method"), f"{remark}; on {told.device}")


def _constants(source: Source) -> Share:
    if source.contents is None:
        return Share("constants", False, None, _NO_PROGRAM)
    held = source.contents.constant_bytes
    return Share("constants", False, held, "weights and other tensors that come with the program")


def _planned(source: Source) -> Iterator[Share]:
    kinds = {
        "input": ("inputs", "in the arena from the start"),
        "output": ("outputs", "in the arena until the end"),
        "state": ("state", "mutable buffers, in the arena at all times"),
    }
    for kind, (what, remark) in kinds.items():
        sizes = [buffer.size for buffer in source.problem.buffers if buffer.kind == kind]
        if sizes:
            yield Share(what, True, sum(sizes), remark)


def _unplanned(program: Program) -> Iterator[Share]:
    kinds = {"input": "inputs", "output": "outputs", "state": "state"}
    for kind, what in kinds.items():
        outside = [s for s in program.storages if s.kind == kind and not s.planned and s.size is not None]
        if outside:
            held = sum(s.size or 0 for s in outside)
            yield Share(f"{what} of the caller", False, held, "in memory that the caller provides")
    unbounded = sum(s.size is None for s in program.storages)
    if unbounded:
        remark = f"{unbounded} of no bound, allocated and freed while the program runs"
        yield Share("dynamic tensors", False, None, remark)


def _delegates(source: Source) -> Share:
    what, told = "delegate blobs", source.contents
    if told is None:
        return Share(what, False, None, _NO_PROGRAM)
    if not told.delegates:
        return Share(what, False, 0, "the program has no delegates")
    if len(told.delegate_bytes) != told.delegates:
        return Share(what, False, None, f"{told.delegates} in the program; their sizes are not told")
    return Share(what, False, sum(told.delegate_bytes), f"{told.delegates} in the program")


def _scratch(source: Source, *, delegates: bool) -> Share:
    """Working memory of kernels, or of delegates: counted as far as it was declared."""
    kinds = {region.name: region.kind for region in source.problem.regions}
    sizes = [
        buffer.size
        for buffer in source.problem.buffers
        if buffer.kind == "scratch" and (kinds.get(buffer.region) == "delegate") == delegates
    ]
    what = "delegate scratch" if delegates else "kernel scratch"
    if delegates and source.contents is not None and not source.contents.delegates:
        return Share(what, False, 0, "the program has no delegates")
    told = source.device_memory
    if told is not None and told.working and not sizes:
        if delegates:
            return Share(what, False, None, "as far as it is told, it is counted with the kernels'")
        held = sum(part.bytes or 0 for part in told.working)
        return Share(what, False, held, f"temporary memory; on {told.device}")
    if sizes:
        return Share(what, True, sum(sizes), "as declared; what was not declared is not counted")
    return Share(what, False, None, "none was declared; a kernel that needs some takes it elsewhere")


def _loops(program: Program) -> bool:
    calls = [step.call for region in program.regions for step in region.steps]
    return any(call is not None and call.kind in ("while", "scan") for call in calls)
