"""Intervals found storage by storage are the fixed point of both data flows, solved point by point."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.ir.flow import FlowGraph, Point
from lowtide.lifetimes.liveness import solve
from lowtide.lifetimes.lowering import lower
from lowtide.testing import random_program


def slow(flow: FlowGraph) -> tuple[list[set[int]], list[set[int]]]:
    """Storages alive after each point, and those occupied at each, by plain iteration over sets."""
    points = flow.points
    fills = [set(point.full_writes) for point in points]
    writes = [set(point.full_writes) | set(point.partial_writes) for point in points]
    reads = [set(point.all_reads) for point in points]
    live_in: list[set[int]] = [set() for _ in points]
    live_out: list[set[int]] = [set() for _ in points]
    written_in: list[set[int]] = [set() for _ in points]
    changed = True
    while changed:
        changed = False
        for tick in reversed(range(len(points))):
            live_out[tick] = set().union(*(live_in[s] for s in points[tick].successors))
            into = reads[tick] | (live_out[tick] - fills[tick])
            changed |= into != live_in[tick]
            live_in[tick] = into
        for tick, point in enumerate(points):
            for successor in point.successors:
                new = written_in[tick] | writes[tick]
                changed |= not new <= written_in[successor]
                written_in[successor] |= new
    persistent = {i for i, storage in enumerate(flow.program.storages) if storage.persistent}
    occupied = []
    for tick in range(len(points)):
        live_out[tick] &= written_in[tick] | writes[tick]
        before = live_in[tick] & written_in[tick]
        occupied.append(before | live_out[tick] | reads[tick] | writes[tick] | persistent)
    return live_out, occupied


def compare(flow: FlowGraph) -> None:
    found = solve(flow)
    live_out, occupied = slow(flow)
    for tick in range(len(flow.points)):
        assert found.live_after(tick) == live_out[tick]
        assert found.occupied_at(tick) == occupied[tick]
        assert {s for s in range(len(found.live_out)) if found.is_live_after(s, tick)} == live_out[tick]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_programs(random: Random) -> None:
    compare(lower(random_program(random, steps=random.randint(1, 25), depth=random.randint(0, 3))))


def graph(random: Random) -> FlowGraph:
    """Points that jump anywhere: loops with several entries, code that nothing leads to."""
    program = random_program(random, steps=3, depth=0)
    count = random.randint(2, 12)
    storages = range(min(4, len(program.storages)))
    points = []
    for tick in range(count):

        def some(chance: float) -> tuple[int, ...]:
            return tuple(s for s in storages if random.random() < chance)

        following = {tick + 1} if tick + 1 < count else set()
        if random.random() < 0.4:
            following.add(random.randrange(count))
        reads, writes, partial = some(0.2), some(0.15), some(0.1)
        points.append(Point("step", 0, 0, reads, writes, partial, successors=tuple(sorted(following))))
    return FlowGraph(program, tuple(points), (), ())


def test_any_graph() -> None:
    for seed in range(300):
        compare(graph(Random(seed)))
