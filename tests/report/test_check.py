"""lowtide check: exit status and one line that says by how much."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import lowtide
from command_line import CSV, run
from lowtide import Arena, Buffer, InputError, Problem
from lowtide.ir.plan import ArenaUse, Plan
from lowtide.outputs.json import json_schema
from lowtide.report.budget import Budget

PLAN = lowtide.plan(
    Problem((Buffer("a", 4, ((0, 2),)), Buffer("b", 8, ((1, 3),)), Buffer("c", 2048, ((0, 9),), arena=2)))
)


def test_limits_of_all_together_and_of_each() -> None:
    assert PLAN.arenas == {1: 12, 2: 2048}
    assert lowtide.check_budget(PLAN, 2060) == (Budget(None, 2060, 2060, 2060),)
    (both, first, second) = lowtide.check_budget(PLAN, {None: 2059, 1: 11, 2: 4096})
    assert (both.over, both.is_kept) == (1, False)
    assert (first.over, first.is_kept) == (1, False)
    assert (second.over, second.is_kept) == (-2048, True)
    with pytest.raises(InputError, match=r"there is no arena 3 to check: the plan has \[1, 2\]"):
        lowtide.check_budget(PLAN, {3: 5})


@pytest.fixture
def buffers(tmp_path: Path) -> Path:
    path = tmp_path / "buffers.csv"
    path.write_text(CSV)
    return path


def line(*arguments: object) -> tuple[int, str]:
    """Exit status and the one line of output."""
    done = run("check", *map(str, arguments))
    assert done.stderr == ""
    (said,) = done.stdout.splitlines()
    return done.returncode, said


def test_one_line_and_the_exit_status(buffers: Path, tmp_path: Path) -> None:
    over = "arena 1 takes 12 bytes of 11, 1 byte too many; no plan takes less than 12 bytes"
    assert line(buffers, "--max-arena", 11) == (1, f"{buffers}: over budget: {over}")
    kept = "arena 1 takes 12 bytes of 12, 0 bytes to spare"
    assert line(buffers, "--max-arena", "12B") == (0, f"{buffers}: within budget: {kept}")
    plan = tmp_path / "plan.json"
    plan.write_text(PLAN.to_json())
    status, said = line(plan, "--max-arena", "1=12", "--max-arena", "2=1KiB")
    assert status == 1
    over = "arena 2 takes 2,048 bytes (2.0 KiB) of 1,024 (1.0 KiB), 1,024 bytes (1.0 KiB) too many"
    assert said.startswith(f"{plan}: over budget: {over}; no plan takes less than 2,048 bytes (2.0 KiB); ")
    assert said.endswith("arena 1 takes 12 bytes of 12, 0 bytes to spare")


def test_a_plan_is_taken_as_it_stands(tmp_path: Path) -> None:
    problem = Problem((Buffer("a", 4, ((0, 2),)), Buffer("b", 4, ((2, 4),))), (Arena(1),))
    loose = Plan(problem, (0, 4), (ArenaUse(1, 8, 4, 4),), "naive")
    path = tmp_path / "plan.json"
    path.write_text(loose.to_json())
    status, said = line(path, "--max-arena", 4)
    assert status == 1
    assert said.endswith("4 bytes too many; a plan that fits was neither found nor ruled out")
    path.write_text(path.read_text().replace('"offset": 4', '"offset": 3'))
    wrong = run("check", path, "--max-arena", "8")
    assert wrong.returncode in (1, 2)
    assert "within budget" not in wrong.stdout


def test_json_and_quiet(buffers: Path) -> None:
    done = run("check", buffers, "--max-arena", "11", "--json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, json_schema("budget"))
    assert done.returncode == 1
    assert document["kept"] is False
    assert document["limits"][0]["over"] == 1
    quiet = run("check", buffers, "--max-arena", "11", "-q")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (1, "", "")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (["lots"], "'lots' is not a size"),
        (["x=4"], "write ARENA=SIZE"),
        (["4", "5"], "there is one already"),
        (["1=4", "1=5"], "arena 1 has one already"),
        (["7=4"], "there is no arena 7 to check"),
    ],
)
def test_a_budget_that_makes_no_sense(limits: list[str], message: str, buffers: Path) -> None:
    done = run("check", buffers, *(word for limit in limits for word in ("--max-arena", limit)))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
