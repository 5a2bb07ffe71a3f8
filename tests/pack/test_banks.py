"""Banks: the cheapest choice that can be laid out, against brute force and other solvers."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from lowtide.base.errors import InfeasibleError, InputError
from lowtide.formats.csv.reading import read_csv
from lowtide.ir.memory_map import Bank, MemoryMap, Pin
from lowtide.ir.plan import Plan
from lowtide.ir.problem import Buffer, Placement, Problem
from lowtide.pack.banks.choice import Choices
from lowtide.pack.banks.planning import plan_in_banks
from lowtide.pack.bounds import live_peak
from lowtide.pack.planner import plan_problem
from lowtide.pack.registry import Options
from tiny_problems import smallest

DATA = Path(__file__).parents[2] / "benchmarks" / "data" / "executorch-greedy"
KINDS = ("temporary", "input", "output")


def planned(problem: Problem, memory: MemoryMap, **options: object) -> Plan:
    """The plan, verified."""
    settings = Options(timeout=5.0, threads=1)
    plan = plan_in_banks(problem, memory, packer="auto", hierarchy="joint", options=settings)
    plan.verify()
    return plan


def random_case(seed: int) -> tuple[Problem, MemoryMap]:
    """Three to six buffers and one to three banks, with pins, gaps, permissions and alignments in the mix."""
    chance = random.Random(seed)
    buffers = []
    for i in range(chance.randint(3, 6)):
        start = chance.randint(0, 6)
        life = [(start, start + chance.randint(1, 4))]
        if chance.random() < 0.2:
            life.append((life[0][1] + 1, life[0][1] + 1 + chance.randint(1, 3)))
        count = chance.random() < 0.6
        buffers.append(
            Buffer(
                f"b{i}",
                chance.choice((0, 1, 2, 3, 4, 5)),
                tuple(life),
                alignment=chance.choice((1, 1, 1, 2)),
                kind=chance.choice(KINDS),
                reads=chance.randint(0, 9) if count else None,
                writes=chance.randint(0, 9) if count else None,
            )
        )
    coincide: list[tuple[str, str]] = []
    placements: list[Placement] = []
    if chance.random() < 0.3:
        a, b = chance.sample(range(len(buffers)), 2)
        buffers[b] = replace(buffers[b], size=buffers[a].size)
        coincide.append((buffers[a].id, buffers[b].id))
    elif chance.random() < 0.2:
        a, b = sorted(chance.sample(range(len(buffers)), 2), key=lambda i: buffers[i].size)
        buffers[a] = replace(buffers[a], alignment=1)
        placements.append(Placement(buffers[a].id, buffers[b].id, 0))
    banks = [
        Bank(
            f"bank{b}",
            chance.randint(3, 9) if b or chance.random() < 0.9 else 40,
            b + 1,
            alignment=chance.choice((1, 1, 2)),
            read_cost=chance.choice((0.5, 1.0, 2.0, 8.0)),
            write_cost=chance.choice((1.0, 1.25, 12.0)),
            reserved=chance.choice((0, 0, 1)),
        )
        for b in range(chance.randint(1, 3))
    ]
    if chance.random() < 0.7:
        banks[-1] = replace(banks[-1], size=40)
    pins = (Pin("input", chance.choice(banks).name),) if chance.random() < 0.3 else ()
    return Problem(tuple(buffers), (), tuple(coincide), tuple(placements)), MemoryMap(tuple(banks), pins)


def brute_force_cost(problem: Problem, memory: MemoryMap) -> int | None:
    """The least cost of all choices that can be laid out, in the units of Choices; None if there is none."""
    from lowtide.pack.banks.planning import _Banks

    banks = _Banks(problem, memory, "auto", "joint", Options())
    items = banks.choices.items
    allowed = [[b for b, cost in enumerate(item.costs) if cost >= 0] for item in items]

    def cost(choice: tuple[int, ...]) -> int:
        return sum(item.costs[b] for item, b in zip(items, choice, strict=True))

    for choice in sorted(product(*allowed), key=cost):
        assigned = banks.assign(choice)
        needs = smallest(assigned.without_capacity())
        if all(n is not None and n <= (a.capacity or 0) for n, a in zip(needs, assigned.arenas, strict=True)):
            return cost(choice)
    return None


def check_case(seed: int) -> str:
    """Compare one random case with brute force; what came of it."""
    problem, memory = random_case(seed)
    try:
        best = brute_force_cost(problem, memory)
    except (InputError, InfeasibleError) as refused:
        with pytest.raises(type(refused)):
            planned(problem, memory)
        return "refused"
    if best is None:
        with pytest.raises(InfeasibleError):
            planned(problem, memory)
        return "infeasible"
    plan = planned(problem, memory)
    due = float(Choices(problem, memory).cost(best))
    assert plan.cost == due, f"seed {seed}"
    assert plan.cost_bound == due, f"seed {seed}: optimal, and not proved"
    return "optimal"


def test_brute_force_finds_nothing_cheaper() -> None:
    seen = [check_case(seed) for seed in range(100)]
    assert seen.count("optimal") > 60
    assert "infeasible" in seen


@pytest.mark.slow
def test_brute_force_finds_nothing_cheaper_in_many() -> None:
    for seed in range(100, 2_100):
        check_case(seed)


def fast_and_slow(problem: Problem, share: float) -> MemoryMap:
    size = int(live_peak(problem) * share)
    return MemoryMap((Bank("fast", size, 1), Bank("slow", 1 << 40, 2, read_cost=10.0, write_cost=10.0)))


@pytest.mark.parametrize(
    ("name", "share", "served"),
    [
        ("vit_tiny", 0.25, 0.3455),
        ("vit_tiny", 0.5, 0.7128),
        ("vit_tiny", 0.75, 0.8938),
        ("mobilenet_v2", 0.5, 0.9026),
        ("efficientnet_b0", 0.5, 0.9222),
        ("efficientnet_b0", 0.75, 0.9611),
        ("yolos_tiny", 0.5, 0.9515),
        ("llama_small", 0.75, 0.9419),
    ],
)
def test_known_optima_are_reached_and_proved(name: str, share: float, served: float) -> None:
    problem = read_csv(DATA / f"{name}.csv")
    plan = planned(problem, fast_and_slow(problem, share))
    accessed = [bank.accessed_bytes for bank in plan.banks]
    assert accessed[0] / sum(accessed) == pytest.approx(served, abs=0.00005)
    assert plan.cost == plan.cost_bound


@pytest.mark.parametrize("name", ["mobilenet_v2", "vit_tiny"])
def test_one_bank_is_no_choice(name: str) -> None:
    problem = read_csv(DATA / f"{name}.csv")
    options = Options(timeout=5.0, threads=1)
    today = plan_problem(problem, options=options)
    plan = planned(problem, MemoryMap((Bank("sram", 1 << 30, 1),)))
    assert plan.offsets == today.offsets
    assert plan.uses == today.uses
    assert plan.problem.buffers == today.problem.buffers
    assert plan.cost == plan.cost_bound == sum(2 * buffer.size for buffer in problem.buffers)


def test_the_same_map_gives_the_same_plan() -> None:
    problem = read_csv(DATA / "vit_tiny.csv")
    memory = fast_and_slow(problem, 0.5)
    assert planned(problem, memory) == planned(problem, memory)


def test_what_cannot_be_laid_out_is_cut_off() -> None:
    """Live bytes fit in 8, but no layout does: the classic of four buffers around a hole."""
    found = 0
    for seed in range(100):
        problem, memory = random_case(seed)
        try:
            choices = Choices(problem, memory)
            relaxed = choices.choose([], seconds=None, seed=0)
            plan = planned(problem, memory)
        except (InputError, InfeasibleError):
            continue
        found += plan.cost != float(choices.cost(relaxed.cost))
    assert found > 0, "no case needs a cut: the test shows nothing"


@pytest.mark.parametrize("packer", ["naive", "first-fit", "greedy"])
def test_a_packer_that_wastes_room_moves_buffers_on(packer: str) -> None:
    problem = read_csv(DATA / "vit_tiny.csv")
    memory = fast_and_slow(problem, 0.25)
    plan = plan_in_banks(problem, memory, packer=packer, hierarchy="joint", options=Options(timeout=5.0))
    plan.verify()
    assert plan.cost is not None
    assert plan.cost_bound is not None
    assert plan.cost >= plan.cost_bound


def test_pins_are_kept_and_names_go_before_kinds() -> None:
    buffers = (
        Buffer("x", 8, ((0, 3),), kind="input"),
        Buffer("y", 8, ((0, 3),), kind="input"),
        Buffer("t", 8, ((0, 3),)),
    )
    banks = (Bank("a", 64, 1), Bank("b", 64, 2, read_cost=9.0))
    plan = planned(Problem(buffers), MemoryMap(banks, (Pin("x", "a"), Pin("input", "b"))))
    assert [plan.bank_of(i) for i in range(3)] == ["a", "b", "a"]


def test_memory_ids_of_banks_pin_and_others_stay_outside() -> None:
    buffers = (
        Buffer("x", 8, ((0, 3),), arena=2),
        Buffer("y", 800, ((0, 3),), arena=7),
        Buffer("t", 8, ((0, 3),)),
    )
    plan = planned(Problem(buffers), MemoryMap((Bank("a", 64, 1), Bank("b", 64, 2, read_cost=9.0))))
    assert [plan.bank_of(i) for i in range(3)] == ["b", None, "a"]
    assert plan.arenas == {1: 8, 2: 8, 7: 800}


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ((Pin("b0", "b"), Pin("b*", "a")), "buffer 'b0' is placed in"),
        ((Pin("nothing*", "a"),), "no buffer has such a name"),
        ((Pin("large", "a"),), "has room for 64 bytes: it needs 100 bytes"),
    ],
)
def test_pins_that_cannot_be_kept_are_named(pins: tuple[Pin, ...], message: str) -> None:
    buffers = (Buffer("b0", 8, ((0, 3),)), Buffer("large", 100, ((0, 3),)))
    memory = MemoryMap((Bank("a", 64, 1), Bank("b", 640, 2)), pins)
    with pytest.raises(InputError, match=message.replace("*", r"\*")):
        planned(Problem(buffers), memory)


def test_what_fits_nowhere_is_named() -> None:
    memory = MemoryMap((Bank("a", 64, 1), Bank("b", 32, 2)))
    with pytest.raises(InfeasibleError, match="'huge' needs 100 bytes and fits in no bank"):
        planned(Problem((Buffer("huge", 100, ((0, 3),)),)), memory)
    with pytest.raises(InfeasibleError, match="120 bytes are alive at time 1, and all banks together"):
        planned(Problem(tuple(Buffer(f"b{i}", 30, ((i // 3, 3),)) for i in range(4))), memory)


@pytest.mark.slow
def test_a_hundred_thousand_buffers_are_planned_with_a_gap() -> None:
    import time

    chance = random.Random(1)
    buffers = []
    for i in range(100_000):
        start = chance.randint(0, 100_000)
        life = 1 + int(chance.expovariate(1 / 60))
        buffers.append(Buffer(f"b{i}", chance.randint(1, 1 << 16), ((start, start + life),)))
    problem = Problem(tuple(buffers))
    began = time.process_time()
    options = Options(timeout=5.0, threads=1)
    plan = plan_in_banks(
        problem, fast_and_slow(problem, 0.3), packer="auto", hierarchy="joint", options=options
    )
    assert time.process_time() - began < 40
    plan.verify()
    assert plan.cost_bound is not None
    assert plan.cost_bound <= (plan.cost or 0) < 1.2 * plan.cost_bound


@pytest.mark.slow
def test_cpsat_finds_nothing_cheaper() -> None:
    """Runs where OR-tools is; no extra installs it, as its protobuf is older than other tests have."""
    pytest.importorskip("ortools")
    from bank_oracle import least_cost_by_cpsat

    unproved = open_ = 0
    for seed in range(200):
        chance = random.Random(seed)
        problem = Problem(
            tuple(
                Buffer(
                    f"b{i}",
                    chance.randint(1, 40),
                    ((start := chance.randint(0, 40), start + chance.randint(1, 20)),),
                    reads=chance.randint(0, 99),
                )
                for i in range(chance.randint(20, 60))
            )
        )
        peak = live_peak(problem)
        memory = MemoryMap(
            (
                Bank("a", max(peak // 4, 1), 1),
                Bank("b", max(peak // 3, 1), 2, read_cost=3.0, write_cost=2.0),
                Bank("c", 1 << 30, 3, read_cost=9.0, write_cost=10.0),
            )[seed % 2 :]
        )
        choices = Choices(problem, memory)
        found = choices.choose([], seconds=None, seed=0)
        least, most = least_cost_by_cpsat(choices, seconds=30)
        assert least <= found.cost <= most, seed
        assert found.bound <= found.cost, seed
        unproved += not found.proved
        open_ += least < most
    assert unproved <= 2, "the kernel proves nearly all of these within its number of states"
    assert open_ <= 10, "CP-SAT settles nearly all of these"
