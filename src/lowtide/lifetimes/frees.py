"""When the runtime must free what is not planned: tensors of unbounded size.

In structured programs the last step of the defining region that uses a tensor, itself or through
anything that it calls, comes after every other use on all paths: it post-dominates them. What a
region returns is moved to the caller and freed there; what the root takes or returns is not ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.ir.problem import Free

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lowtide.ir.program import Program, Step


def find_frees(program: Program) -> tuple[Free, ...]:
    """For each unbounded storage, the step after which its region frees it."""
    unbounded = {
        i
        for i, storage in enumerate(program.storages)
        if storage.size is None and storage.kind not in ("input", "state", "constant")
    }
    if not unbounded:
        return ()
    captured = _captures(program)
    frees = []
    for position, region in enumerate(program.regions):
        outgoing = [v for v in region.outputs if v is not None]
        if position == 0:
            outgoing += [new for _, new in program.writebacks]  # copied when the last step is done
        kept = _union(program, outgoing)
        last: dict[int, str] = {}
        for step in region.steps:
            values = {*step.values, *(v for r in _called(step) for v in captured[r])}
            for storage in _union(program, values) & unbounded:
                last[storage] = step.name
        for storage, step_name in sorted(last.items()):
            if storage not in kept and program.regions[program.storages[storage].region] is region:
                frees.append(Free(program.storages[storage].name, region.name, step_name))
    return tuple(frees)


def _captures(program: Program) -> list[set[int]]:
    """For each region, the values of regions around it that it, or what it calls, uses by name."""
    found: list[set[int]] = [set() for _ in program.regions]
    for position in range(len(program.regions) - 1, -1, -1):  # parents come before children
        region = program.regions[position]
        used = {v for v in region.outputs if v is not None}
        for step in region.steps:
            used.update(step.values)
            for callee in _called(step):
                used.update(found[callee])
        found[position] = {v for v in used if program.values[v].region != position}
    return found


def _called(step: Step) -> tuple[int, ...]:
    return step.call.regions if step.call is not None else ()


def _union(program: Program, values: Iterable[int]) -> set[int]:
    return {storage for value in values for storage in program.storages_of(value)}
