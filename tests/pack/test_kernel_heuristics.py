"""The kernel's heuristics, bounds, verifier and shared objects against quadratic checks written in Python."""

from __future__ import annotations

import itertools
import signal
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide import _kernel

MAX = 2**63 - 1


@dataclass
class Case:
    """A packing problem as plain lists, and the kernel's view of it."""

    sizes: list[int]
    lives: list[list[tuple[int, int]]]
    alignments: list[int] = field(default_factory=list)
    pins: list[int] = field(default_factory=list)
    reserved: int = 0
    capacity: int = -1
    coincide: list[tuple[int, int]] = field(default_factory=list)
    placements: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alignments = self.alignments or [1] * len(self.sizes)
        self.pins = self.pins or [-1] * len(self.sizes)

    def kernel(self) -> _kernel.Problem:
        spans = [span for life in self.lives for span in life]
        return _kernel.Problem(
            *(np.array(a, np.int64) for a in (self.sizes, self.alignments, self.pins)),
            np.cumsum([0] + [len(life) for life in self.lives], dtype=np.int64),
            np.array([start for start, _ in spans], np.int64),
            np.array([stop for _, stop in spans], np.int64),
            self.reserved,
            self.capacity,
            self.coincide,
            self.placements,
        )

    def conflict(self, i: int, j: int) -> bool:
        return any(a < d and c < b for a, b in self.lives[i] for c, d in self.lives[j])

    def nested(self, i: int, j: int) -> bool:
        inside: dict[int, list[int]] = {}
        for inner, outer, _ in self.placements:
            inside.setdefault(inner, []).append(outer)
        todo, seen = list(inside.get(i, [])), set()
        while todo:
            seen.add(outer := todo.pop())
            todo += inside.get(outer, [])
        return j in seen

    def violations(self, at: list[int]) -> set[tuple[str, int, int]]:
        found = set()
        for i, (offset, size) in enumerate(zip(at, self.sizes, strict=True)):
            end = offset + size
            if offset < 0 or (size > 0 and offset < self.reserved):
                found.add(("reserved", i, -1))
            if end > (MAX if self.capacity < 0 else self.capacity):
                found.add(("capacity", i, -1))
            if offset % self.alignments[i]:
                found.add(("alignment", i, -1))
            if self.pins[i] not in (-1, offset):
                found.add(("pin", i, -1))
        for inner, outer, distance in self.placements:
            if at[inner] - at[outer] != distance or distance + self.sizes[inner] > self.sizes[outer]:
                found.add(("placement", inner, outer))
        for i, j in itertools.combinations(range(len(at)), 2):
            if not self.share(at, i, j) or not self.conflict(i, j) or self.nested(i, j) or self.nested(j, i):
                continue
            if at[i] == at[j] and ((i, j) in self.coincide or (j, i) in self.coincide):
                continue
            found.add(("overlap", i, j))
        return found

    def share(self, at: list[int], i: int, j: int) -> bool:
        low, high = max(at[i], at[j]), min(at[i] + self.sizes[i], at[j] + self.sizes[j])
        return low < high

    def reuse_pairs(self, at: list[int]) -> int:
        pairs = itertools.combinations(range(len(at)), 2)
        return sum(self.share(at, i, j) and not self.conflict(i, j) for i, j in pairs)


@st.composite
def cases(draw: st.DrawFn, most: int = 24) -> Case:
    """Problems with every feature in the mix; feasible, so that every packer must succeed."""
    count = draw(st.integers(1, most))
    lives = []
    for _ in range(count):
        cuts = sorted(draw(st.sets(st.integers(0, 24), min_size=2, max_size=6)))
        lives.append(list(itertools.pairwise(cuts))[::2])
    sizes = draw(st.lists(st.integers(0, 60), min_size=count, max_size=count))
    alignments = draw(st.lists(st.sampled_from([1, 1, 2, 3, 8, 16]), min_size=count, max_size=count))
    case = Case(sizes, lives, alignments, reserved=draw(st.sampled_from([0, 0, 7, 64])))
    free = iter(draw(st.permutations(range(count))))
    for _ in range(draw(st.integers(0, count // 6))):
        i, j = next(free), next(free)
        case.sizes[j], case.alignments[j] = case.sizes[i], case.alignments[i]
        case.coincide.append((i, j))
    if count >= 6 and draw(st.booleans()):
        outer, middle, inner = next(free), next(free), next(free)
        case.sizes[outer], case.sizes[middle], case.sizes[inner] = 100, 40, 8
        case.alignments[outer], case.alignments[middle], case.alignments[inner] = 16, 8, 4
        case.placements = [(middle, outer, 24), (inner, middle, draw(st.sampled_from([0, 4, 32])))]
    if count >= 2 and draw(st.booleans()):
        pinned = next(free)
        case.pins[pinned] = 240 if 240 % case.alignments[pinned] == 0 else 96
    return case


ORDERS = _kernel.order_names()


@settings(max_examples=150, deadline=None)
@given(cases(), st.sampled_from(ORDERS))
def test_every_packing_is_legal(case: Case, order: str) -> None:
    problem = case.kernel()
    permutation = _kernel.order_by(problem, order)
    assert sorted(permutation) == list(range(len(case.sizes)))
    for packer in (_kernel.first_fit, _kernel.best_fit):
        packing = packer(problem, permutation)
        assert case.violations(packing.offsets) == set()
        ends = [at + size for at, size in zip(packing.offsets, case.sizes, strict=True) if size]
        assert packing.arena == max([case.reserved, *ends])
        if not case.coincide and not case.placements:
            assert packing.arena >= _kernel.live_peak(problem)


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 2**63))
def test_improvement_is_legal_and_repeatable(case: Case, seed: int) -> None:
    problem = case.kernel()
    once = _kernel.improve(problem, rounds=8, seed=seed)
    again = _kernel.improve(problem, rounds=8, seed=seed, threads=2)
    assert once.offsets == again.offsets
    assert case.violations(once.offsets) == set()
    assert once.history[-1][1] == once.arena
    assert [arena for _, arena in once.history] == sorted((a for _, a in once.history), reverse=True)
    better = _kernel.improve(problem, rounds=2, incumbent=once.offsets)
    assert better.arena <= once.arena


@settings(max_examples=200, deadline=None)
@given(cases(), st.data())
def test_check_finds_exactly_what_is_wrong(case: Case, data: st.DataObject) -> None:
    count = len(case.sizes)
    offsets = data.draw(st.lists(st.integers(-5, 300), min_size=count, max_size=count))
    case.capacity = data.draw(st.sampled_from([-1, 200, 1000]))
    result = _kernel.check(case.kernel(), offsets, limit=10**6)
    assert len(result.violations) == len(set(result.violations))
    assert set(result.violations) == case.violations(offsets)
    assert result.reuse_pairs == case.reuse_pairs(offsets)


@settings(max_examples=100, deadline=None)
@given(cases(), st.data())
def test_check_notices_a_single_moved_buffer(case: Case, data: st.DataObject) -> None:
    problem = case.kernel()
    offsets = _kernel.first_fit(problem, _kernel.order_by(problem, "size")).offsets
    assert _kernel.check(problem, offsets).violations == []
    moved = data.draw(st.integers(0, len(offsets) - 1))
    offsets[moved] += data.draw(st.integers(-offsets[moved], 40))
    assert set(_kernel.check(problem, offsets).violations) == case.violations(offsets)


def test_check_stops_at_its_limit() -> None:
    case = Case([1] * 50, [[(0, 1)]] * 50)
    result = _kernel.check(case.kernel(), [0] * 50, limit=7)
    assert len(result.violations) == 7
    assert result.truncated
    assert result.reuse_pairs is None
    with pytest.raises(ValueError, match="one offset for each buffer"):
        _kernel.check(case.kernel(), [0] * 49)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_live_curve_is_the_sum_at_every_instant(case: Case) -> None:
    problem = case.kernel()
    times, live = _kernel.live_curve(problem)

    def alive_at(t: int) -> int:
        lives = zip(case.sizes, case.lives, strict=True)
        return sum(size for size, life in lives if any(a <= t < b for a, b in life))

    curve = dict(zip(times, live, strict=True))
    value = 0
    for t in range(26):
        value = curve.get(t, value)
        assert value == alive_at(t)
    assert _kernel.live_peak(problem) == case.reserved + max(map(alive_at, range(26)))


def test_sums_near_the_largest_integer_are_right_or_refused() -> None:
    half = MAX // 2
    apart = Case([half] * 3, [[(0, 1)], [(1, 2)], [(2, 3)]]).kernel()
    together = Case([half] * 3, [[(0, 3)], [(0, 3)], [(0, 3)]]).kernel()
    assert _kernel.live_peak(apart) == _kernel.first_fit(apart, [0, 1, 2]).arena == half
    for refused in (
        lambda: _kernel.live_peak(together),
        lambda: _kernel.first_fit(together, [0, 1, 2]),
        lambda: _kernel.best_fit(together, [2, 1, 0]),
        lambda: _kernel.improve(together, rounds=1, target=0),
        lambda: _kernel.shared_objects(together),
    ):
        with pytest.raises(OverflowError):
            refused()
    assert ("overlap", 0, 1) in _kernel.check(together, [0, half - 1, MAX - 1]).violations


def test_errors_say_what_is_wrong() -> None:
    case = Case([64, 64], [[(0, 2)], [(0, 2)]], alignments=[16, 16], placements=[(1, 0, 8)])
    with pytest.raises(ValueError, match="rigid group of buffer 1: alignments cannot all be met"):
        _kernel.first_fit(case.kernel(), [0, 1])
    plain = Case([1, 1], [[(0, 1)], [(0, 1)]]).kernel()
    with pytest.raises(ValueError, match="not a permutation"):
        _kernel.first_fit(plain, [0, 0])
    with pytest.raises(ValueError, match="no order is called 'colour'"):
        _kernel.order_by(plain, "colour")


def test_improve_reports_progress_and_stops_at_the_bound() -> None:
    rng = np.random.default_rng(0)
    lives = [[(int(a), int(a + d))] for a, d in rng.integers(1, 400, (3000, 2))]
    case = Case(rng.integers(1, 10**6, 3000).tolist(), lives)
    problem = case.kernel()
    seen: list[tuple[float, int]] = []
    result = _kernel.improve(problem, seconds=0.5, progress=lambda when, arena: seen.append((when, arena)))
    assert seen == result.history
    easy = _kernel.improve(problem, seconds=60, target=result.arena, incumbent=result.offsets)
    assert easy.rounds == 0
    assert easy.offsets == result.offsets


def test_an_error_in_progress_reaches_the_caller() -> None:
    case = Case([3, 5], [[(0, 2)], [(1, 3)]])

    def fail(_when: float, _arena: int) -> None:
        raise RuntimeError("no thanks")

    with pytest.raises(RuntimeError, match="no thanks"):
        _kernel.improve(case.kernel(), rounds=1, progress=fail)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_interrupt_returns_the_best_so_far() -> None:
    rng = np.random.default_rng(1)
    case = Case(
        rng.integers(1, 99, 400).tolist(), [[(int(a), int(a) + 60)] for a in rng.integers(0, 300, 400)]
    )
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    result = _kernel.improve(case.kernel(), seconds=600, target=0)
    timer.join()
    assert result.interrupted
    assert case.violations(result.offsets) == set()


def least_total(case: Case) -> int:
    """The least sum of object sizes, by trying every partition of the buffers."""
    best = sum(case.sizes)

    def place(i: int, objects: list[list[int]], total: int) -> None:
        nonlocal best
        if total >= best:
            return
        if i == len(case.sizes):
            best = total
            return
        if case.sizes[i] == 0:
            place(i + 1, objects, total)
            return
        for members in objects:
            if any(
                case.conflict(i, j) and (i, j) not in case.coincide and (j, i) not in case.coincide
                for j in members
            ):
                continue
            size = max(case.sizes[j] for j in members)
            members.append(i)
            place(i + 1, objects, total + max(0, case.sizes[i] - size))
            members.pop()
        objects.append([i])
        place(i + 1, objects, total + case.sizes[i])
        objects.pop()

    place(0, [], 0)
    return best


@settings(max_examples=80, deadline=None)
@given(cases(most=8))
def test_shared_objects_are_optimal_on_small_problems(case: Case) -> None:
    case.reserved, case.placements, case.pins = 0, [], [-1] * len(case.sizes)
    problem = case.kernel()
    result = _kernel.shared_objects(problem, nodes=10**6)
    assert result.optimal
    assert result.total == result.lower_bound == least_total(case) == sum(result.sizes)
    assert _kernel.object_lower_bound(problem) <= result.total
    sizes = [0] * len(result.sizes)
    for i, o in enumerate(result.objects):
        assert (o == -1) == (case.sizes[i] == 0)
        if o < 0:
            continue
        sizes[o] = max(sizes[o], case.sizes[i])
        for j in range(i):
            if result.objects[j] == o and case.conflict(i, j):
                assert (i, j) in case.coincide or (j, i) in case.coincide
    assert sizes == result.sizes


@pytest.mark.parametrize("choice", ["closest", "smallest"])
def test_greedy_objects_take_the_object_that_suits(choice: str) -> None:
    # Objects of 10 and 100 are free when a buffer of 40 comes: 10 is closer, 100 is large enough.
    case = Case([10, 100, 40], [[(0, 1)], [(0, 1)], [(1, 2)]])
    result = _kernel.greedy_objects(case.kernel(), [0, 1, 2], choice)
    assert result.objects == ([0, 1, 0] if choice == "closest" else [0, 1, 1])
    assert result.total == (140 if choice == "closest" else 110)


def test_objects_have_no_offsets() -> None:
    case = Case([4, 4], [[(0, 1)], [(0, 1)]], pins=[0, -1])
    with pytest.raises(ValueError, match="no offsets"):
        _kernel.shared_objects(case.kernel())


def test_large_problems_meet_what_is_promised() -> None:
    """Twenty thousand buffers, a tenth of them long-lived: legal, and close to the bound."""
    rng = np.random.default_rng(3)
    count = 20_000
    start = rng.integers(0, count, count)
    duration = np.where(rng.random(count) < 0.1, rng.integers(1, count, count), rng.integers(1, 60, count))
    size = np.exp(rng.normal(8, 1.5, count)).astype(np.int64) + 1
    problem = _kernel.Problem(
        size,
        np.full(count, 1, np.int64),
        np.full(count, -1, np.int64),
        np.arange(count + 1, dtype=np.int64),
        start,
        start + duration,
    )
    result = _kernel.improve(problem, rounds=1, threads=2)
    check = _kernel.check(problem, result.offsets)
    assert check.violations == []
    assert check.reuse_pairs > count
    assert result.arena <= 1.05 * _kernel.live_peak(problem)
