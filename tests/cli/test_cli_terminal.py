"""What a person sees: colour only where it is wanted, nothing cut on a narrow terminal, completions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import CSV, run
from terminal import on_terminal, plain

NAME = "a_rather_long_name_of_a_buffer_that_no_narrow_terminal_has_room_for"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Numbers of ten digits and a long name."""
    path = tmp_path / "large.csv"
    path.write_text(
        f"id,lower,upper,size\na,0,3,4294967296\n{NAME},3,9,4294967296\nc,0,9,1234567890\nd,9,21,4\n"
    )
    return path


@pytest.mark.parametrize("command", [["plan"], ["explain"], ["compare"], ["check", "--max-arena", "9"]])
@pytest.mark.parametrize("columns", [40, 100])
def test_no_number_is_cut(command: list[str], columns: int, large: Path) -> None:
    _, shown = on_terminal(columns, command[0], large, *command[1:])
    lines = plain(shown)
    assert "…" not in shown
    assert max(map(len, lines)) <= columns or command[0] == "check"  # one line, whatever its length
    assert any("5,529,535,186" in line for line in lines)
    if columns == 40 and command[0] == "explain":
        assert any("4,294,967,296 (4.0 GiB)" in line for line in lines)


def test_a_long_name_is_folded_and_not_cut(large: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(large.read_text().replace(f"{NAME},3,9,4294967296", f"{NAME},3,9,8"))
    _, shown = on_terminal(40, "diff", large, other)
    assert NAME in "".join(line.strip() for line in plain(shown))
    assert any("4,294,967,296 to 8" in line for line in plain(shown))


def test_colour_on_a_terminal_only(large: Path) -> None:
    assert re.search(r"\x1b\[[0-9;]*3\dm", on_terminal(100, "plan", large)[1])
    assert not re.search(r"\x1b\[[0-9;]*3\dm", on_terminal(100, "plan", large, NO_COLOR="1")[1])
    for command in (["plan"], ["explain"], ["compare"], ["check", "--max-arena", "1"]):
        done = run(command[0], large, *command[1:])
        assert "\x1b" not in done.stdout + done.stderr


def test_progress_is_on_the_terminal_and_quiet_is_quiet(large: Path) -> None:
    status, shown = on_terminal(80, "plan", large)
    assert status == 0
    assert "reading" in shown
    status, shown = on_terminal(80, "plan", large, "-q")
    assert (status, shown) == (0, "")


def test_verbose_says_what_took_how_long(large: Path) -> None:
    done = run("plan", large, "-v")
    assert re.search(r"^reading .*large\.csv: \d+\.\d{3} s$", done.stderr, re.MULTILINE)
    assert re.search(r"^planning: \d+\.\d{3} s$", done.stderr, re.MULTILINE)
    assert "seconds" in done.stdout  # how the plan improved
    many = large.with_name("many.csv")
    rows = "".join(f"b{i},0,2,4\n" for i in range(30))
    many.write_text(f"id,lower,upper,size\n{rows}")
    short, full = run("explain", many).stdout, run("explain", many, "-v").stdout
    assert "and 18 more with 72 bytes in all; --verbose lists them" in short
    assert sum(line.lstrip().startswith("4 ") for line in full.splitlines()) == 30


def complete(*words: str) -> list[str]:
    """What bash is told to offer after these words."""
    environment = {
        "_LOWTIDE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("lowtide", *words)),
        "COMP_CWORD": str(len(words)),
    }
    script = "import sys; sys.argv[0] = 'lowtide'; from lowtide.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **environment}
    )
    return done.stdout.split()


def test_completions() -> None:
    assert complete("pl") == ["plan"]
    assert set(complete("")) >= {"plan", "verify", "replay", "compare", "explain", "check", "diff"}
    assert complete("plan", "--hierarchy", "s") == ["stacked", "sum"]
    assert "first-fit" in complete("plan", "--packer", "first")
    assert "--max-arena" in complete("check", "--max")


def test_a_plan_in_a_pipe_has_unbroken_lines(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text(CSV.replace("\na,", f"\n{NAME * 8},"))
    lines = run("explain", path).stdout.splitlines()
    assert any(NAME * 8 in line for line in lines)
