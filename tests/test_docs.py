"""The documentation says what is so: links lead somewhere, commands print what is shown, code runs."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lowtide.cli.app import app

HERE = Path(__file__).parent.parent
PAGES = sorted([HERE / "README.md", *(HERE / "docs").rglob("*.md")])
GENERATED = {HERE / "docs" / "reference" / "cli.md"}

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = re.compile(r"\d+\.\d{3} s\b")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return [body for name, _, body in _FENCE.findall(page.read_text()) if name == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HERE)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text()):
        if not re.match(r"[a-z]+:", target):
            found = (page.parent / target).resolve()
            assert found.exists() or found in GENERATED, target


def test_every_page_is_in_the_navigation() -> None:
    navigation = (HERE / "mkdocs.yml").read_text()
    for page in PAGES[1:]:
        if page.is_relative_to(HERE / "docs"):
            assert f" {page.relative_to(HERE / 'docs')}\n" in navigation, page


def shown(text: str) -> list[str]:
    """Output as a page shows it: without blank ends of lines, times and repeated blank lines."""
    lines = [_SECONDS.sub("0.000 s", line.rstrip()) for line in text.splitlines()]
    kept = "\n".join(line for i, line in enumerate(lines) if line or (i and lines[i - 1]))
    return kept.strip("\n").splitlines()


def invoke(line: str) -> str:
    """What a command prints, in this process."""
    result = CliRunner().invoke(app, shlex.split(line)[1:])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.stdout


def write_model(folder: Path, source: str, name: str) -> None:
    """Run the tutorial's script, which exports the model."""
    (folder / "model.py").write_text(source)
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        runpy.run_path("model.py")
    shutil.move(folder / "spotter.pt2", folder / name)


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tutorial's models: ``first.pt2``, and ``second.pt2`` as changed."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("tutorial")
    first, change = blocks(HERE / "docs" / "tutorial.md", "python")
    write_model(folder, first, "first.pt2")
    made, forward = change.split("\n    ...\n\n")
    head = made.splitlines()[0]
    assert first.count(head) == 1
    start = first.index("    def forward(")
    end = first.index("\n\n\n", start)
    changed = (first[:start] + forward.rstrip() + first[end:]).replace(head, made.rstrip())
    write_model(folder, changed, "second.pt2")
    return folder


def test_the_tutorial_prints_what_it_shows(
    tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(tutorial / "first.pt2", "spotter.pt2")
    for block in blocks(HERE / "docs" / "tutorial.md", "console"):
        command, _, output = block.partition("\n")
        if command.startswith("$ lowtide diff"):
            shutil.move("spotter.pt2", "old.pt2")
            shutil.copy(tutorial / "second.pt2", "spotter.pt2")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert shown(invoke(command.removeprefix("$ "))) == shown(output), command
    assert "BYTES 125440u" in Path("spotter_plan.h").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_page_prints_what_it_shows(
    page: str, tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(tutorial / "first.pt2", "spotter.pt2")
    for block in blocks(HERE / page, "console"):
        command, _, output = block.partition("\n")
        if command.startswith("$ lowtide "):
            assert shown(invoke(command.removeprefix("$ "))) == shown(output)


@pytest.mark.slow
def test_a_model_is_fitted_as_the_page_and_the_readme_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("executorch")
    monkeypatch.chdir(tmp_path)
    page = HERE / "docs" / "how-to" / "fit.md"
    model, lower, *_ = blocks(page, "python")
    told, lowered = blocks(page, "text")
    assert told in blocks(HERE / "README.md", "text")
    command, _, output = told.partition("\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(model, "model.py", "exec"), {"__name__": "model"})
        assert shown(invoke(f"{command.removeprefix('$ ')} --timeout 0")) == shown(output)
        capsys.readouterr()
        exec(compile(lower, "lower.py", "exec"), {})
    assert shown(capsys.readouterr().out) == shown(lowered)


def test_code_of_the_how_to_pages_runs(
    tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(tutorial / "first.pt2", "spotter.pt2")
    for page in ("how-to/lower-a-peak.md", "reference/formats.md"):
        for block in blocks(HERE / "docs" / page, "python"):
            exec(compile(block, page, "exec"), {})
    assert "Lowtide explanation, version 1" in capsys.readouterr().out


@pytest.mark.slow
def test_the_recipe_for_ci_runs(tutorial: Path, tmp_path: Path) -> None:
    """Every line of shell on the page, in order, with plans of the tutorial's two models."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    for name, file in (("model.pt2", "second.pt2"), ("old.pt2", "first.pt2")):
        shutil.copy(tutorial / file, tmp_path / name)
    lowtide = tmp_path / "bin" / "lowtide"
    lowtide.parent.mkdir()
    lowtide.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lowtide "$@"\n')
    lowtide.chmod(0o755)
    setup = "lowtide plan old.pt2 --json old.json --quiet\nlowtide plan model.pt2 --json model.json --quiet"
    lines = [
        line for block in blocks(HERE / "docs" / "how-to" / "ci.md", "bash") for line in block.splitlines()
    ]
    script = [f'export PATH="{lowtide.parent}:$PATH"', *setup.splitlines()]
    for line in lines:
        expected = 1 if line == "lowtide diff old.json new.json" else 2 if "2=64KiB" in line else 0
        script.append(
            f"{line}\nstatus=$?; [ $status = {expected} ] || {{ echo {shlex.quote(line)}: $status; exit 9; }}"
        )
    done = subprocess.run([bash, "-c", "\n".join(script)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    comment = (tmp_path / "memory.md").read_text()
    assert (
        "### `old.json` → `new.json`: 150,528 → 125,440 bytes (122.5 KiB), **-25,088 (24.5 KiB)**" in comment
    )
    assert "### `new.json`: live peak 125,440 bytes (122.5 KiB)" in comment


def test_the_firmware_page_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.csv").write_text("id,lower,upper,size,alignment\nroot/relu,0,2,512,16\n")
    invoke("lowtide plan model.csv --header model_plan.h --header-offsets")
    reserve, check, offsets = blocks(HERE / "docs" / "how-to" / "firmware.md", "c")
    for source in (reserve, check):
        (tmp_path / "use.c").write_text(
            source + "\nuint8_t *first(void);\nuint8_t *first(void) { return arena; }\n"
        )
        strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
        subprocess.run(["gcc", *strict, "-c", "use.c", "-o", "use.o"], check=True, cwd=tmp_path)
    header = (tmp_path / "model_plan.h").read_text()
    assert all(line in header for line in offsets.splitlines())


_DOTTED = re.compile(r"(?<![\w./-])lowtide(?:\.[A-Za-z_]\w*)+")
_NO_MODULES = {
    *(f"lowtide.{kind}" for kind in ("problem", "plan", "explanation", "difference", "budget")),  # formats
    *("lowtide.packers", "lowtide.front_ends"),  # groups of entry points
    "lowtide.__name__",
}


@cache
def _names_of(file: Path) -> dict[str, ast.AST]:
    """What a module has, by name, as its text tells: nothing is imported, so this is quick."""
    found: dict[str, ast.AST] = {}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update({(alias.asname or alias.name).partition(".")[0]: node for alias in node.names})
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update({target.id: node for target in targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found.setdefault(node.value, node)  # names that a package imports when they are first used
    return found


def _resolves(name: str) -> bool:
    """Whether a dotted name leads to a module of Lowtide, or to something in one."""
    place, (_, *parts) = HERE / "src" / "lowtide", name.split(".")
    while parts and ((place / parts[0]).is_dir() or (place / f"{parts[0]}.py").is_file()):
        place = place / parts.pop(0)
        if not place.is_dir():
            place = place.with_suffix(".py")
            break
    if not parts:
        return True
    file = place / "__init__.py" if place.is_dir() else place
    if not file.is_file() or parts[0] not in _names_of(file):
        return place.is_dir() and (place / f"{parts[0]}.pyi").is_file()
    node = _names_of(file)[parts[0]]
    if len(parts) == 1 or not isinstance(node, ast.ClassDef):
        return True
    members = {child.name for child in node.body if isinstance(child, ast.FunctionDef)}
    members |= {
        child.target.id
        for child in node.body
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name)
    }
    return bool(node.bases) or parts[1] in members


def test_every_dotted_name_leads_somewhere() -> None:
    """In pages and docstrings: a module that moved takes its mentions along."""
    lost = [
        f"{file.relative_to(HERE)}: {name}"
        for file in (*PAGES, HERE / "CHANGELOG.md", *sorted((HERE / "src").rglob("*.py")))
        for name in dict.fromkeys(_DOTTED.findall(file.read_text()))
        if name not in _NO_MODULES and not _resolves(name)
    ]
    assert lost == []


def test_a_dotted_name_that_leads_nowhere_is_found() -> None:
    assert _resolves("lowtide.ir.plan.Plan.arena_bytes")
    assert _resolves("lowtide.verify")
    assert _resolves("lowtide._kernel")
    for name in (
        "reorder",
        "ir.problem.Plan",
        "pack.hierarchies",
        "ir.plan.Plan.nothing",
        "frontends.memory",
    ):
        assert not _resolves(f"lowtide.{name}"), name
