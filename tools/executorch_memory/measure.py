"""Build ExecuTorch's runtime with a counting allocator, and measure what loading each program takes.

    python tools/executorch_memory/corpus.py CORPUS
    python tools/executorch_memory/measure.py CORPUS --flatbuffers CHECKOUT \\
        --source 1.4=CHECKOUT --source 1.5=CHECKOUT

Sources are checkouts of ``pytorch/executorch`` at the versions, and of ``google/flatbuffers`` at the commit
that they name. For a 64-bit host g++ builds them; for 32 bits of Arm ``arm-linux-gnueabihf-g++`` does, and
``qemu-arm-static`` runs it; that ``arm-none-eabi-g++`` has the same sizes for Cortex-M is checked as it
compiles. The library inside the installed ExecuTorch is measured as well. Writes
``tests/data/runtime_memory.json``, and the programs without their constants beside it.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from lowtide.frontends.pte.reading import open_pte
from lowtide.frontends.pte.structures import runtime_of

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "tests" / "data"
KEYS = ("method_bytes", "method_count", "digest", "temp_bytes", "runner_bytes")
POOLS = ("none", "0", "64", "300", str(1 << 20))

SOURCES = (
    *(f"runtime/executor/{name}" for name in ("method", "method_meta", "program", "program_validation")),
    *(f"runtime/executor/{name}" for name in ("tensor_parser_portable", "tensor_parser_exec_aten")),
    *(f"runtime/platform/{name}" for name in ("abort", "log", "platform", "profiler", "runtime")),
    "runtime/executor/pte_data_map",
    "runtime/platform/default/posix",
    *(f"runtime/core/{name}" for name in ("evalue", "tag", "tensor_layout", "device_allocator")),
    *(f"runtime/core/{name}" for name in ("device_memory_buffer", "portable_type/tensor_impl")),
    *(f"runtime/core/exec_aten/util/{name}" for name in ("tensor_util_portable", "tensor_shape_to_c_string")),
    "runtime/backend/interface",
    "runtime/kernel/operator_registry",
    "schema/extended_header",
)
XNNPACK = ("-lexecutorch_backend_xnnpack", "-lexecutorch_threadpool")
KERNELS = ("-lexecutorch_kernels_optimized", "-lexecutorch_kernels_quantized")
FLAGS = ("-std=c++17", "-O1", "-w", "-Wno-psabi", "-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_LOG_ENABLED=0")


@dataclass(frozen=True)
class Build:
    """A runtime that can be asked.

    Args:
        device: what Lowtide calls the target.
        runtime: version.
        origin: where the runtime's code comes from.
        command: runs ``measure.cpp`` with it.
    """

    device: str
    runtime: str
    origin: str
    command: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of the build, in what is written."""
        return f"{self.device}, {self.runtime}, {self.origin}"


def include_flags(source: Path, flatbuffers: Path, build: Path) -> list[str]:
    """Generate the schema's headers; where all headers are."""
    root = build / "include" / "executorch"
    root.mkdir(parents=True, exist_ok=True)
    for name in ("runtime", "extension", "backends"):
        link = root / name
        link.unlink(missing_ok=True)
        link.symlink_to((source / name).resolve())
    made = build / "generated" / "executorch" / "schema"
    flatc = str(files("executorch") / "data" / "bin" / "flatc")
    options = ["--cpp", "--cpp-std", "c++11", "--gen-mutable", "--scoped-enums", "-o", str(made)]
    schemas = [str(source / "schema" / name) for name in ("program.fbs", "scalar_type.fbs")]
    subprocess.run([flatc, *options, *schemas], check=True)
    for header in (source / "schema").glob("*.h"):
        (made / header.name).write_bytes(header.read_bytes())
    folders = (build / "include", build / "generated", flatbuffers / "include")
    return [f"-I{folder}" for folder in (*folders, source / "runtime/core/portable_type/c10")]


def compiled(compiler: list[str], source: Path, includes: list[str], build: Path) -> Path:
    """The program that measures, all of the runtime inside."""
    build.mkdir(parents=True, exist_ok=True)

    def compile_one(file: Path) -> str:
        out = build / f"{file.stem}.o"
        subprocess.run([*compiler, *FLAGS, *includes, "-c", str(file), "-o", str(out)], check=True)
        return str(out)

    with ThreadPoolExecutor(2) as pool:
        inputs = [*(source / f"{name}.cpp" for name in SOURCES), HERE / "measure.cpp"]
        objects = list(pool.map(compile_one, inputs))
    out = build / "measure"
    subprocess.run([*compiler, *objects, "-o", str(out)], check=True)
    return out


def check_cortex_m(structures: dict[str, tuple[int, int]], includes: list[str], build: Path) -> None:
    """Compile for Cortex-M, which fails if a structure is not as large as where it was run."""
    header = build / "expected.h"
    header.write_text(
        "".join(
            f"constexpr std::size_t {name}_size = {size}, {name}_alignment = {alignment};\n"
            for name, (size, alignment) in structures.items()
        )
    )
    for cpu in ("cortex-m0plus", "cortex-m4", "cortex-m55"):
        command = ["arm-none-eabi-g++", f"-mcpu={cpu}", "-mthumb", f'-DEXPECTED_STRUCTURES="{header}"']
        command += [*FLAGS, *includes, "-fsyntax-only", str(HERE / "measure.cpp")]
        subprocess.run(command, check=True)
        print(f"{cpu}: {len(structures)} structures as on 32-bit Linux", file=sys.stderr)


def builds(sources: dict[str, Path], flatbuffers: Path, folder: Path) -> Iterator[Build]:
    """One for each version and device, and the library of the installed ExecuTorch."""
    includes: list[str] = []
    for version, source in sources.items():
        includes = include_flags(source, flatbuffers, folder / version)
        fast = runtime_of(version)[0].fast_memory
        includes += [f"-DRUNNER_FAST_MEMORY={fast}"] if fast else []
        host = compiled(["g++"], source, includes, folder / version / "host")
        yield Build("host", version, "source", (str(host),))
        arm = compiled(["arm-linux-gnueabihf-g++", "-static"], source, includes, folder / version / "arm")
        run = ("qemu-arm-static", str(arm))
        shown = subprocess.run(run, capture_output=True, text=True, check=True).stdout
        check_cortex_m(json.loads(shown), includes, folder / version)
        yield Build("cortex-m", version, "source", run)
    newest = list(sources)[-1]
    yield Build("host", newest, "installed", installed(includes, folder / "installed"))
    xnnpack = installed(includes, folder / "installed-xnnpack", *XNNPACK)
    yield Build("host", newest, "installed, with XNNPACK", xnnpack)
    running = installed(includes, folder / "installed-kernels", *XNNPACK, *KERNELS, "-DRUN_KERNELS")
    yield Build("host", newest, "installed, with kernels", running)


def installed(includes: list[str], out: Path, *more: str) -> tuple[str, ...]:
    """What measures the library of the installed ExecuTorch."""
    library = str(files("executorch") / "lib")
    link = [f"-L{library}", "-Wl,--no-as-needed", *more, "-lexecutorch", f"-Wl,-rpath,{library}"]
    command = ["g++", *FLAGS, *includes, str(HERE / "measure.cpp"), *link, "-Wl,--allow-shlib-undefined"]
    subprocess.run([*command, "-o", str(out)], check=True)
    return (str(out),)


def measured(build: Build, paths: list[Path]) -> Iterator[dict[str, Any]]:
    """Every method of some files, with every pool."""
    for i in range(0, len(paths), 32):
        command = [*build.command, ",".join(POOLS), *map(str, paths[i : i + 32])]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        yield from (json.loads(line) for line in done.stdout.splitlines())


def write_programs(paths: list[Path], *, add: bool) -> None:
    """The files without what follows the program: constants and delegates' blobs decide nothing.

    Args:
        paths: the files.
        add: whether programs that were measured before stay.
    """
    target = DATA / "runtime_memory.tar.xz"
    programs: dict[str, bytes] = {}
    if add:
        with tarfile.open(target) as archive:
            programs = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    for path in paths:
        file = open_pte(path)
        programs[path.name] = file.data[: file.program_bytes]
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for name, data in programs.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def main() -> int:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("corpus", type=Path, help="folder of .pte files")
    parser.add_argument("--source", action="append", required=True, metavar="VERSION=CHECKOUT")
    parser.add_argument("--flatbuffers", type=Path, required=True, metavar="CHECKOUT")
    parser.add_argument("--build", type=Path, default=Path("build/executorch_memory"), metavar="FOLDER")
    parser.add_argument("--add", action="store_true", help="keep the programs that were measured before")
    given = parser.parse_args()
    sources = {version: Path(path) for version, _, path in (text.partition("=") for text in given.source)}
    paths = sorted(given.corpus.glob("*.pte"))
    known: dict[str, Any] = {"ran": {}, "methods": {}}
    if given.add:
        known = json.loads((DATA / "runtime_memory.json").read_text())
    structures: dict[str, Any] = {}
    methods: dict[str, dict[str, Any]] = {}
    ran: dict[str, int] = {}
    for build in builds(sources, given.flatbuffers, given.build.resolve()):
        asked = subprocess.run(build.command, capture_output=True, text=True, check=True).stdout
        structures[build.name] = json.loads(asked)
        rows = [row for row in measured(build, paths) if "method" in row]
        if "kernels" in build.origin:
            large = [row for row in rows if row["pool"] == POOLS[-1] and row.get("running_bytes", -1) >= 0]
            ran = {name_of(row): row["running_bytes"] for row in large}
        else:
            for row in rows:
                figures = row.get("error") or [row[key] for key in KEYS]
                methods.setdefault(name_of(row), {}).setdefault(build.name, {})[row["pool"]] = figures
        print(f"{build.name}: {len(rows)} loads", file=sys.stderr)
    parts = {
        "structures": structures,
        "ran": {**known["ran"], **ran},
        "methods": {**known["methods"], **{name: _grouped(found) for name, found in methods.items()}},
    }
    text = ",\n".join(f"{json.dumps(name)}: {{\n{_lines(entries)}\n}}" for name, entries in parts.items())
    DATA.mkdir(exist_ok=True)
    (DATA / "runtime_memory.json").write_text(f"{{{text}}}\n")
    write_programs(paths, add=given.add)
    return 0


def name_of(row: dict[str, Any]) -> str:
    """File and method of what was measured."""
    return f"{Path(row['file']).name}: {row['method']}"


def _lines(entries: dict[str, Any]) -> str:
    """JSON of an object's entries, one a line."""
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items())


def _grouped(found: dict[str, Any]) -> list[Any]:
    """Builds that gave the same figures, together with them."""
    groups: list[Any] = []
    for build, figures in found.items():
        for builds_, known in groups:
            if known == figures:
                builds_.append(build)
                break
        else:
            groups.append(([build], figures))
    return groups


if __name__ == "__main__":
    sys.exit(main())
