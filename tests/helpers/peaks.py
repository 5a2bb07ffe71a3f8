"""What must hold of every peak that is explained."""

from __future__ import annotations

from lowtide import Buffer, Explanation, Problem


def live_at(problem: Problem, arena: int, tick: int) -> list[Buffer]:
    """The buffers of an arena that are alive at a tick, by looking at each."""
    return [
        b
        for b in problem.buffers
        if b.arena == arena and b.size and any(start <= tick < stop for start, stop in b.lifetime)
    ]


def check_peaks(explanation: Explanation, problem: Problem) -> None:
    """Every figure of the peaks against the buffers' own lifetimes."""
    ticks = sorted({t for b in problem.buffers for interval in b.lifetime for t in interval})
    described = {peak.arena: peak for peak in explanation.peaks}
    for arena in problem.arenas:
        heights = {t: sum(b.size for b in live_at(problem, arena.id, t)) + arena.reserved for t in ticks}
        most = max(heights.values(), default=arena.reserved)
        if most == arena.reserved:
            assert arena.id not in described
            continue
        peak = described[arena.id]
        assert peak.bytes == heights[peak.at.tick] == peak.at.bytes == most
        assert peak.at.tick == min(t for t in ticks if heights[t] == most)
        alive = live_at(problem, arena.id, peak.at.tick)
        assert sorted(a.name for a in peak.alive) == sorted(b.label for b in alive)
        assert [a.bytes for a in peak.alive] == sorted((b.size for b in alive), reverse=True)
        assert sum(a.bytes for a in peak.alive) + peak.reserved == peak.bytes
        assert [t for t in ticks if heights[t] == most] == [
            t for t in ticks if any(start <= t < stop for start, stop in peak.lasts)
        ]
        below = max((height for height in heights.values() if height < most), default=arena.reserved)
        assert (peak.next.bytes if peak.next else arena.reserved) == below
        assert peak.summits[0] == peak.at
