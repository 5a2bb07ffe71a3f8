"""explain, diff and compare with a memory map: costs of banks, and what more room would win."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

import lowtide
from lowtide.cli.app import app
from lowtide.formats.csv.reading import read_csv
from lowtide.ir.memory_map import Bank, MemoryMap
from lowtide.outputs.json import json_schema

DATA = Path(__file__).parents[2] / "benchmarks" / "data" / "executorch-greedy"
FAST, SLOW = Bank("fast", 640 << 10, 1), Bank("slow", 1 << 23, 2, read_cost=8.0, write_cost=8.0)
BOARD = """
[[bank]]
name = "fast"
size = "640KiB"
mem_id = 1
read_cost = 1
write_cost = 1

[[bank]]
name = "slow"
size = "8MiB"
mem_id = 2
read_cost = 8
write_cost = 8
"""


@pytest.fixture
def board(tmp_path: Path) -> str:
    path = tmp_path / "board.toml"
    path.write_text(BOARD)
    return str(path)


def test_more_room_wins_what_it_is_said_to():
    problem, memory = read_csv(DATA / "vit_tiny.csv"), MemoryMap((FAST, SLOW))
    found = lowtide.explain(problem, memory_map=memory)
    plan = lowtide.plan(problem, memory_map=memory)
    assert sum(bank.cost for bank in found.banks) == plan.cost
    assert sum(bank.share for bank in found.banks) == pytest.approx(1)
    assert [bank.buffers for bank in found.banks] == [
        sum(b.arena == id for b in plan.problem.buffers) for id in (1, 2)
    ]
    assert found.more_room
    saved = 0.0
    for room in found.more_room:
        larger = MemoryMap((replace(FAST, size=FAST.size + room.more_bytes), SLOW))
        again = lowtide.plan(problem, memory_map=larger)
        assert (room.bank, room.saves) == ("fast", plan.cost - again.cost)
        assert room.saves > saved
        saved = room.saves
        up = {
            b.id
            for b, old in zip(again.problem.buffers, plan.problem.buffers, strict=True)
            if (b.arena, old.arena) == (1, 2)
        }
        assert set(room.buffers) == up
    jsonschema.validate(json.loads(found.to_json()), json_schema("explanation"))
    assert f"{found.more_room[0].saves:,.10g} less" in found.to_markdown()


def test_a_bank_that_holds_everything_wins_nothing_with_more():
    memory = MemoryMap((replace(FAST, size=1 << 24), SLOW))
    found = lowtide.explain(read_csv(DATA / "vit_tiny.csv"), memory_map=memory)
    assert found.more_room == ()
    assert [bank.share for bank in found.banks] == [1.0, 0.0]


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code in (0, 1), (done.output, done.exception)
    return done.stdout


def test_commands_take_the_map(board, tmp_path):
    csv, plan = str(DATA / "vit_tiny.csv"), str(tmp_path / "plan.json")
    run("plan", csv, "--memory-map", board, "--json", plan)
    assert "857,306,912" in run("explain", csv, "--memory-map", board)
    assert "With 81,920 bytes (80.0 KiB) more in fast" in run("explain", csv, "--memory-map", board)
    rows = json.loads(
        run("compare", csv, "--memory-map", board, "--packer", "auto", "--packer", "greedy", "--json")
    )["plans"]
    assert [row["cost"] == row["cost_bound"] for row in rows] == [True, False]
    assert "620 unchanged" in run("diff", plan, csv, "--memory-map", board)
    assert "moved" in run("diff", csv, plan)
    of_plan = json.loads(run("explain", plan, "--memory-map", board, "--json"))
    assert [bank["cost"] for bank in of_plan["banks"]] == [153_981_216, 703_325_696]
    assert of_plan["more_room"] == []  # a plan is explained as it is
