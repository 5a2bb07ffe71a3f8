"""The exact search against brute force, with every feature and with each rule switched off."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bruteforce import Arrays, brute_force, is_packing
from lowtide import _kernel

NOTHING_PINNED = Arrays([0, 0], [[(0, 1)]] * 2, [1, 1], [-1, 1], placements=[(1, 0, 0)])
"""Two buffers without bytes, one inside the other, above an arena of no bytes."""

RULES = [name for name, _ in _kernel.rules()]
LIMIT = 26
"""Bytes up to which brute force looks for a packing."""

lives = st.lists(st.integers(0, 9), min_size=2, max_size=6, unique=True).map(
    lambda points: [(a, b) for a, b in zip(sorted(points)[::2], sorted(points)[1::2], strict=False)]
)


@st.composite
def problems(draw: st.DrawFn) -> Arrays:
    """Up to five buffers, with any mix of features."""
    n = draw(st.integers(1, 5))
    size = [draw(st.integers(0, 5)) for _ in range(n)]
    alignment = draw(
        st.one_of(st.just([1] * n), st.just([4] * n), st.lists(st.integers(1, 4), min_size=n, max_size=n))
    )
    pin = [-1] * n
    coincide: list[tuple[int, int]] = []
    placements: list[tuple[int, int, int]] = []
    if draw(st.booleans()):
        pin = [draw(st.sampled_from([-1, -1, 0, alignment[i], 2 * alignment[i]])) for i in range(n)]
    if draw(st.booleans()):
        for i in range(1, n):
            j = draw(st.integers(0, i - 1))
            if size[i] <= size[j] and draw(st.booleans()):
                placements.append((i, j, draw(st.integers(0, size[j] - size[i]))))
    if draw(st.booleans()):
        equal = [(i, j) for i in range(n) for j in range(i) if size[i] == size[j]]
        coincide = [pair for pair in equal if draw(st.booleans())]
    return Arrays(
        size,
        [draw(lives) for _ in range(n)],
        alignment,
        pin,
        draw(st.sampled_from([0, 0, 1, 3])),
        coincide=coincide,
        placements=placements,
    )


def solve(arrays: Arrays, **options: object) -> _kernel.SearchResult | None:
    """The search's answer; None if it refuses a rigid group that contradicts itself."""
    try:
        return _kernel.search(arrays.to_kernel(), **options)
    except ValueError:
        return None


def agrees(arrays: Arrays, best: int | None, disable: list[str]) -> None:
    """Compare the smallest arena, and the verdicts on either side of it, with brute force."""
    found = solve(arrays, disable=disable)
    if found is None or found.stopped == "infeasible":
        assert best is None
        return
    assert found.stopped == "optimal"
    assert found.arena == found.lower_bound
    assert is_packing(arrays, found.offsets, found.arena)
    if best is None:
        assert found.arena > LIMIT
        return
    assert found.arena == best
    for capacity in range(max(best - 1, arrays.reserved), best + 2):
        fit = solve(replace(arrays, capacity=capacity), fit=True, disable=disable)
        assert fit is not None
        assert (fit.stopped in ("optimal", "fit")) == (capacity >= best)
        if fit.offsets is not None and fit.stopped != "infeasible":
            assert is_packing(arrays, fit.offsets, capacity)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems())
@example(NOTHING_PINNED)
def test_agrees_with_brute_force(arrays: Arrays) -> None:
    agrees(arrays, brute_force(arrays, LIMIT), [])


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(arrays=problems())
def test_without_a_rule_the_answer_is_the_same(rule: str, arrays: Arrays) -> None:
    agrees(arrays, brute_force(arrays, LIMIT), [rule])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems())
def test_without_any_rule_the_answer_is_the_same(arrays: Arrays) -> None:
    agrees(arrays, brute_force(arrays, LIMIT), RULES)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@settings(max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(arrays=problems(), disable=st.lists(st.sampled_from(RULES), unique=True))
def test_many_agree_with_brute_force(part: int, arrays: Arrays, disable: list[str]) -> None:
    agrees(arrays, brute_force(arrays, LIMIT), disable)


def crowd(n: int, seed: int = 1) -> Arrays:
    """Overlapping buffers whose smallest arena is not found at once."""
    import random

    chance = random.Random(seed)
    starts = [chance.randrange(n) for _ in range(n)]
    return Arrays(
        [chance.randrange(1, 1000) for _ in range(n)],
        [[(start, start + chance.randrange(1, n // 4))] for start in starts],
        [1] * n,
        [-1] * n,
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_same_seed_same_answer(threads: int) -> None:
    problem = crowd(120).to_kernel()
    runs = [_kernel.search(problem, threads=threads, seed=3, node_limit=20_000) for _ in range(2)]
    assert runs[0].offsets == runs[1].offsets
    assert runs[0].nodes == runs[1].nodes
    strip = [[(arena, bound) for _, arena, bound in run.history] for run in runs]
    assert strip[0] == strip[1]


def test_history_only_improves() -> None:
    found = _kernel.search(crowd(120).to_kernel(), node_limit=20_000)
    arenas = [arena for _, arena, _ in found.history if arena is not None]
    bounds = [bound for _, _, bound in found.history]
    assert arenas == sorted(arenas, reverse=True)
    assert bounds == sorted(bounds)
    assert arenas[-1] == found.arena


def test_incumbent_is_never_made_worse() -> None:
    problem = crowd(120).to_kernel()
    first = _kernel.search(problem, node_limit=20_000)
    again = _kernel.search(problem, node_limit=1, incumbent=first.offsets)
    assert again.arena <= first.arena


def test_progress_is_reported_and_may_stop_the_search() -> None:
    seen: list[tuple[float, int | None, int, int]] = []
    _kernel.search(crowd(300).to_kernel(), deadline=0.3, progress=lambda *state: seen.append(state))
    assert seen
    assert all(arena is None or arena >= bound for _, arena, bound, _ in seen)

    def refuse(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        _kernel.search(crowd(300).to_kernel(), progress=refuse)


@pytest.mark.skipif(os.name == "nt", reason="no signals to oneself")
def test_interrupt_returns_the_best_so_far() -> None:
    problem = crowd(400)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    found = _kernel.search(problem.to_kernel(), deadline=60.0)
    assert found.stopped in ("interrupted", "optimal")
    assert is_packing(problem, found.offsets, found.arena)
    if found.stopped == "optimal":
        with pytest.raises(KeyboardInterrupt):
            threading.Event().wait(5)


def test_sums_beyond_63_bits_are_refused() -> None:
    huge = Arrays([2**62, 2**62 - 1], [[(0, 2)], [(1, 3)]], [1, 1], [-1, -1])
    assert _kernel.search(huge.to_kernel()).arena == 2**63 - 1
    with pytest.raises(OverflowError):
        _kernel.search(replace(huge, size=[2**62, 2**62]).to_kernel())


def test_unknown_rule_and_missing_capacity_are_refused() -> None:
    problem = crowd(8).to_kernel()
    with pytest.raises(ValueError, match="no rule 'nonsense'"):
        _kernel.search(problem, disable=["nonsense"])
    with pytest.raises(ValueError, match="capacity"):
        _kernel.search(problem, fit=True)
