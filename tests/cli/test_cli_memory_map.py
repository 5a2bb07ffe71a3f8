"""Memory maps on the command line: what is missing or contradicts itself gives one line and exit status 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import CSV, run
from lowtide.cli.app import app

FAST = 'name = "fast"\nsize = 64\nmem_id = 1\nread_cost = 1\nwrite_cost = 1\n'
SLOW = 'name = "slow"\nsize = "1KiB"\nmem_id = 2\nread_cost = 8\nwrite_cost = 8\n'
GOOD = f"[[bank]]\n{FAST}\n[[bank]]\n{SLOW}"

WRONG = {
    "an empty file": ("", "is empty"),
    "no banks": ("# none\n", "has no banks"),
    "only pins": ('[place]\ninput = "fast"\n', "has no banks"),
    "capacity 0": (GOOD.replace("size = 64", "size = 0"), "size 0 is not a whole number from 1 on"),
    "one name twice": (GOOD.replace('"slow"', '"fast"'), "two banks have the name 'fast'"),
    "one mem_id twice": (GOOD.replace("mem_id = 2", "mem_id = 1"), "two banks have the mem_id 1"),
    "below its reserve": (GOOD.replace("size = 64", "size = 64\nreserved = 65"), "nothing is left"),
    "unknown key": (GOOD.replace("read_cost = 1", "raed_cost = 1"), "did you mean 'read_cost'?"),
    "unknown table": (f"{GOOD}\n[palce]\n", "did you mean 'place'?"),
    "a pattern for nothing": (f'{GOOD}\n[place]\n"root/*" = "slow"\n', "no buffer has such a name"),
    "a pin to no bank": (f'{GOOD}\n[place]\n"a" = "slwo"\n', "did you mean 'slow'?"),
    "a pin too large": (
        f'{GOOD.replace("size = 64", "size = 3")}\n[place]\n"a" = "fast"\n',
        "which has room for 3 bytes: it needs 4 bytes",
    ),
    "two pins that differ": (f'{GOOD}\n[place]\n"a*" = "slow"\n"*a" = "fast"\n', "leave one"),
    "who reads what is not known": (f'{GOOD}\n[place]\n"read-by:conv" = "slow"\n', "place buffers by name"),
}


@pytest.fixture
def buffers(tmp_path: Path) -> Path:
    path = tmp_path / "buffers.csv"
    path.write_text(CSV)
    return path


@pytest.mark.parametrize("name", WRONG)
def test_one_line_and_status_two(name: str, buffers: Path, tmp_path: Path) -> None:
    text, said = WRONG[name]
    board = tmp_path / "board.toml"
    board.write_text(text)
    for command in (["plan"], ["check", "--max-arena", "1MiB"], ["explain"], ["compare"], ["show"]):
        done = CliRunner().invoke(app, [*command, str(buffers), "--memory-map", str(board)])
        message = str(done.exception) if done.exception is not None else done.output
        assert said in message
        assert "\n" not in message.strip()
    done = run("plan", buffers, "--memory-map", board)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_a_map_that_is_not_there(buffers: Path, tmp_path: Path) -> None:
    done = run("plan", buffers, "--memory-map", tmp_path / "none.toml")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no such file" in done.stderr


def test_a_good_map(buffers: Path, tmp_path: Path) -> None:
    board = tmp_path / "board.toml"
    board.write_text(GOOD)
    done = run("plan", buffers, "--memory-map", board)
    assert done.returncode == 0
    assert "no choice of banks costs less" in done.stdout


def test_a_plan_without_banks_is_judged_under_the_map(buffers: Path, tmp_path: Path) -> None:
    """Its arenas are the banks of their memory ids; nothing moves, and sizes and pins must be kept."""
    board, plan = tmp_path / "board.toml", tmp_path / "plan.json"
    assert run("plan", buffers, "--json", plan).returncode == 0
    size = json.loads(plan.read_text())["arena_bytes"]
    board.write_text(GOOD.replace("size = 64", f"size = {size}"))
    done = run("check", plan, "--memory-map", board, "--max-arena", "1MiB")
    assert (done.returncode, done.stderr) == (0, "")
    explained = json.loads(run("explain", plan, "--memory-map", board, "--json").stdout)
    assert [(bank["name"], bank["bytes"]) for bank in explained["banks"]] == [("fast", size), ("slow", 0)]
    assert "bank fast" in run("show", plan, "--memory-map", board, "--term").stdout

    board.write_text(GOOD.replace("size = 64", f"size = {size - 1}"))
    done = run("check", plan, "--memory-map", board, "--max-arena", "1MiB")
    assert done.returncode == 1
    assert "ends above the capacity of its arena" in done.stdout + done.stderr
    assert "said to cost" not in done.stdout + done.stderr

    board.write_text(GOOD.replace("mem_id = 1", "mem_id = 7"))
    done = run("check", plan, "--memory-map", board, "--max-arena", "1MiB")
    assert done.returncode == 2
    assert "the plan has an arena 1, which is the mem_id of no bank in the map" in done.stderr

    board.write_text(f'{GOOD.replace("size = 64", "size = 640")}\n[place]\n"a" = "slow"\n')
    done = run("check", plan, "--memory-map", board, "--max-arena", "1MiB")
    assert done.returncode == 1
    assert "is not in bank 'slow', where it is placed" in done.stdout + done.stderr
