"""The exact packer through the public interface: proofs, capacities, deadlines, Ctrl-C, and what it shows."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lowtide
from lowtide import Arena, Buffer, InfeasibleError, InputError, Placement, Plan, Problem
from lowtide.formats.csv.writing import problem_to_csv
from lowtide.formats.json.reading import plan_from_json
from lowtide.ir.plan import Progress
from lowtide.pack import Options
from lowtide.pack.exact import rules
from lowtide.pack.planner import plan_problem
from tiny_problems import tiny_problem

needs_signals = pytest.mark.skipif(os.name == "nt", reason="signals and terminals as POSIX has them")


def hard(count: int = 200, seed: int = 1) -> Problem:
    """Sizes and alignments that do not go together: far beyond what any search can prove."""
    chance = random.Random(seed)
    starts = [chance.randrange(count) for _ in range(count)]
    buffers = (
        Buffer(
            f"b{i}",
            chance.randrange(1, 1000),
            ((start, start + 1 + chance.randrange(count // 4)),),
            chance.choice((16, 100, 256)),
        )
        for i, start in enumerate(starts)
    )
    return Problem(tuple(buffers))


def gaps() -> Problem:
    """Live bytes are 10 at the most, but a needs the whole, b and c an end each, and d what lies between."""
    return Problem(
        (
            Buffer("a", 3, ((0, 4),), alignment=4),
            Buffer("b", 3, ((0, 2),), alignment=4),
            Buffer("c", 3, ((2, 6),), alignment=4),
            Buffer("d", 4, ((1, 5),), alignment=4),
        )
    )


def exact(problem: Problem, timeout: float | None = None, **options: object) -> Plan:
    plan = plan_problem(problem, packer="exact", options=Options(timeout=timeout, **options))  # type: ignore[arg-type]
    plan.verify()
    return plan


def test_a_capacity_that_holds_the_best_plan_is_kept() -> None:
    best = exact(gaps())
    assert best.is_optimal
    assert best.arena_bytes > best.live_peak_bytes  # so the proof took more than counting live bytes
    for capacity in (best.arena_bytes, best.arena_bytes + 1, 2 * best.arena_bytes):
        plan = lowtide.plan(gaps(), packer="exact", capacity=capacity)
        plan.verify()
        assert plan.lower_bound_bytes <= best.arena_bytes <= plan.arena_bytes <= capacity


def test_a_capacity_below_the_best_plan_is_refused_with_a_proof() -> None:
    best = exact(gaps()).arena_bytes
    for packer in ("exact", "auto"):
        with pytest.raises(InfeasibleError, match=f"no plan takes less than {best} bytes"):
            lowtide.plan(gaps(), packer=packer, capacity=best - 1)


def test_a_capacity_of_one_arena_of_two() -> None:
    problem = Problem((Buffer("a", 8, ((0, 2),)), Buffer("b", 8, ((1, 3),), arena=2)))
    assert lowtide.plan(problem, packer="exact", capacity={2: 8}).arenas == {1: 8, 2: 8}
    with pytest.raises(InfeasibleError, match="arena 2 has a capacity of 7 bytes"):
        lowtide.plan(problem, packer="exact", capacity={2: 7})


def test_pins_inside_pins_with_a_free_buffer_between() -> None:
    buffers = (
        Buffer("outer", 12, ((0, 4),), offset=4),
        Buffer("between", 8, ((0, 4),)),
        Buffer("inner", 2, ((0, 4),), offset=10),
    )
    inside = (Placement("between", "outer", 2), Placement("inner", "between", 4))
    assert exact(Problem(buffers, placements=inside)).offsets == (4, 6, 10)
    for wrong in (inside[:1], inside[1:], (inside[0], Placement("inner", "between", 5))):
        with pytest.raises(InputError, match=r"'outer'|'inner'"):
            exact(Problem(buffers, placements=wrong))


def test_out_of_time_is_no_proof() -> None:
    """Where neither a plan within the capacity nor a proof was found, the message claims neither.

    No plan is known of that takes less than 19,000 bytes, nor a proof that none does: a busy machine does
    less in the time, not more.
    """
    with pytest.raises(InfeasibleError) as raised:
        lowtide.plan(hard(), packer="exact", capacity=18_000, timeout=0.01, threads=1)
    assert "no plan takes less" not in str(raised.value)


@pytest.mark.parametrize("rule", sorted(rules()))
def test_without_any_one_rule_the_answer_is_the_same(rule: str) -> None:
    different = []
    for seed in range(300_000, 300_150):
        problem = tiny_problem(seed)
        if _answer(problem) != _answer(problem, disable=(rule,)):
            different.append(seed)
    assert different == []
    assert exact(gaps(), disable=(rule,)).arena_bytes == exact(gaps()).arena_bytes


def _answer(problem: Problem, disable: tuple[str, ...] = ()) -> object:
    """The arenas of a minimum, or that there is none; with capacities only whether there is a plan."""
    try:
        plan = exact(problem, threads=1, disable=disable)
    except (InfeasibleError, InputError) as error:
        return type(error)
    return [use.bytes for use, arena in zip(plan.uses, problem.arenas, strict=True) if arena.capacity is None]


def test_every_rule_has_a_name_a_meaning_and_a_place_in_the_documentation() -> None:
    documentation = (Path(__file__).parents[2] / "docs" / "packers.md").read_text()
    for name, meaning in rules().items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert len(meaning) > 40
        assert f"| `{name}` |" in documentation
    with pytest.raises(InputError, match="no rule 'nonsense'"):
        exact(gaps(), disable=("nonsense",))


@pytest.mark.parametrize("packer", ["exact", "auto"])
def test_at_the_deadline_there_is_a_plan_and_a_bound(packer: str) -> None:
    began = time.process_time()
    plan = lowtide.plan(hard(), packer=packer, timeout=0.3, threads=1)
    assert time.process_time() - began < 30  # of the processor, however busy the machine is
    plan.verify()
    assert not plan.is_optimal
    assert not plan.interrupted
    assert plan.live_peak_bytes <= plan.lower_bound_bytes < plan.arena_bytes


@pytest.mark.parametrize("packer", ["exact", "auto"])
def test_history_only_improves_and_ends_with_the_plan(packer: str) -> None:
    plan = lowtide.plan(hard(), packer=packer, timeout=1.0, threads=1)
    assert len(plan.history) > 1
    arenas = [entry.arena_bytes for entry in plan.history]
    bounds = [entry.lower_bound_bytes for entry in plan.history]
    seconds = [entry.seconds for entry in plan.history]
    assert arenas == sorted(arenas, reverse=True)
    assert bounds == sorted(bounds)
    assert seconds == sorted(seconds)
    assert arenas[-1] == plan.arena_bytes
    assert bounds[-1] <= plan.lower_bound_bytes


def test_progress_goes_on_while_nothing_improves() -> None:
    """The callback is told again and again of the same plan and bound, and ends the search."""
    seen: list[tuple[Progress, int]] = []

    class EnoughError(Exception):
        pass

    def watch(progress: Progress, nodes: int) -> None:
        seen.append((progress, nodes))
        same = [(p.arena_bytes, p.lower_bound_bytes) for p, _ in seen[-4:]]
        if len(same) == 4 and len(set(same)) == 1:
            raise EnoughError

    with pytest.raises(EnoughError):
        lowtide.plan(hard(), packer="exact", timeout=None, threads=1, progress=watch)
    nodes = [count for _, count in seen]
    assert nodes == sorted(nodes)
    assert nodes[-1] > 0
    for (before, _), (after, _) in itertools.pairwise(seen):
        assert after.lower_bound_bytes >= before.lower_bound_bytes
        assert after.arena_bytes <= before.arena_bytes


def test_sums_near_2_to_the_63_are_right_or_refused() -> None:
    def stacked(*sizes: int, reserved: int = 0) -> Problem:
        return Problem(
            tuple(Buffer(f"b{i}", size, ((0, 2),)) for i, size in enumerate(sizes)),
            (Arena(1, reserved=reserved),),
        )

    for packer in ("exact", "auto", "first-fit", "best-fit", "naive"):
        plan = plan_problem(stacked(2**62, 2**62 - 1), packer=packer)
        plan.verify()
        assert plan.arena_bytes == 2**63 - 1
    with pytest.raises(InputError, match=r"add up to 2\^63"):
        stacked(2**62, 2**62)
    with pytest.raises(InputError, match=r"add up to 2\^63"):
        stacked(2**62, 2**62 - 4, reserved=4)
    assert exact(stacked(2**62, 2**62 - 4, reserved=3)).arena_bytes == 2**63 - 1


def test_large_sizes_with_alignment_and_reuse_are_right() -> None:
    """As small problems scaled up, so that every sum comes close to the limit."""
    scale = 2**57
    buffers = [Buffer(f"b{i}", size, ((i, i + 3),), 1) for i, size in enumerate((7, 9, 5, 8, 6, 9))]
    small = exact(Problem(tuple(buffers)))
    scaled = tuple(Buffer(b.id, b.size * scale, b.lifetime, scale // 8) for b in buffers)
    assert exact(Problem(scaled)).arena_bytes == small.arena_bytes * scale
    # Two alignments without a common multiple below the limit: one buffer above the other, either way.
    size, primes = 2**61 + 2**60, (2**32 - 5, 2**32 - 17)
    pair = tuple(Buffer(f"p{prime}", size, ((0, 2),), prime) for prime in primes)
    assert exact(Problem(pair)).arena_bytes == min(-(-size // p) * p for p in primes) + size


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("packer", ["exact", "auto"])
def test_same_seed_and_threads_same_plan(packer: str, threads: int) -> None:
    """What the clock does not cut depends on nothing else."""
    for seed in range(3):
        problem = hard(20, seed)
        plans = [
            plan_problem(problem, packer=packer, options=Options(seed=seed, threads=threads))
            for _ in range(2)
        ]
        assert plans[0].offsets == plans[1].offsets
        assert plans[0].uses == plans[1].uses
        assert plans[0].is_optimal


CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PROGRESS = re.compile(r"best ([\d,]+), bound ([\d,]+), gap ([\d.]+), ([\d,]+) nodes, ([\d.]+) s")
REMARK = "lowtide: interrupted: this is the best plan found until then"


def interrupted(*arguments: str) -> tuple[int, str, str]:
    """Status, output and terminal of a command that gets Ctrl-C once its search has been seen to go on."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lowtide", *arguments],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"},
        # A runner started in the background hands down that SIGINT is to be ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(theirs)
    screen, sent = b"", False
    try:
        while block := os.read(ours, 65536):
            screen += block
            if not sent and len(PROGRESS.findall(CODES.sub("", screen.decode(errors="ignore")))) > 3:
                process.send_signal(signal.SIGINT)
                sent = True
    except OSError:  # how Linux says that the other end is closed
        pass
    finally:
        os.close(ours)
    shown, _ = process.communicate()
    return process.returncode, shown, CODES.sub("", screen.decode())


@needs_signals
@pytest.mark.parametrize("packer", ["exact", "auto"])
def test_ctrl_c_gives_the_best_plan_so_far(packer: str, tmp_path: Path) -> None:
    """The plan is checked, written and shown, with a remark; there was nothing wrong, so the status is 0."""
    file, out = tmp_path / "hard.csv", tmp_path / "plan.json"
    file.write_text(problem_to_csv(hard()))
    status, shown, screen = interrupted(
        "plan", str(file), "--packer", packer, "--timeout", "0", "--json", str(out)
    )
    assert status == 0
    assert "Verified" in shown
    assert screen.splitlines()[-1].endswith(REMARK)
    plan = plan_from_json(out.read_text())
    plan.verify()
    assert f"{plan.arena_bytes:,}" in shown
    assert plan.lower_bound_bytes < plan.arena_bytes


@needs_signals
def test_ctrl_c_ends_the_search_in_every_arena(tmp_path: Path) -> None:
    """Once is enough: the arenas that were still to come get their heuristics, no search."""
    buffers = (
        Buffer(f"{b.id}/{arena}", b.size, b.lifetime, b.alignment, arena)
        for arena in (1, 2, 3)
        for b in hard().buffers
    )
    file = tmp_path / "hard.csv"
    file.write_text(problem_to_csv(Problem(tuple(buffers))))
    status, shown, screen = interrupted("plan", str(file), "--timeout", "0")
    assert status == 0
    assert len(re.findall(r"^ *[123] +200 ", shown, re.MULTILINE)) == 3
    assert REMARK in screen


@needs_signals
def test_a_terminal_shows_how_the_search_goes(tmp_path: Path) -> None:
    """Best, bound, gap, nodes and time on one line that is gone at the end; a pipe gets none of it."""
    file = tmp_path / "hard.csv"
    file.write_text(problem_to_csv(hard()))
    status, shown, screen = interrupted("plan", str(file), "--packer", "exact", "--timeout", "0")
    assert status == 0
    lines = PROGRESS.findall(screen)
    assert len(lines) > 3
    assert float(lines[-1][4]) > float(lines[0][4])
    assert int(lines[-1][3].replace(",", "")) > 0
    assert "best" not in shown.replace("best plan", "")
