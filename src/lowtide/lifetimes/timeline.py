"""Program -> Problem: the one place that turns control flow into lifetimes.

Points are laid on one clock (``flow``), liveness is solved on them (``liveness``), the ends of copies
that do not interfere become one buffer (``coalesce``); what remains is to write down when each buffer
is alive as a set of half-open intervals. On that clock a hierarchy of regions *is* an interval
packing problem, and no packer needs to know of branches or loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.ir.flow import spans_by_region
from lowtide.ir.problem import Buffer, Placement, Problem, RegionSpan, merge_intervals
from lowtide.lifetimes.coalesce import coalesce
from lowtide.lifetimes.coincidences import find_coincidences
from lowtide.lifetimes.frees import find_frees
from lowtide.lifetimes.liveness import solve
from lowtide.lifetimes.lowering import POINT_LIMIT, lower
from lowtide.lifetimes.nesting import find_nests

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.problem import Arena, Lifetime
    from lowtide.ir.program import Program
    from lowtide.lifetimes.coalesce import Coalesced

_KINDS = ("state", "input", "output", "carry", "result", "temporary", "scratch")


def build_problem(
    program: Program,
    *,
    arenas: Iterable[Arena] = (),
    point_limit: int = POINT_LIMIT,
    in_place: bool = False,
    elide_copies: bool = False,
) -> Problem:
    """The packing problem of a program: one buffer for each class of planned storages.

    Args:
        program: what runs.
        arenas: capacities and reserved prefixes, where there are any.
        point_limit: the most program points that its calls may unfold into.
        in_place: whether outputs may lie over inputs that die, where the kernel allows it.
        elide_copies: whether what a step copies may share the bytes of the copy.

    Raises:
        UnsupportedError: the program unfolds too far, or a region calls itself.
    """
    flow = lower(program, point_limit=point_limit)
    return problem_of_flow(flow, arenas=arenas, in_place=in_place, elide_copies=elide_copies)


def problem_of_flow(
    flow: FlowGraph, *, arenas: Iterable[Arena] = (), in_place: bool = False, elide_copies: bool = False
) -> Problem:
    """As build_problem, for a front end that has program points already."""
    return Timeline(flow).problem(arenas=arenas, in_place=in_place, elide_copies=elide_copies)


class Timeline:
    """Program points and what is known of them whatever may share bytes: solved once, for several problems.

    Args:
        flow: program points.
    """

    def __init__(self, flow: FlowGraph) -> None:
        self.flow = flow
        self.liveness = solve(flow)
        self._ancestors = _ancestors(flow)
        self._classed: dict[bool, tuple[Coalesced, dict[int, Buffer]]] = {}
        self._frees = find_frees(flow.program)

    def problem(
        self, *, arenas: Iterable[Arena] = (), in_place: bool = False, elide_copies: bool = False
    ) -> Problem:
        """As build_problem."""
        coalesced, buffers = self._classes(elide_copies)
        lifetimes = {representative: buffer.lifetime for representative, buffer in buffers.items()}
        coincide, nests = [], []
        if in_place:
            coincide = find_coincidences(self.flow, self.liveness, coalesced.classes, lifetimes)
        if elide_copies:
            nests = find_nests(self.flow, coalesced, lifetimes)
        return Problem(
            buffers=tuple(buffers.values()),
            arenas=tuple(arenas),
            may_coincide=tuple((buffers[a].id, buffers[b].id) for a, b in coincide),
            placements=tuple(Placement(buffers[n.inner].id, buffers[n.outer].id, n.distance) for n in nests),
            regions=_regions(self.flow, self._ancestors),
            frees=self._frees,
        )

    def _classes(self, elide_copies: bool) -> tuple[Coalesced, dict[int, Buffer]]:
        """What shares a buffer, and the buffers that are planned and ever occupied, by representative."""
        if elide_copies not in self._classed:
            program, occupied = self.flow.program, self.liveness.occupied
            coalesced = coalesce(self.flow, self.liveness, matches=elide_copies)
            buffers: dict[int, Buffer] = {}
            for representative, members in coalesced.classes.members().items():
                if not all(program.storages[s].planned for s in members):
                    continue
                lifetime = merge_intervals(interval for s in members for interval in occupied[s])
                if lifetime:
                    buffers[representative] = _buffer(program, members, lifetime, self._ancestors)
            self._classed[elide_copies] = coalesced, buffers
        return self._classed[elide_copies]


def _ancestors(flow: FlowGraph) -> dict[int, tuple[int, ...]]:
    """For each region that runs, the regions that are active in all of its activations, outermost first.

    The last is the region itself. A region called from several places has just the common ones.
    """
    found: dict[int, tuple[int, ...]] = {}
    for activation in flow.activations:
        chain = [activation.region]
        parent = activation.parent
        while parent is not None:
            chain.append(flow.activations[parent].region)
            parent = flow.activations[parent].parent
        chain.reverse()
        region = activation.region
        known = found.get(region)
        # The region itself is common to all of its chains, but not at one depth: leave it out, put it back.
        found[region] = tuple(chain) if known is None else (*_common(known[:-1], chain[:-1]), region)
    for position, region_info in enumerate(flow.program.regions):
        if (
            position not in found and region_info.parent in found
        ):  # a delegate: scratch, and no steps of its own
            found[position] = (*found[region_info.parent], position)
    return found


def _common(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The longest common prefix."""
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return tuple(a[:length])


def _owner(program: Program, members: Sequence[int], ancestors: dict[int, tuple[int, ...]]) -> int:
    """The innermost region that is active wherever one of the members' regions is."""
    chain = ancestors[program.storages[members[0]].region]
    for member in members[1:]:
        chain = _common(chain, ancestors[program.storages[member].region])
    return chain[-1]


def _buffer(
    program: Program, members: list[int], lifetime: Lifetime, ancestors: dict[int, tuple[int, ...]]
) -> Buffer:
    owner = _owner(program, members, ancestors)
    storages = program.storages

    def rank(member: int) -> tuple[bool, int, int]:
        return (storages[member].region != owner, _KINDS.index(storages[member].kind), member)

    face = storages[min(members, key=rank)]
    assert face.size is not None
    kind = min((storages[m].kind for m in members), key=_KINDS.index)
    return Buffer(
        id=face.name,
        size=face.size,
        lifetime=lifetime,
        alignment=max(storages[m].alignment for m in members),
        arena=face.arena,
        name=face.name,
        kind=kind,
        region=program.regions[owner].name,
        dtype=face.dtype,
        shape=face.shape,
        operator=face.operator,
        source=face.source,
        members=tuple(storages[m].name for m in members),
    )


def _regions(flow: FlowGraph, ancestors: dict[int, tuple[int, ...]]) -> tuple[RegionSpan, ...]:
    regions = flow.program.regions
    found = []
    for position, spans in sorted(spans_by_region(flow).items()):
        chain = ancestors[position]
        parent = regions[chain[-2]].name if len(chain) > 1 else None
        found.append(RegionSpan(regions[position].name, regions[position].kind, tuple(sorted(spans)), parent))
    return tuple(found)
