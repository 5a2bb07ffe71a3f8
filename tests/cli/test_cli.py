"""The command line as a user meets it: output, exit status, and that nothing is lost on an error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import CSV, run
from lowtide import Plan
from lowtide.formats.json.reading import plan_from_json


@pytest.fixture
def buffers(tmp_path: Path) -> Path:
    path = tmp_path / "buffers.csv"
    path.write_text(CSV)
    return path


def planned(path: Path) -> Plan:
    return plan_from_json(path.read_text())


def test_plan_says_how_small_the_arena_is(buffers: Path) -> None:
    done = run("plan", buffers)
    assert done.returncode == 0
    assert re.search(r"^ *1 +5 +12 +12 +12 +1\.000 +optimal", done.stdout, re.MULTILINE)
    assert "2 pairs of buffers reuse each other's bytes" in done.stdout
    assert done.stderr == ""


def test_plan_to_json_and_csv_and_back(buffers: Path, tmp_path: Path) -> None:
    out, table = tmp_path / "plan.json", tmp_path / "offsets.csv"
    assert run("plan", buffers, "--json", out, "--csv", table, "--quiet").returncode == 0
    plan = planned(out)
    assert plan.arena_bytes == 12
    assert table.read_text().splitlines()[0] == "id,lower,upper,size,offset"
    checked = run("verify", buffers, out)
    assert checked.returncode == 0
    assert "right (lifetimes against offsets): 5 buffers, 2 pairs" in checked.stdout
    pinned = run("plan", table, "--pins", "--json", "-")
    assert plan_from_json(pinned.stdout).offsets == plan.offsets


def test_json_to_stdout_is_nothing_but_json(buffers: Path) -> None:
    done = run("plan", buffers, "--json", "-")
    assert json.loads(done.stdout)["arena_bytes"] == 12


def test_a_capacity_that_is_too_small_exits_1_and_writes_nothing(buffers: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    out.write_text("precious")
    done = run("plan", buffers, "--capacity", "11", "--json", out)
    assert done.returncode == 1
    assert "no plan takes less than 12 bytes" in done.stderr
    assert out.read_text() == "precious"
    assert run("plan", buffers, "--capacity", "12B").returncode == 0


def test_verify_exits_1_and_lists_every_fault(buffers: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    assert run("plan", buffers, "--json", out, "-q").returncode == 0
    document = json.loads(out.read_text())
    document["buffers"][1]["offset"] = document["buffers"][2]["offset"]
    ends = [b["offset"] + b["size"] for b in document["buffers"]]
    assert max(ends) == document["arena_bytes"]
    out.write_text(json.dumps(document))
    done = run("verify", buffers, out)
    assert done.returncode == 1
    assert "share bytes while both are alive" in done.stderr
    assert done.stderr.splitlines()[-1] == "lowtide: the plan is wrong: 1 fault"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "nowhere.csv"], "nowhere.csv"),
        (["plan", "{}", "--packer", "best"], "there is no packer 'best'"),
        (["plan", "{}", "--hierarchy", "tall"], "there is no hierarchy 'tall'"),
        (["plan", "{}", "--alignment", "0"], "alignment 0 is not a whole number"),
        (["plan", "{}", "--capacity", "lots"], "'lots' is not a size"),
        (["plan", "{}", "--capacity", "2=1", "--capacity", "2=3"], "arena 2 has one already"),
        (["replay", "{}"], "holds no program to run"),
        (["compare", "{}", "--packer", "best"], "there is no packer 'best'"),
        (["plan", "{}", "--json", "/nowhere/plan.json"], "/nowhere"),
    ],
)
def test_bad_input_gets_one_line_and_exits_2(arguments: list[str], message: str, buffers: Path) -> None:
    done = run(*(str(buffers) if argument == "{}" else argument for argument in arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_traceback_on_request(buffers: Path) -> None:
    done = run("--traceback", "plan", buffers, "--packer", "best")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


def test_compare_shows_every_packer_and_proves_its_plans(buffers: Path) -> None:
    done = run("compare", buffers, "--json")
    rows = json.loads(done.stdout)["plans"]
    assert {row["packer"] for row in rows} >= {"auto", "naive", "greedy", "first-fit", "best-fit"}
    assert min(row["arena_bytes"] for row in rows) == 12
    assert next(row["arena_bytes"] for row in rows if row["packer"] == "naive") == 20
    assert "optimal" in run("compare", buffers).stdout


def test_version_and_help() -> None:
    import lowtide

    assert run("--version").stdout.strip() == f"lowtide {lowtide.__version__}"
    for command in ("plan", "verify", "replay", "compare"):
        done = run(command, "--help")
        assert done.returncode == 0
        assert f"lowtide {command} " in done.stdout  # an example


def test_no_colour_codes_in_a_pipe(buffers: Path) -> None:
    assert "\x1b" not in run("plan", buffers).stdout


def test_two_outputs_are_written_both_or_neither(buffers: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    done = run("plan", buffers, "--json", out, "--csv", "/nowhere/x.csv")
    assert done.returncode == 2
    assert not out.exists()
    assert list(tmp_path.iterdir()) == [buffers]
    same = run("plan", buffers, "--json", out, "--csv", out)
    assert same.returncode == 2
    assert "written twice" in same.stderr
    assert run("plan", buffers, "--json", "-", "--csv", "-").returncode == 2


def test_a_full_disk_and_a_bad_seed_get_one_line(buffers: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lowtide", "plan", str(buffers)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == ["lowtide: error: No space left on device"]
    bad = run("plan", buffers, "--seed", "99999999999999999999")
    assert bad.returncode == 2
    assert len(bad.stderr.strip().splitlines()) == 1


def test_a_plan_of_a_hierarchy_survives_csv(tmp_path: Path) -> None:
    source = tmp_path / "two.json"
    source.write_text(
        json.dumps(
            {
                "format": "lowtide.problem",
                "version": 1,
                "regions": [
                    {"name": "root", "kind": "root", "span": [[0, 9]], "parent": None},
                    {"name": "root/c", "kind": "branch", "span": [[3, 6]], "parent": "root"},
                ],
                "buffers": [
                    {"id": "a", "size": 16, "lifetime": [[0, 9]]},
                    {"id": "b", "size": 16, "lifetime": [[3, 5]], "region": "root/c"},
                ],
            }
        )
    )
    table = tmp_path / "two.csv"
    assert run("plan", source, "--csv", table, "-q").returncode == 0
    assert run("plan", table, "-q").returncode == 0
    done = run("plan", table, "--hierarchy", "stacked")
    assert done.returncode == 2
    assert "nothing says when that runs: use joint" in done.stderr
    assert run("plan", source, "--hierarchy", "stacked").returncode == 0


def test_compare_keeps_its_table_when_a_packer_finds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "placed.csv"
    path.write_text("id,lower,upper,size,offset\na,0,4,8,8\nb,1,3,8,0\n")
    done = run("compare", path, "--pins", "--packer", "greedy", "--packer", "auto")
    assert done.returncode == 0
    assert "works with whole objects" in done.stdout
    assert "optimal" in done.stdout


def test_compare_follows_the_bytes_of_what_runs() -> None:
    """Also where a front end follows them itself, as that of a .pte does: each plan's; faults are told."""
    from lowtide import Buffer, Problem, VerificationError, Violation
    from lowtide.cli.compare import _row
    from lowtide.cli.options import Searched
    from lowtide.frontends.front_end import Source

    problem = Problem((Buffer("a", 8, ((0, 2),)), Buffer("b", 8, ((2, 4),))))
    followed: list[Plan] = []

    def follow(plan: Plan) -> list[Violation]:
        followed.append(plan)
        return [Violation("lost", "b loses its bytes")] if plan.packer == "greedy" else []

    _, plan = _row(Source(problem, follow=follow), "auto", "joint", Searched(timeout=1.0))
    assert followed == [plan]
    with pytest.raises(VerificationError, match="b loses its bytes"):
        _row(Source(problem, follow=follow), "greedy", "joint", Searched(timeout=1.0))


def test_a_warning_of_versions_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    from lowtide.base.errors import UntestedVersionWarning
    from lowtide.cli import app

    def warn() -> None:
        warnings.warn("deprecated", DeprecationWarning, stacklevel=1)
        warnings.warn("was not tested", UntestedVersionWarning, stacklevel=1)

    told: list[str] = []
    monkeypatch.setattr(app, "app", warn)
    monkeypatch.setattr(app.typer, "echo", lambda text, err: told.append(text) if err else None)
    with warnings.catch_warnings(), pytest.raises(SystemExit) as left:
        app.main()
    assert left.value.code == 0
    assert told == ["lowtide: warning: was not tested"]
