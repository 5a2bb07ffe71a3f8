"""Plan -> Picture: rectangles, curves of live bytes, bands, and names for the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.outputs.picture.colours import printable
from lowtide.outputs.picture.drawing import ArenaView, Band, Picture, PictureStep, Rectangle
from lowtide.outputs.picture.ram_bar import ram_bar
from lowtide.report.curve import Curve, floor_of, live_curve

if TYPE_CHECKING:
    from lowtide.ir.device_memory import DeviceMemory
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Arena, RegionSpan


_FAR = 2
"""Times of what a bank holds, up to which its capacity is drawn."""


def make_picture(
    plan: Plan, *, title: str = "plan", flow: FlowGraph | None = None, memory: DeviceMemory | None = None
) -> Picture:
    """The picture of a plan.

    Args:
        plan: taken as it is; whether it is right is for the verifier to say.
        title: what it is of.
        flow: program points of the program that the plan is of, whose names the steps then have.
            Without it, a step goes by the largest buffer that begins there, or else that ends there.
        memory: all that it takes on a device, for a bar of its own.
    """
    arenas = _arenas(plan)
    edges = {edge for buffer in plan.problem.buffers for interval in buffer.lifetime for edge in interval}
    edges.update(edge for region in plan.problem.regions for interval in region.span for edge in interval)
    if flow is not None:
        edges.update(range(len(flow.points) + 1))
    cuts = sorted(edges)
    names = _names_in(flow, cuts) if flow is not None else _names_by_buffers(plan, cuts)
    steps = tuple(
        PictureStep(start, stop, name) for start, stop, name in zip(cuts[:-1], cuts[1:], names, strict=True)
    )
    return Picture(
        title=printable(title),
        plan=plan,
        start=cuts[0] if cuts else 0,
        stop=cuts[-1] if cuts else 0,
        steps=steps,
        bands=_bands(plan.problem.regions),
        arenas=arenas,
        ram=None if memory is None else ram_bar(memory),
    )


def _arenas(plan: Plan) -> tuple[ArenaView, ...]:
    found: dict[int, list[Rectangle]] = {arena.id: [] for arena in plan.problem.arenas}
    for position, (buffer, offset) in enumerate(zip(plan.problem.buffers, plan.offsets, strict=True)):
        found[buffer.arena].extend(
            Rectangle(position, start, stop, offset, buffer.size) for start, stop in buffer.lifetime
        )
    banks = {bank.mem_id: bank.name for bank in plan.banks}
    views = []
    for arena, use in zip(plan.problem.arenas, plan.uses, strict=True):
        # A bank may be far larger than what is in it: its end would leave no room for that.
        far = arena.id in banks and (arena.capacity or 0) > _FAR * use.bytes
        views.append(
            ArenaView(
                use=use,
                capacity=None if far else arena.capacity,
                reserved=arena.reserved,
                rectangles=tuple(found[arena.id]),
                live=_live(plan, arena),
                bank=banks.get(arena.id),
                alone=len(plan.uses) == 1,
            )
        )
    return tuple(views)


def _live(plan: Plan, arena: Arena) -> Curve:
    curve = live_curve(floor_of(plan.problem.part(arena)[0]))
    return Curve(curve.ticks, tuple(size + arena.reserved for size in curve.bytes))


def _bands(regions: tuple[RegionSpan, ...]) -> tuple[Band, ...]:
    """By start, the longest first: whatever is still open when a band starts encloses it."""
    spans = [(start, -stop, i) for i, region in enumerate(regions) for start, stop in region.span]
    bands: list[Band] = []
    open_until: list[int] = []
    for start, minus_stop, i in sorted(spans):
        while open_until and open_until[-1] <= start:
            open_until.pop()
        bands.append(Band(regions[i].name, regions[i].kind, start, -minus_stop, len(open_until)))
        open_until.append(-minus_stop)
    return tuple(bands)


def _names_in(flow: FlowGraph, cuts: list[int]) -> list[str]:
    """One name for each stretch between two cuts."""
    return [flow.describe(tick) if 0 <= tick < len(flow.points) else "" for tick in cuts[:-1]]


def _names_by_buffers(plan: Plan, cuts: list[int]) -> list[str]:
    starts: dict[int, int] = {}
    stops: dict[int, int] = {}
    buffers = plan.problem.buffers
    for position, buffer in enumerate(buffers):
        for start, stop in buffer.lifetime:
            for edges, tick in ((starts, start), (stops, stop)):
                known = edges.get(tick)
                if known is None or buffer.size > buffers[known].size:
                    edges[tick] = position
    names = []
    for tick in cuts[:-1]:
        if tick in starts:
            names.append(buffers[starts[tick]].label)
        elif tick in stops:
            names.append(f"after {buffers[stops[tick]].label}")
        else:
            names.append("")
    return names
