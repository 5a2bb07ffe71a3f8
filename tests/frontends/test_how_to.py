"""The toy format of ``docs/how-to/front-end.md``: the page's modules are run as they stand there."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lowtide
from lowtide.base.errors import LowtideError
from lowtide.cli.app import app
from lowtide.frontends import registry
from lowtide.frontends.front_end import Judge, Rewriter
from lowtide.testing import FrontEndError, check_front_end

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "front-end.md"
TEXT = PAGE.read_text()
MODULES = dict(re.findall(r'^```python title="(\S+)"\n(.*?)^```$', TEXT, re.MULTILINE | re.DOTALL))
(MODEL,) = re.findall(r"^```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^\$ lowtide (.*)$", TEXT, re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the page's modules and its model, which are forgotten afterwards."""
    for name, source in MODULES.items():
        (tmp_path / name).write_text(source)
    (tmp_path / "model.toy").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_registered", [])
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.fixture
def toys(folder: Path) -> Any:
    """The front end that judges and rewrites, registered."""
    import toy_plans

    return registry.register(toy_plans.FRONT_END)


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize("script", ["plan_toy.py", "try_toy.py"])
def test_scripts_print_what_the_page_shows(
    script: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(script)
    shown = re.findall(r"^print\(.*\)  # (.*)$", MODULES[script], re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == shown


def test_the_command_line_knows_the_format(toys: Any) -> None:
    assert COMMANDS
    for line in COMMANDS:
        code, output = invoke(*shlex.split(line))
        assert code == 0, output
    assert json.loads(Path("plan.json").read_text())["extra"] == {"toy": {"version": 1, "operations": 4}}
    assert invoke("verify", "model.toy", "plan.json", "--in-place")[0] == 0


def test_an_installed_package_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the entry point that the page names."""
    (group, name, value) = re.findall(r'entry-points\."(\S+)"\]\n(\w+) = "(\S+)"', TEXT)[0]
    assert group == registry.ENTRY_POINTS
    about = folder / "toy_format-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-format\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    registry._installed.cache_clear()
    try:
        assert lowtide.plan("model.toy").arena_bytes == 192
    finally:
        monkeypatch.undo()
        registry._installed.cache_clear()


def test_its_file_is_judged_and_written_again(toys: Any) -> None:
    assert isinstance(toys, Judge)
    assert isinstance(toys, Rewriter)
    assert invoke("audit", "model.toy") == (0, "safe\n")
    assert invoke("repack", "model.toy", "-o", "small.toy", "--quiet")[0] == 0
    assert invoke("audit", "small.toy") == (0, "safe\n")
    assert lowtide.repack("model.toy", in_place=True).arenas[0].after == 128
    Path("bad.toy").write_text(MODEL.replace("128 a", "0 a"))
    code, output = invoke("audit", "bad.toy")
    assert code == 1
    assert "root/b" in output
    assert invoke("repack", "bad.toy", "-o", "good.toy", "--quiet")[0] == 0
    assert invoke("audit", "good.toy") == (0, "safe\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("toy 1\n", "has no operation"),
        ("toy 1\nconv a 64 0 x\n", "operand 'x' is not made before it"),
        ("toy 1\ninput x many 0\n", "line 2: is not OPERATOR NAME BYTES OFFSET OPERAND..."),
        ("toy 1\ninput x 64 0\ninput x 64 0\n", "occurs twice"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(text: str, message: str, toys: Any) -> None:
    Path("bad.toy").write_text(text)
    with pytest.raises(LowtideError, match=re.escape(message)) as error:
        lowtide.plan("bad.toy")
    assert "\n" not in str(error.value)


# The trial of front ends finds what is wrong with one.


def unsure(toys: Any) -> None:
    toys.sniff = lambda head, suffix: 0.1


def forgetful(toys: Any) -> None:
    found = iter(range(99))
    load = toys.load
    toys.load = lambda value, request: load(replace(value, rows=value.rows[: 4 - next(found) % 2]), request)


def empty(toys: Any) -> None:
    toys.load = lambda value, request: []


def broken(toys: Any) -> None:
    toys.load = lambda value, request: {}["x"]


def lenient(toys: Any) -> None:
    judge = toys.judge
    toys.judge = lambda value, *, alignment: replace(judge(value, alignment=alignment), faults=())


def writes_another(toys: Any) -> None:
    rewrite = toys.rewrite

    def wrong(value: Any, request: Any, **more: Any) -> Any:
        made = rewrite(value, request, **more)
        return replace(made, data=made.data.replace(b"conv a 64", b"conv a 80"))

    toys.rewrite = wrong


def writes_wrong_places(toys: Any) -> None:
    rewrite = toys.rewrite

    def wrong(value: Any, request: Any, **more: Any) -> Any:
        made = rewrite(value, request, **more)
        return replace(made, data=re.sub(rb"(\w+ \w+ 64) \d+", rb"\1 0", made.data), changed=True)

    toys.rewrite = wrong


def says_nothing_changed(toys: Any) -> None:
    rewrite = toys.rewrite
    toys.rewrite = lambda *given, **more: replace(rewrite(*given, **more), changed=False)


def keeps_no_own_plan(toys: Any) -> None:
    """A judge that calls a file safe whose own plan, which it hands out too, is wrong."""
    lenient(toys)
    load = toys.load

    def with_plan(value: Any, request: Any) -> list[Any]:
        from lowtide.pack.planner import plan_at

        (source,) = load(value, request)
        plan = plan_at(source.problem, [0] * len(source.problem.buffers))
        return [replace(source, plan=plan)]

    toys.load = with_plan


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (unsure, "toy: model.toy would be read by the front end csv, which is as sure"),
        (forgetful, "is loaded differently each time"),
        (empty, "toy: model.toy holds nothing"),
        (broken, "toy: model.toy: load: KeyError: 'x'"),
        (writes_another, "toy: model.toy, rewritten holds other programs or buffers than before"),
        (writes_wrong_places, "toy: model.toy, rewritten is not safe by its own judge"),
        (says_nothing_changed, "says of itself wrongly whether it changed"),
        (keeps_no_own_plan, "model.toy, its own plan: verifying: the plan is wrong"),
    ],
)
def test_a_trial_finds_what_is_wrong(spoil: Any, message: str, folder: Path) -> None:
    import toy_plans

    toys = toy_plans.PlannedToyFrontEnd()
    assert check_front_end(toys, ["model.toy"], timeout=1).rewritten == 1
    spoil(toys)
    with pytest.raises(FrontEndError, match=re.escape(message)) as error:
        check_front_end(toys, ["model.toy"], timeout=1)
    assert "\n" not in str(error.value)


def test_a_trial_of_objects(folder: Path) -> None:
    import toy

    value = toy.Toy("model", (toy.Row("input", "x", 16, 0, ()), toy.Row("relu", "y", 16, 16, ("x",))))
    report = check_front_end(toy.FRONT_END, [value])
    sizes = {(one.in_place, one.arena_bytes) for one in report.tried}
    assert sizes == {(False, 32), (True, 16)}
    assert all(one.followed and one.complete for one in report.tried)
    with pytest.raises(FrontEndError, match="a int is not taken"):
        check_front_end(toy.FRONT_END, [3])
