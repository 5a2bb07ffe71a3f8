"""All RAM of a device, as commands and functions tell it."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import struct
import subprocess
import tarfile
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

import lowtide
from command_line import CSV, run
from lowtide import InputError
from lowtide.frontends.pte.analysis import analyse
from lowtide.frontends.pte.methods import PteInstruction
from lowtide.frontends.pte.on_device import device_memory, loading_of
from lowtide.frontends.pte.reading import PteFile, open_pte, program_decoder
from lowtide.frontends.pte.structures import Structure
from lowtide.frontends.pte.temporaries import ETHOS_U, asks_for
from lowtide.ir.device_memory import DeviceMemory
from lowtide.outputs.json import json_schema
from lowtide.sources import load, load_all, make_request

pytest.importorskip("executorch.exir")

from executorch.exir.passes import MemoryPlanningPass as StockPass

from stock_files import methods_file


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with two methods that plan memory, and one that does not."""
    path = tmp_path_factory.mktemp("device") / "two.pte"
    path.write_bytes(methods_file(StockPass()))
    return path


def told(path: Path, **options: Any) -> DeviceMemory:
    """What the method ``add`` takes."""
    found = load(path, make_request({"method": "add", "device": "cortex-m", **options})).device_memory
    assert found is not None
    return found


def test_pools_add_up(path: Path) -> None:
    for device in ("cortex-m", "host"):
        found = told(path, device=device)
        assert found.ram_bytes == sum(part.bytes or 0 for part in found.parts if part.in_ram)
        assert found.pool_bytes("arena") == 400
        assert found.pool_bytes("file") == 0
        assert found.untold == ()
        assert {part.pool for part in found.parts} == {"arena", "method", "temporary", "file"}
    assert told(path, device="host").pool_bytes("method") > told(path).pool_bytes("method")


def test_a_file_that_is_copied_is_in_ram(path: Path) -> None:
    mapped, copied = told(path), told(path, copied=True)
    held = {part.what: part.bytes for part in copied.parts if part.pool == "file" and part.in_ram}
    assert copied.ram_bytes == mapped.ram_bytes + sum(held.values())
    assert {"program", "constants"} <= held.keys()
    assert "first values of state" not in held  # they are read to where the state lies
    assert max(copied.savings, key=lambda saving: saving.wins).wins == sum(held.values())


def test_without_a_pool_lookups_take_the_method_allocators_memory(path: Path) -> None:
    enough = told(path)
    none, empty = told(path, temp_pool="none"), told(path, temp_pool="0")
    looked_up = {part.what: part.bytes for part in empty.parts}["kernel lookups"]
    padding = empty.pool_bytes("method") - enough.pool_bytes("method") - looked_up
    assert 0 < padding < 4 * 10  # of the lists of arguments between them
    assert none.pool_bytes("method") > empty.pool_bytes("method")
    assert none.pool_bytes("temporary") == 0


@pytest.mark.parametrize("runtime", ["1.4", "1.5"])
@pytest.mark.parametrize("device", ["cortex-m", "host"])
def test_advice_on_the_pool_is_right_to_the_byte(device: str, runtime: str, path: Path) -> None:
    analyses = analyse(open_pte(path))

    def with_pool(pool: str | None) -> DeviceMemory:
        loading = loading_of({"device": device, "runtime": runtime, "temp_pool": pool})
        assert loading is not None
        return device_memory(open_pte(path), analyses[0], analyses, loading)

    sizes = {}
    for choice in ("none", *map(str, range(0, 600, 2))):
        with contextlib.suppress(InputError):
            sizes[choice] = with_pool(choice).ram_bytes
    best = min(sizes.values())
    for pool in ("none", "0", "300", "4KiB", None):
        if pool is not None and pool not in sizes and pool != "4KiB":
            continue  # 1.4 does not load a method whose pool is too small
        now = with_pool(pool)
        offered = [saving for saving in now.savings if "--temp-pool" in saving.change]
        assert [saving.wins for saving in offered] == ([now.ram_bytes - best] if now.ram_bytes > best else [])
        for saving in offered:
            (choice,) = re.findall(r"--temp-pool (\w+)", saving.change)
            assert sizes[choice] == best


def test_several_methods_loaded_together(path: Path) -> None:
    alone, together = told(path), told(path, all_methods=True)
    methods = {part.method for part in together.parts}
    assert methods == {"", "read", "width"}
    for pool in ("arena", "method"):
        others = sum(part.bytes or 0 for part in together.parts if part.method and part.pool == pool)
        assert together.pool_bytes(pool) == alone.pool_bytes(pool) + others
    planned = {
        source.name: source.device_memory for source in load_all(path, make_request({"device": "cortex-m"}))
    }
    for name in methods - {""}:
        other = planned.get(name)
        taken = sum(part.bytes or 0 for part in together.parts if part.method == name)
        (saving,) = [saving for saving in together.savings if saving.change.endswith(f" {name}")]
        assert saving.wins == taken
        if other is not None:
            padding = taken - other.pool_bytes("arena") - other.pool_bytes("method")
            assert 0 <= padding < 8  # between the methods, which share an allocator
    done = run("check", path, "--method", "add", "--device", "cortex-m", "--all-methods", "--max-ram", "1")
    assert f"everything in RAM takes {together.ram_bytes:,} bytes" in done.stdout
    assert not any("is loaded as well" in note for note in together.notes)


def test_versions(path: Path) -> None:
    assert told(path).runtime == "ExecuTorch 1.5"
    assert "A file does not say which runtime loads it" in told(path).notes[0]
    assert told(path, runtime="1.4.1").runtime == "ExecuTorch 1.4"
    newer = told(path, runtime="1.9")
    assert newer.runtime == "ExecuTorch 1.5"
    assert (
        newer.notes[0]
        == "ExecuTorch 1.9 is not known: figures are those of ExecuTorch 1.5, the newest that is."
    )
    # 1.5 passes over a pool that may be too small; 1.4 does not load the method then.
    assert told(path, runtime="1.5", temp_pool="48").pool_bytes("temporary") == 48
    with pytest.raises(
        InputError, match="a pool of 48 bytes for temporary memory is too small for method add"
    ):
        told(path, runtime="1.4", temp_pool="48")


def test_older_versions_get_the_oldest_figures(path: Path) -> None:
    older = told(path, runtime="1.2")
    assert older.runtime == "ExecuTorch 1.4"
    assert "figures are those of ExecuTorch 1.4, the oldest that is" in older.notes[0]
    assert told(path, runtime="0.7").pool_bytes("method") == told(path, runtime="1.4").pool_bytes("method")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runtime": 1.4}, "runtime 1.4 is no version"),
        ({"copied": "no"}, "copied 'no': give True or False"),
        ({"all_methods": 1}, "all_methods 1: give True or False"),
    ],
)
def test_options_of_other_types(options: dict[str, Any], message: str, path: Path) -> None:
    with pytest.raises(InputError, match=message):
        told(path, **options)


def test_other_methods_are_named(path: Path) -> None:
    other = load(path, make_request({"method": "read", "device": "cortex-m"})).device_memory
    assert other is not None
    size = other.pool_bytes("method")
    said = f"If method read is loaded as well, it takes {size} bytes of the method allocator"
    assert any(note.startswith(said) for note in told(path).notes)


def special(name: str) -> DeviceMemory:
    """What the first method of a measured program takes on a host."""
    with tarfile.open(Path(__file__).parents[2] / "data" / "runtime_memory.tar.xz") as archive:
        data = archive.extractfile(f"special-{name}.pte").read()
    program = program_decoder().decode(data, "Program")
    file = PteFile(name, data, program, len(data), 0)
    analyses = analyse(file)
    loading = loading_of({"device": "host"})
    assert loading is not None
    return device_memory(file, analyses[0], analyses, loading)


def test_inputs_and_outputs_outside_the_arena_are_counted() -> None:
    ends, inputs = special("unplanned_ends"), special("unplanned_inputs")
    assert inputs.pool_bytes("caller") == 64
    assert ends.pool_bytes("caller") == 128
    assert special("scalars").pool_bytes("caller") == 0
    assert inputs.pool_bytes("arena") - ends.pool_bytes("arena") in range(65)


def test_what_backends_take_from_the_heap_is_not_told() -> None:
    (part,) = [part for part in special("delegates").parts if part.pool == "heap"]
    assert (part.what, part.bytes) == ("heap of XnnpackBackend", None)
    assert "heap of XnnpackBackend" in special("delegates").untold
    assert special("scalars").untold == ()


def test_a_file_of_data_is_given_to_every_method() -> None:
    for name in ("external_named", "external_methods"):
        found = special(name)
        assert any("(.ptd)" in note and "every method" in note for note in found.notes)
    assert any(
        note.startswith("A method that is loaded with a file of data") for note in special("delegates").notes
    )


def test_ethos_u_asks_for_what_vela_says() -> None:
    def block(name: bytes, content: bytes) -> bytes:
        padded = content.ljust(-(-len(content) // 16) * 16, b"\0")
        return name.ljust(16, b"\0") + struct.pack("<I12x", len(content)) + padded

    blob = block(b"vela_bin_stream", b"") + block(b"cmd_data", b"COP1" * 5)
    blob += block(b"scratch_size", struct.pack("<I", 12_345)) + block(b"vela_end_stream", b"")
    call = PteInstruction("delegate", 0, 0, ETHOS_U, (0, 1), delegate=0)
    reference = SimpleNamespace(location=SimpleNamespace(name="INLINE"), index=0)
    method: Any = SimpleNamespace(plan=SimpleNamespace(delegates=[SimpleNamespace(processed=reference)]))
    for length, asked in ((len(blob), 12_345), (70, None), (0, None)):
        data = [SimpleNamespace(data=blob[:length])]
        file: Any = SimpleNamespace(program=SimpleNamespace(backend_delegate_data=data))
        found = asks_for(file, method, call, Structure(4, 4))
        assert (None if found is None else (found.size, found.alignment)) == (asked and (asked, 16))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "toaster"], "device 'toaster': choose one of cortex-m, host"),
        (["--runtime", "1.4"], "--runtime says more of a device: give --device as well"),
        (["--device", "host", "--runtime", "new"], "runtime 'new' is no version"),
        (["--device", "host", "--temp-pool", "much"], "'much' is not a size"),
        (["--device", "host", "--runtime", "1.4", "--temp-pool", "8"], "too small for method add"),
        (["--device", ""], "device '': choose one of cortex-m, host"),
        (["--device", "host", "--temp-pool", ""], "'' is not a size"),
        (["--device", "cortex-m", "--temp-pool", "4GiB"], "cortex-m has only 4,294,967,296 bytes"),
    ],
)
def test_options_that_make_no_sense(options: list[str], message: str, path: Path) -> None:
    done = run("explain", path, "--method", "add", *options)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert message in done.stderr


def test_formats_that_do_not_tell(tmp_path: Path) -> None:
    buffers = tmp_path / "buffers.csv"
    buffers.write_text(CSV)
    for command in (
        ["explain"],
        ["show", "--term"],
        ["check", "--max-ram", "1KiB"],
        ["plan", "--header", "-"],
    ):
        done = run(command[0], buffers, *command[1:], "--device", "cortex-m")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert "told by .pte and .tflite files only" in done.stderr


def test_explain(path: Path) -> None:
    found, memory = lowtide.explain(path, method="add", device="cortex-m"), told(path)
    assert found.ram == memory
    assert {share.what: share.bytes for share in found.memory}["runtime bookkeeping"] == memory.pool_bytes(
        "method"
    )
    document = json.loads(found.to_json())
    jsonschema.validate(document, json_schema("explanation"))
    assert document["ram"]["ram_bytes"] == memory.ram_bytes
    assert document["ram"]["pools"] == {
        pool: memory.pool_bytes(pool) for pool in ("arena", "caller", "method", "temporary", "heap", "file")
    }
    total = f"On cortex-m, as ExecuTorch 1.5 allocates: {memory.ram_bytes:,} bytes (1.9 KiB) of RAM"
    assert total in found.to_markdown()
    done = run("explain", path, "--method", "add", "--device", "cortex-m")
    assert total in done.stdout
    for name, size in memory.settings:
        assert f"{name}={size}" in done.stdout
    assert lowtide.explain(path, method="add").ram is None


def test_check_holds_the_sum(path: Path) -> None:
    size = told(path).ram_bytes
    given = ("--method", "add", "--device", "cortex-m", "--max-ram")
    kept = run("check", path, *given, str(size))
    assert kept.returncode == 0
    assert f"everything in RAM takes {size:,} bytes" in kept.stdout
    over = run("check", path, *given, str(size - 1), "--max-arena", "400", "--json")
    document = json.loads(over.stdout)
    jsonschema.validate(document, json_schema("budget"))
    assert over.returncode == 1
    assert [(one["what"], one["over"], one["kept"]) for one in document["limits"]] == [
        ("arena", 0, True),
        ("ram", 1, False),
    ]
    for options, message in (([], "there is nothing to check"), (["--max-ram", "9"], "give --device")):
        done = run("check", path, "--method", "add", *options)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert message in done.stderr


def test_what_is_not_told_is_said(path: Path) -> None:
    from lowtide.ir.device_memory import RamPart
    from lowtide.outputs.header import plan_to_header
    from lowtide.outputs.wording import budget_line, ram_sentence
    from lowtide.report.ram import check_ram

    source = load(path, make_request({"method": "add", "device": "host"}))
    assert source.device_memory is not None
    assert source.plan is not None
    unknown = RamPart("method", "handles of Odd", None)
    memory = replace(source.device_memory, parts=(*source.device_memory.parts, unknown))
    budget = check_ram(replace(source, device_memory=memory), source.plan, 1 << 20)
    assert budget.untold == ("handles of Odd",)
    assert "without handles of Odd, which is not told" in budget_line("x", [budget])
    assert "at least" in ram_sentence(memory)
    assert "At least: handles of Odd" in plan_to_header(source.plan, "x", memory=memory)


def test_header(path: Path, tmp_path: Path) -> None:
    memory = told(path)
    header = tmp_path / "two.h"
    given = ("--method", "add", "--device", "cortex-m", "--header", header)
    assert run("plan", path, *given).returncode == 0
    macros = dict(re.findall(r"^#define (\w+) (\d+)u$", header.read_text(), re.MULTILINE))
    assert macros["LOWTIDE_TWO_METHOD_ALLOCATOR_BYTES"] == str(memory.pool_bytes("method"))
    assert macros["LOWTIDE_TWO_TEMPORARY_BYTES"] == str(memory.pool_bytes("temporary"))
    assert run("plan", path, *given[:-2], "--temp-pool", "none", *given[-2:]).returncode == 0
    assert "_TEMPORARY_BYTES" not in header.read_text()
    assert run("plan", path, *given).returncode == 0
    compiler = shutil.which("cc")
    if compiler is not None:
        source = tmp_path / "two.c"
        source.write_text(
            '#include "two.h"\n'
            "unsigned char method[LOWTIDE_TWO_METHOD_ALLOCATOR_BYTES];\n"
            "unsigned char temporary[LOWTIDE_TWO_TEMPORARY_BYTES];\n"
        )
        flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "-o", str(tmp_path / "two.o")]
        subprocess.run([compiler, *flags, str(source)], check=True)


def test_pictures_have_a_bar(path: Path, tmp_path: Path) -> None:
    memory = told(path)
    given = ("--method", "add", "--device", "cortex-m")
    page = tmp_path / "two.html"
    assert run("show", path, *given, "-o", page).returncode == 0
    widths = re.findall(r'<li style="flex-grow:(\d+)"', page.read_text())
    pools = [memory.pool_bytes(pool) for pool in ("arena", "method", "temporary")]
    assert [int(width) for width in widths] == pools
    shown = run("show", path, *given, "--term").stdout.splitlines()
    at = next(i for i, line in enumerate(shown) if line.startswith("On cortex-m"))
    assert len(set(shown[at + 1])) == 3
    assert "method allocator" in shown[at + 2]
    assert "ram" not in run("show", path, "--method", "add", "--term").stdout.lower()
    pytest.importorskip("matplotlib")
    drawing = tmp_path / "two.svg"
    assert run("show", path, *given, "--svg", drawing).returncode == 0
    ids = {element.get("id") for element in ElementTree.parse(drawing).iter()}
    assert {"ram-arenas", "ram-method-allocator", "ram-temporary-memory"} <= ids
