"""Append what a benchmark prints to its history: ``tools/bench_history.py traces banks``.

Each run becomes one section of ``benchmarks/history/NAME.md``: date, commit, machine, and the table as
printed. A section is written only when the benchmark ends well, so that a history never holds half a table.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HISTORY = ROOT / "benchmarks" / "history"


def names() -> list[str]:
    """Benchmarks that can be run: scripts with a main part."""
    return sorted(p.stem for p in (ROOT / "benchmarks").glob("*.py") if "__main__" in p.read_text())


def commit() -> str:
    """The commit of the checkout, and whether files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    changed = git("status", "--porcelain", "--untracked-files=no").strip()
    return git("rev-parse", "--short", "HEAD").strip() + (" with changes" if changed else "")


def machine() -> str:
    """Cores, architecture and Python: what a figure depends on most."""
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def record(name: str, output: str) -> Path:
    """Append one run to the history of a benchmark; the file."""
    HISTORY.mkdir(exist_ok=True)
    file = HISTORY / f"{name}.md"
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    before = file.read_text() if file.exists() else f"# History of benchmarks/{name}.py\n"
    section = f"\n## {today}, {commit()}\n\n{machine()}\n\n```text\n{output.rstrip()}\n```\n"
    part = file.with_suffix(".part")
    part.write_text(before + section)
    part.replace(file)
    return file


def main() -> int:
    """Run the benchmarks that were named, and record each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", nargs="+", choices=names(), help="a benchmark")
    for name in parser.parse_args().name:
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        print(done.stdout, end="")
        if done.returncode:
            print(f"bench_history: {name} failed: nothing was recorded", file=sys.stderr)
            return 1
        print(f"recorded in {record(name, done.stdout).relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
