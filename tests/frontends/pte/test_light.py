"""Reading a ``.pte`` takes neither ExecuTorch nor PyTorch; writing one says that it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stock_files import files_of, stock_file

COMMAND = """
import sys
from lowtide.cli import main
without = sys.argv.pop(1).split()
sys.modules.update(dict.fromkeys(without))  # an import of these fails
try:
    main()
finally:
    heavy = ("torch", "executorch", "numpy", "flatbuffers")
    print(*(name for name in heavy if sys.modules.get(name)), file=sys.stderr, sep=",")
"""


def run(without: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, where some packages cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", COMMAND, without, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("name", ["two_conds_added", "scan_and_map_and_cond"])
def test_an_audit_imports_nothing_heavy(name: str, tmp_path: Path) -> None:
    for status, data in ((1, stock_file(name)), (0, files_of(name).lowtide)):
        path = tmp_path / f"{status}.pte"
        path.write_bytes(data)
        done = run("", "audit", path)
        assert (done.returncode, done.stderr) == (status, "\n")
        assert run("torch executorch numpy flatbuffers", "audit", path).stdout == done.stdout


def test_without_executorch_a_file_is_planned_and_not_written(tmp_path: Path) -> None:
    path, out = tmp_path / "model.pte", tmp_path / "out.pte"
    path.write_bytes(stock_file("two_conds_added"))
    assert run("executorch", "plan", path).returncode == 0
    done = run("executorch", "repack", path, "-o", out)
    assert done.returncode == 2
    assert "to write a .pte takes ExecuTorch, which is not installed" in done.stderr
    assert not out.exists()
