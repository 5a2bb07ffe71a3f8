"""Programs as they would be after a change: what advice is tried out on.

Each function takes a Program and returns another, in which planning finds what the change would win.
They change the model of the program only; the program itself is its author's to change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.operators.names import base_name, is_random

if TYPE_CHECKING:
    from lowtide.ir.program import Program, Region, Step, Storage, Value

_COPIES = re.compile(
    "clone|contiguous|copy|to|_to_copy|_to_dim_order_copy|_clone_dim_order|lift_fresh_copy|alias_copy|detach_copy|"
    "reshape|flatten|_unsafe_view|view_copy|permute_copy|transpose_copy|t_copy|unsqueeze_copy|squeeze_copy|"
    "slice_copy|select_copy|narrow_copy|expand_copy|as_strided_copy"
)


def storages_of(program: Program) -> list[frozenset[int] | None]:
    """For each value the storages that it may lie in; None where a caller decides that."""
    values = range(len(program.values))
    return [None if program.rests_on_caller(v) else program.storages_of(v) for v in values]


def without_inputs(program: Program) -> Program:
    """Inputs stay in memory that the caller provides."""
    return _changed(program, {i: {"planned": False} for i in _of_kind(program, "input")})


def without_outputs(program: Program) -> Program:
    """Outputs go to memory that the caller provides, and so does an input that is returned."""
    places = storages_of(program)
    returned = {s for v in program.regions[0].outputs if v is not None for s in places[v] or ()}
    returned |= set(_of_kind(program, "output"))
    unplanned = {i for i in returned if program.storages[i].kind != "state"}
    return _changed(program, {i: {"planned": False} for i in unplanned})


def _of_kind(program: Program, kind: str) -> list[int]:
    return [i for i, storage in enumerate(program.storages) if storage.kind == kind]


def _changed(program: Program, changes: Mapping[int, Mapping[str, object]]) -> Program:
    storages = list(program.storages)
    for position, fields in changes.items():
        storages[position] = replace(storages[position], **fields)  # type: ignore[arg-type]
    return replace(program, storages=tuple(storages))


@dataclass(frozen=True)
class FoldedSteps:
    """A program whose constants are computed ahead of time.

    Args:
        program: without the steps.
        steps: qualified names of the steps that are gone.
        storages: names of the storages that became constants, largest first.
        bytes: of constants that the rest of the program reads, and that were in the arena.
    """

    program: Program
    steps: tuple[str, ...]
    storages: tuple[str, ...]
    bytes: int


def fold_constants(program: Program) -> FoldedSteps:
    """Compute ahead of time every step that depends on constants alone.

    A step qualifies if it does nothing but write storages of its own, bounded and written by nobody else,
    from constants or from what qualifies itself; random numbers do not.
    """
    places = storages_of(program)
    writers = _writers(program, places)
    known = set(_of_kind(program, "constant"))
    folded: dict[tuple[int, str], Step] = {}
    made: set[int] = set()
    for position, region in enumerate(program.regions):
        for step in region.steps:
            own = _own_storages(program, step)
            reads = [places[value] for value in step.reads]
            if (
                own
                and not (step.effects or step.call or step.partial or step.scratch)
                and not is_random(step.operator)
                and all(read is not None and read <= known for read in reads)
                and all(writers.get(s) == 1 and _is_fixed(program.storages[s]) for s in own)
            ):
                folded[position, step.name] = step
                known |= own
                made |= own
    regions = tuple(
        replace(region, steps=tuple(s for s in region.steps if (position, s.name) not in folded))
        for position, region in enumerate(program.regions)
    )
    still_used = _used(program, regions, places)
    changed = _changed(program, {s: {"kind": "constant", "planned": False} for s in made})
    return FoldedSteps(
        replace(changed, regions=regions),
        tuple(f"{program.regions[position].name}/{name}" for position, name in folded),
        tuple(program.storages[s].name for s in sorted(made, key=lambda s: -(program.storages[s].size or 0))),
        sum(program.storages[s].size or 0 for s in made & still_used),
    )


def _own_storages(program: Program, step: Step) -> frozenset[int]:
    """Storages that a step makes; empty if it writes anything else."""
    own = [program.values[value].storage for value in step.writes]
    return frozenset() if None in own else frozenset(s for s in own if s is not None)


def _is_fixed(storage: Storage) -> bool:
    """Whether a storage has one size whatever the input."""
    return storage.size is not None and all(isinstance(extent, int) for extent in storage.shape or ())


def _writers(program: Program, places: list[frozenset[int] | None]) -> dict[int, int]:
    """How many steps, calls and writebacks write each storage."""
    found: dict[int, int] = {}
    written: list[int] = [target for target, _ in program.writebacks]
    for region in program.regions:
        for step in region.steps:
            written += (*step.writes, *step.partial)
            if step.call is not None:
                written += (v for v in (*step.call.carries, *step.call.results) if v is not None)
    for value in written:
        for storage in places[value] or ():
            found[storage] = found.get(storage, 0) + 1
    return found


def _used(program: Program, regions: Iterable[Region], places: list[frozenset[int] | None]) -> frozenset[int]:
    """Storages that steps and outputs of these regions name."""
    named: list[int] = [value for pair in program.writebacks for value in pair]
    for region in regions:
        named += (value for value in region.outputs if value is not None)
        for step in region.steps:
            named += step.values
    return frozenset(storage for value in named for storage in places[value] or ())


@dataclass(frozen=True, slots=True)
class CopyStep:
    """A step that does nothing but copy: its result could be a view of what it copies."""

    region: int
    name: str
    target: int
    source: int


def copies_of(program: Program) -> tuple[CopyStep, ...]:
    """The copies that could be left out: neither side is changed later, and the bytes need no new owner."""
    places = storages_of(program)
    writers = _writers(program, places)
    outputs = {s for v in program.regions[0].outputs if v is not None for s in places[v] or ()}
    found = []
    for position, region in enumerate(program.regions):
        for step in region.steps:
            if len(step.reads) != 1 or len(step.writes) != 1 or step.partial or step.call or step.scratch:
                continue
            source, target = step.reads[0], step.writes[0]
            origins, own = places[source], program.values[target].storage
            if (
                not _COPIES.fullmatch(base_name(step.operator))
                or own is None
                or not origins
                or source > target
            ):
                continue
            mine = program.storages[own]
            theirs = [program.storages[origin] for origin in origins]
            if (
                writers.get(own) == 1
                and all(writers.get(origin, 0) <= 1 for origin in origins)
                and all(other.kind not in ("constant", "state") for other in theirs)
                and all(other.dtype == mine.dtype and other.arena == mine.arena for other in theirs)
                and (own not in outputs or all(other.kind == "temporary" for other in theirs))
            ):
                found.append(CopyStep(position, step.name, target, source))
    return tuple(found)


def drop_copies(program: Program, copies: Iterable[CopyStep]) -> Program:
    """The program that reads what was copied instead of the copy."""
    gone = {(copy.region, copy.name) for copy in copies}
    values: list[Value] = list(program.values)
    storages: list[Storage] = list(program.storages)
    for copy in copies:
        own = values[copy.target].storage
        assert own is not None
        values[copy.target] = replace(values[copy.target], storage=None, aliases=(copy.source,))
        if storages[own].kind == "output":
            for origin in storages_of(program)[copy.source] or ():
                planned = storages[origin].planned and storages[own].planned
                storages[origin] = replace(storages[origin], kind="output", planned=planned)
    regions = tuple(
        replace(region, steps=tuple(s for s in region.steps if (position, s.name) not in gone))
        for position, region in enumerate(program.regions)
    )
    return replace(program, values=tuple(values), storages=tuple(storages), regions=regions)


def delay(program: Program, region: int, name: str) -> tuple[Program, str] | None:
    """Run a step as late as its region allows: just before something needs its result or spoils its operands.

    Returns:
        the program and the name of the step that then follows; None if it cannot be moved.
    """
    steps = program.regions[region].steps
    places = storages_of(program)
    at = next(i for i, step in enumerate(steps) if step.name == name)
    moved = steps[at]
    own = _own_storages(program, moved)
    if not own or moved.effects or moved.call or moved.partial or moved.scratch:
        return None
    operands = [places[value] for value in moved.reads]
    if None in operands:
        return None
    spoilt = own.union(*(read for read in operands if read is not None))
    before = next(
        (i for i in range(at + 1, len(steps)) if _must_follow(program, steps[i], own, spoilt, places)), None
    )
    if before is None or before == at + 1:
        return None
    order = (*steps[:at], *steps[at + 1 : before], moved, *steps[before:])
    regions = list(program.regions)
    regions[region] = replace(regions[region], steps=order)
    return replace(program, regions=tuple(regions)), steps[before].name


def _must_follow(
    program: Program,
    step: Step,
    own: frozenset[int],
    spoilt: frozenset[int],
    places: list[frozenset[int] | None],
) -> bool:
    """Whether a step uses one of ``own`` or writes one of ``spoilt``, itself or through what it calls."""
    if any(not own.isdisjoint(places[value] or ()) for value in step.values):
        return True
    written = [places[value] for value in (*step.writes, *step.partial)]
    if any(place is None or not spoilt.isdisjoint(place) for place in written):
        return True
    if step.call is None:
        return False
    # A called region may use, or change, anything around it; what it names itself is looked at alike.
    return any(
        _must_follow(program, inner, own, spoilt, places)
        for callee in step.call.regions
        for inner in program.regions[callee].steps
    ) or any(
        not own.isdisjoint(places[value] or ())
        for callee in step.call.regions
        for value in program.regions[callee].outputs
        if value is not None
    )
