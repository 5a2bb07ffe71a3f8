"""lowtide show as a user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lowtide import Buffer, Plan, Problem
from lowtide.formats.json.writing import plan_to_json
from lowtide.pack.planner import plan_problem
from pictures import embedded

CSV = "id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\nd,9,21,4\ne,0,21,4\n"


def run(*arguments: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lowtide", "show", *map(str, arguments)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env=environment)


@pytest.fixture
def buffers(tmp_path: Path) -> Path:
    path = tmp_path / "buffers.csv"
    path.write_text(CSV)
    return path


def test_a_page_is_written_by_default(buffers: Path, tmp_path: Path) -> None:
    done = run(buffers, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "buffers.lowtide.html").read_text()
    assert done.stdout == f"buffers.lowtide.html: {len(page.encode()):,} bytes\n"
    data = embedded(page)
    assert data["title"] == "buffers.csv"
    assert data["arenas"][0]["bytes"] == 12


def test_all_outputs_at_once(buffers: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = {"-o": "p.html", "--png": "p.png", "--svg": "p.svg", "--trace": "p.json"}
    options = [part for pair in names.items() for part in pair]
    done = run(buffers, *options, "--dark", "--colour", "size", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == list(names.values())
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(tmp_path / "p.svg").getroot().tag.endswith("svg")
    assert json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    data = embedded((tmp_path / "p.html").read_text())
    assert data["colourings"][data["colouring"]]["by"] == "size"


def wasteful_plan() -> Plan:
    """A plan that no packer would make: two buffers that never meet, one above the other."""
    return plan_problem(
        Problem((Buffer("low", 64, ((0, 2),)), Buffer("high", 64, ((2, 4),)))), packer="naive"
    )


def test_a_plan_is_drawn_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(plan_to_json(wasteful_plan()))
    done = run(path, "-o", "-", folder=tmp_path)
    data = embedded(done.stdout)
    assert data["arenas"][0]["bytes"] == 128
    assert data["arenas"][0]["rectangles"]["offset"] == [0, 64]


def test_a_wrong_plan_is_drawn_with_a_remark(tmp_path: Path) -> None:
    document = json.loads(plan_to_json(wasteful_plan()))
    document["buffers"][1]["lifetime"] = [[1, 4]]
    document["buffers"][1]["offset"] = 32
    document["arena_uses"][0].update(bytes=96, live_peak_bytes=128, lower_bound_bytes=96)
    document.update(arena_bytes=96, arenas={"1": 96}, live_peak_bytes=128, lower_bound_bytes=96, optimal=True)
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(document))
    done = run(path, "--term", folder=tmp_path, COLUMNS="60")
    assert done.returncode == 0
    assert done.stderr.startswith("lowtide: this plan is wrong (")
    assert "live peak 128 B" in done.stdout


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_terminal_has_no_escapes_without_colour(buffers: Path, tmp_path: Path, width: int) -> None:
    done = run(buffers, "--term", folder=tmp_path, COLUMNS=str(width), NO_COLOR="1", FORCE_COLOR="1")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert max(map(len, lines)) >= width - 1


def test_colours_are_for_terminals(buffers: Path, tmp_path: Path) -> None:
    variables = {"COLUMNS": "80", "TERM": "xterm-256color"}
    assert "\x1b" not in run(buffers, "--term", folder=tmp_path, **variables).stdout
    variables.pop("NO_COLOR", None)
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | variables | {"FORCE_COLOR": "1"}
    command = [sys.executable, "-m", "lowtide", "show", str(buffers), "--term"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert "\x1b[" in done.stdout


def test_without_matplotlib_a_line_says_what_to_install(buffers: Path, tmp_path: Path) -> None:
    fake = tmp_path / "path" / "matplotlib"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("raise ModuleNotFoundError('No module', name='matplotlib')")
    page = tmp_path / "page.html"
    page.write_text("precious")
    done = run(buffers, "--png", "p.png", "-o", page, folder=tmp_path, PYTHONPATH=str(fake.parent))
    assert done.returncode == 2
    assert done.stderr == "lowtide: error: --png and --svg need matplotlib: pip install 'lowtide[viz]'\n"
    assert page.read_text() == "precious"
    assert not (tmp_path / "p.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv"], "nowhere.csv: no such file"),
        (["{}", "--colour", "taste"], "--colour 'taste': choose one of kind, operator, region, size"),
        (["{}", "-o", "-", "--term"], "cannot share stdout"),
        (["{}", "--svg", "-", "--trace", "-"], "cannot share stdout"),
        (["{}", "--program", "{}"], "FILE must be a plan"),
        (["{}", "-o", "no/such/folder.html"], "no/such/folder.html: cannot be written"),
    ],
)
def test_what_cannot_be_exits_2(buffers: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run(*(a.format(buffers) for a in arguments), folder=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["buffers.csv"]


@pytest.mark.slow
def test_a_program_names_the_steps_of_its_plan(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x.relu() + 1, lambda x: x.exp() * 2, (x,))

    exported = torch.export.export(Model(), (torch.ones(4, 4),))
    torch.export.save(exported, tmp_path / "model.pt2")
    from lowtide import plan

    (tmp_path / "plan.json").write_text(plan(exported).to_json())
    (tmp_path / "plan.csv").write_text(CSV)

    def names(*arguments: str) -> list[str]:
        done = run(*arguments, "-o", "-", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        data = embedded(done.stdout)
        assert [band[0] for band in data["bands"]] == ["root", "root/true_graph_0", "root/false_graph_0"]
        return [data["texts"][i] for i in data["steps"]["name"]]

    known = names("model.pt2")
    assert known[0] == "root entry"
    assert "root/true_graph_0/relu" in known
    assert known == names("plan.json", "--program", "model.pt2")
    assert "root entry" not in names("plan.json")
    done = run("plan.json", "--program", "plan.csv", folder=tmp_path)
    assert done.returncode == 2
    assert "plan.csv: is no program" in done.stderr
