"""``docs/architecture.md`` says how the code is laid out: its lists are those of the code."""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lowtide.cli.app import app

HERE = Path(__file__).parent.parent
SOURCE = HERE / "src" / "lowtide"
PAGE = (HERE / "docs" / "architecture.md").read_text()
BLOCKS = dict(re.findall(r'^```text title="(\S+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL))


def listed() -> dict[str, set[str]]:
    """Modules by folder, as the page lists them."""
    found: dict[str, set[str]] = {}
    folder = "."
    for line in BLOCKS["src/lowtide"].splitlines():
        head, _, rest = line.partition("/ ") if not line.startswith(" ") else ("", "", line)
        if rest or line.endswith("/"):
            folder = head.rstrip("/") or folder
        else:
            rest = line
        found.setdefault(folder, set()).update(rest.split())
    return found


def test_the_page_lists_the_folders_and_their_files() -> None:
    there: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        folder = file.parent.relative_to(SOURCE).as_posix()
        if file.name != "__init__.py" or folder == ".":
            there.setdefault(folder, set()).add(file.stem)
    assert {folder: sorted(names) for folder, names in listed().items() if names} == {
        folder: sorted(names) for folder, names in there.items()
    }


def test_the_page_says_what_each_folder_holds() -> None:
    told = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(told) == sorted({folder.partition("/")[0] for folder in listed()} - {"."})


def test_the_page_says_who_may_import_whom() -> None:
    settings = (HERE / "pyproject.toml").read_text()
    (layers,) = re.findall(r"^layers = (\[.*?^\])", settings, re.MULTILINE | re.DOTALL)
    assert BLOCKS["imports"].splitlines() == ast.literal_eval(layers)


def test_the_page_shows_the_protocol_of_a_front_end() -> None:
    (block,) = re.findall(r"^```python\n(class FrontEnd.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    source = (SOURCE / "frontends" / "front_end.py").read_text()

    def signatures(text: str) -> list[str]:
        (found,) = (
            node
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ClassDef) and node.name == "FrontEnd"
        )
        kept = []
        for node in found.body:
            if isinstance(node, ast.FunctionDef):
                kept.append(f"{node.name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns or node)}")
            elif isinstance(node, ast.AnnAssign):
                kept.append(ast.unparse(node))
        return kept

    assert signatures(block) == signatures(source)


class Recorder:
    """Calls of Lowtide's functions, each with those that it was called by."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self._running: list[str] = []
        self._root = f"{SOURCE}/"

    def __call__(self, frame: types.FrameType, event: str, argument: object) -> None:
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(self._root):
            return
        if event == "return":
            if self._running:
                self._running.pop()
            return
        module = frame.f_code.co_filename[len(self._root) : -len(".py")].replace("/", ".")
        self._running.append(f"{module.removesuffix('.__init__')}.{frame.f_code.co_name}")
        self.calls.append(tuple(self._running))


def record(*arguments: str) -> list[tuple[str, ...]]:
    """The calls that a command makes in this thread."""
    recorder = Recorder()
    before = sys.getprofile()
    sys.setprofile(recorder)
    try:
        result = CliRunner().invoke(app, list(arguments))
    finally:
        sys.setprofile(before)
    assert result.exit_code == 0, result.output
    return recorder.calls


def walked(name: str) -> Iterator[tuple[str, ...]]:
    """The calls of a walk on the page, each with those further out."""
    path: list[str] = []
    for line in BLOCKS[name].splitlines():
        path[(len(line) - len(line.lstrip())) // 2 :] = [line.strip()]
        yield tuple(path)


def check_walk(name: str, calls: list[tuple[str, ...]]) -> None:
    """Every call of a walk was made, below those that it stands below, in the order of the page."""

    def is_below(call: tuple[str, ...], path: tuple[str, ...]) -> bool:
        rest = iter(call)
        return call[-1] == path[-1] and all(one in rest for one in path)

    began: dict[tuple[str, ...], int] = {}
    last: dict[tuple[str, ...], int] = {}
    for path in walked(name):
        after = last.get(path[:-1], began.get(path[:-1], 0))
        at = next((i for i, call in enumerate(calls) if i >= after and is_below(call, path)), None)
        assert at is not None, f"{' > '.join(path)} is not called, or not then"
        began[path] = last[path[:-1]] = at


def test_a_pt2_goes_the_way_that_the_page_tells(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: object) -> object:
            return torch.relu(x) + x

    file = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Model(), (torch.ones(2, 8),)), file)
    check_walk("plan", record("plan", str(file), "-O1", "--json", str(tmp_path / "plan.json")))


def test_a_pte_goes_the_way_that_the_page_tells(tmp_path: Path) -> None:
    pytest.importorskip("executorch.exir")
    from stock_files import stock_file

    (tmp_path / "model.pte").write_bytes(stock_file("two_conds_added"))
    made = str(tmp_path / "smaller.pte")
    check_walk("repack", record("repack", str(tmp_path / "model.pte"), "-o", made))
