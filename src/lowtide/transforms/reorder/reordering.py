"""Program -> Reordering: a better order of each region's steps, judged by the packed arena."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_TIMEOUT
from lowtide.pack.registry import Options
from lowtide.pack.techniques import Techniques, plan_program
from lowtide.transforms.reorder.branch_and_bound import orders_below
from lowtide.transforms.reorder.modelling import Modeller
from lowtide.transforms.reorder.solving import solve

if TYPE_CHECKING:
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Arena
    from lowtide.ir.program import Program
    from lowtide.pack.hierarchy import Hierarchy
    from lowtide.transforms.reorder.branch_and_bound import SearchBudget
    from lowtide.transforms.reorder.work import Model

TINY = 10
"""Where the only region has no more steps, every order that could win is packed, if need be."""

TRIED = 200
"""So many of them at the most."""

Edges = Mapping[int, Sequence[tuple[int, int]]]
"""For each region pairs of steps that keep their order, the earlier first."""


@dataclass(frozen=True, slots=True)
class RegionOrder:
    """The order found for one region.

    Args:
        region: its qualified name.
        order: the steps by their positions in the given order: ``order[0]`` runs first.
        peak_before, peak_after: most bytes alive while it runs, under the given order and under this one.
        bound: no order that keeps the dependences has a peak below this.
    """

    region: str
    order: tuple[int, ...]
    peak_before: int
    peak_after: int
    bound: int

    @property
    def changed(self) -> bool:
        """Whether any step moved."""
        return self.order != tuple(range(len(self.order)))

    @property
    def proved(self) -> bool:
        """Whether no order that keeps the dependences has a lower peak."""
        return self.peak_after == self.bound


@dataclass(frozen=True)
class Reordering:
    """What reordering made of a program.

    Args:
        program: in the order that is better; the given one if none is.
        regions: one entry for each region that has steps and runs, in the program's order.
        before, after: the plans of both orders.
        searched: the orders of least peak that were found, whether or not the packed arena approved of
            them; one entry a region, as ``regions``.
    """

    program: Program
    regions: tuple[RegionOrder, ...]
    before: Plan
    after: Plan
    searched: tuple[RegionOrder, ...] = field(default=(), compare=False)

    @property
    def changed(self) -> bool:
        """Whether any step moved."""
        return any(region.changed for region in self.regions)

    @property
    def orders(self) -> dict[str, tuple[int, ...]]:
        """By region name, the order of those regions in which any step moved."""
        return {region.region: region.order for region in self.regions if region.changed}


def reorder(
    program: Program,
    *,
    in_place: bool = False,
    elide_copies: bool = False,
    edges: Edges | None = None,
    arenas: Sequence[Arena] = (),
    budget: SearchBudget | None = None,
    packer: str = "auto",
    hierarchy: Hierarchy = "joint",
    options: Options | None = None,
) -> Reordering:
    """Reorder independent steps of each region so that fewer bytes are alive at the peak.

    Regions that are called go first. The packed arena has the last word: where it is no smaller than
    that of the given order, the given order stays.

    Args:
        program: what runs.
        in_place, elide_copies: as for ``build_problem``; counted in the peaks, and allowed in the plans.
        edges: what else must keep its order, such as random numbers that the program does not tell of.
        arenas: capacities and reserved prefixes.
        budget: of the exact search.
        packer, hierarchy, options: how both orders are planned.

    Raises:
        UnsupportedError: the program unfolds too far, or a region calls itself.
        InfeasibleError: neither order fits the arenas.
    """
    options = options or Options(timeout=DEFAULT_TIMEOUT)
    sharing = {"in_place": in_place, "elide_copies": elide_copies}

    def plan(chosen: Program) -> Plan:
        return plan_program(
            chosen,
            Techniques(in_place, elide_copies),
            packer=packer,
            hierarchy=hierarchy,
            options=options,
            arenas=arenas,
        )

    candidate, searched = _search(program, sharing, edges or {}, budget)
    before = plan(program)
    given = tuple(map(_as_given, searched))
    best = Reordering(program, given, before, before, searched)
    if candidate is not program:
        after = plan(candidate)
        if after.arena_bytes < before.arena_bytes:
            best = replace(best, program=candidate, regions=searched, after=after)
    if len(program.regions) == len(searched) == 1 and len(searched[0].order) <= TINY:
        model = Modeller(program, **sharing).model(0, (edges or {}).get(0, ()))
        best = _try_all(best, program, model, plan, options.timeout)
    return best


def _try_all(
    best: Reordering,
    given: Program,
    model: Model | None,
    plan: Callable[[Program], Plan],
    timeout: float | None,
) -> Reordering:
    """Pack every order that could be better, while there is time: one of higher peak may leave fewer gaps."""
    assert model is not None
    began = time.perf_counter()
    (region,) = best.searched
    for order in orders_below(model, best.after.arena_bytes, TRIED):
        if best.after.arena_bytes <= region.bound:
            break
        if timeout is not None and time.perf_counter() - began > timeout:
            break
        if model.peak(order) >= best.after.arena_bytes:
            continue
        program = with_order(given, 0, order)
        found = plan(program)
        if found.arena_bytes < best.after.arena_bytes:
            chosen = replace(region, order=order, peak_after=model.peak(order))
            best = replace(best, program=program, regions=(chosen,), after=found)
    return best


def _as_given(region: RegionOrder) -> RegionOrder:
    given = tuple(range(len(region.order)))
    return replace(region, order=given, peak_after=region.peak_before)


def _search(
    program: Program, sharing: Mapping[str, bool], edges: Edges, budget: SearchBudget | None
) -> tuple[Program, tuple[RegionOrder, ...]]:
    """The order of least peak of each region, callees first; the same program if none is better."""
    found: list[RegionOrder] = []
    modeller = Modeller(program, **sharing)
    for position in range(len(program.regions) - 1, -1, -1):
        model = modeller.model(position, edges.get(position, ()))
        if model is None:
            continue
        solution = solve(model, budget)
        name = program.regions[position].name
        region = RegionOrder(name, solution.order, solution.before, solution.after, solution.bound)
        found.append(region)
        if region.changed:
            program = with_order(program, position, region.order)
            modeller = Modeller(program, **sharing)
    return program, tuple(reversed(found))


def with_order(program: Program, region: int, order: Sequence[int]) -> Program:
    """The program with the steps of one region in another order, by their positions in the old one."""
    old = program.regions[region]
    new = replace(old, steps=tuple(old.steps[position] for position in order))
    return replace(program, regions=(*program.regions[:region], new, *program.regions[region + 1 :]))
