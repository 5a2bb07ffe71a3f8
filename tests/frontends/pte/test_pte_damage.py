"""Files that are damaged, cut short, of another kind, or newer: one line, exit 2, nothing written."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import flatbuffers
import pytest
from typer.testing import CliRunner

from lowtide.base.errors import InputError, LowtideError, UnsupportedError
from lowtide.cli.app import app
from lowtide.executorch import MemoryPlanningPass, audit, repack
from lowtide.frontends.flatbuffer.decoding import Decoder, UnknownFieldError
from lowtide.frontends.flatbuffer.schema import Schema, Slot, parse_schema
from lowtide.frontends.flatbuffer.tables import DamagedError
from lowtide.frontends.pte import open_pte
from lowtide.frontends.pte.reading import program_decoder
from lowtide.frontends.pte.writing import rewrite
from lowtide.sources import load_all, make_request
from pte_mutations import mutate
from stock_files import files_of, methods_file, stock_file

LONGEST = 20
"""Seconds that one file may take, on a busy machine."""


@contextmanager
def no_hang():
    def give_up(*_):
        raise AssertionError(f"a file took more than {LONGEST} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def survive(files: list[bytes], count: int, seed: int) -> Counter[str]:
    """Audit, and now and then repack, so many mutations; anything but an answer or one line is a fault."""
    random, seen = Random(seed), Counter()
    for turn in range(count):
        data = mutate(random.choice(files), random)
        with no_hang():
            seen.update(outcomes(data, again=turn % 5 == 0))
    assert [line for line in seen if not line.isprintable()] == []
    return Counter({word.split(":")[0]: 0 for word in seen}) + Counter(
        word.split(":")[0] for word in seen.elements()
    )


def outcomes(data: bytes, *, again: bool) -> list[str]:
    """What became of a file; of an error its type and its message."""
    found = []
    try:
        found.append("safe" if audit(data).safe else "not safe")
        for source in load_all(data, make_request({"device": "cortex-m", "copied": True})):
            assert source.device_memory is not None
            assert source.device_memory.ram_bytes > 0
        if again:
            repack(data, timeout=0.2)
            found.append("repacked")
    except LowtideError as error:
        found.append(f"{type(error).__name__}: {error}")
    return found


def test_some_damage():
    files = [stock_file("two_conds_added"), files_of("scan_and_map_and_cond").lowtide]
    seen = survive(files, 300, seed=0)
    assert seen["InputError"] > 100


def test_what_a_device_needs_of_damaged_files(tmp_path):
    """Through the command line, and through every figure that it prints."""
    random, seen = Random(3), Counter()
    path = tmp_path / "spoilt.pte"
    files = [stock_file("two_conds_added"), methods_file(MemoryPlanningPass())]
    for _ in range(120):
        path.write_bytes(mutate(random.choice(files), random))
        with no_hang():
            done = inside("explain", path, "--device", "cortex-m", "--all-methods", "--copied")
        refused = isinstance(done.exception, LowtideError)
        assert refused or done.exit_code == 0, done.output
        assert not refused or str(done.exception).isprintable()
        seen[refused] += 1
    assert min(seen.values()) > 3


@pytest.mark.slow
def test_ten_thousand_mutations():
    names = (
        "three_chained_conds",
        "scan_and_map_and_cond",
        "mixture_of_experts",
        "state_written_in_branches",
    )
    files = [data for name in names for data in (files_of(name).lowtide, stock_file(name))]
    files.append(methods_file(MemoryPlanningPass()))
    seen = survive(files, 10_000, seed=1)
    print(dict(seen))
    assert seen["InputError"] > 3_000
    assert seen["repacked"] > 100


def test_an_unedited_rewrite_is_the_file():
    for data in (stock_file("two_conds_added"), methods_file(MemoryPlanningPass())):
        assert rewrite(open_pte(data), {}, {}).data == data


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 20, 40, 64, 600, 2000])
def test_cut_short(keep):
    with pytest.raises(InputError, match="cut short"):
        open_pte(stock_file("two_conds_added")[:keep])


def test_another_flatbuffer():
    builder = flatbuffers.Builder()
    builder.StartObject(1)
    builder.PrependInt32Slot(0, 7, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"TFL3")
    with pytest.raises(InputError, match="no ExecuTorch program"):
        open_pte(bytes(builder.Output()))
    renamed = bytes(builder.Output()).replace(b"TFL3", program_decoder().schema.identifier.encode())
    with pytest.raises(LowtideError):
        open_pte(renamed)


def test_a_newer_schema():
    data = bytearray(stock_file("two_conds_added"))
    data[4:8] = b"ET13"
    with pytest.raises(UnsupportedError, match=r"has schema 'ET13' and Lowtide reads 'ET12'"):
        open_pte(bytes(data))


def test_a_newer_version_and_unknown_fields():
    from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program, _program_to_flatbuffer

    file = open_pte(stock_file("two_conds_added"))
    program = _flatbuffer_to_program(file.data[: file.program_bytes])
    program.version = 7
    program.segments, program.constant_segment.offsets = [], []
    with pytest.raises(UnsupportedError, match="has schema version 7 and Lowtide reads 0"):
        open_pte(bytes(_program_to_flatbuffer(program).data))
    schema = program_decoder().schema
    whole = open_pte(methods_file(MemoryPlanningPass()))
    flatbuffer = whole.data[: whole.program_bytes]
    older = replace(schema, tables={**schema.tables, "Tensor": schema.tables["Tensor"][:3]})
    with pytest.raises(UnknownFieldError, match="Tensor has a field that this schema does not know"):
        Decoder(older).decode(flatbuffer, "Program")
    older = replace(schema, unions={"KernelTypes": schema.unions["KernelTypes"][:5]})
    with pytest.raises(UnknownFieldError, match=r"values\[\d+\].val is of a kind that this schema does not"):
        Decoder(older).decode(flatbuffer, "Program")
    names = {number: name for number, name in schema.names["ScalarType"].items() if name != "FLOAT"}
    older = replace(schema, names={**schema.names, "ScalarType": names})
    with pytest.raises(UnknownFieldError, match="scalar_type is 6, which ScalarType does not know"):
        Decoder(older).decode(flatbuffer, "Program")


def test_a_table_that_is_everywhere():
    """A few bytes that unfold into billions of tables are refused at once."""
    schema = Schema(
        {name: (Slot("items", inner, True),) for name, inner in zip("ABCDEF", "BCDEFA", strict=True)}
    )
    vtable, count = struct.pack("<HHH", 6, 8, 4), 4000
    body = bytearray(16)
    struct.pack_into("<I", body, 0, 12)
    body[4:10] = vtable
    struct.pack_into("<i", body, 12, 8)
    body += struct.pack("<I", 4) + struct.pack("<I", count)
    for i in range(count):
        body += struct.pack("<I", (12 - (24 + 4 * i)) & 0xFFFFFFFF)
    began = time.process_time()
    with pytest.raises(DamagedError):
        Decoder(schema).decode(bytes(body), "A")
    assert time.process_time() - began < 5


def test_huge_counts_and_sizes():
    data = bytearray(stock_file("two_conds_added"))
    for at in range(0, 600, 4):
        made = bytearray(data)
        struct.pack_into("<I", made, 64 + at, 0x7FFFFFFF)
        with no_hang():
            assert all(line.isprintable() for line in outcomes(bytes(made), again=False))


def test_schemas_are_read_as_flatc_reads_them():
    schema = parse_schema(
        'file_identifier "AB12"; enum E : byte { X = 0 } // no\ntable T { a: E = X; b: [U]; c: V; }',
        "table U { s: string; } union V { T, U }",
    )
    assert schema.identifier == "AB12"
    assert [slot.name for slot in schema.tables["T"]] == ["a", "b", "c_type", "c"]
    assert schema.scalar("E") == "b"
    assert schema.scalar("U") is None


def test_what_is_absent_has_its_default():
    schema = parse_schema(
        "enum E : byte { X = 0, Y = 3 }"
        "table T { a: E = Y; b: bool; c: bool = true; d: double; e: float = -1.5;"
        "f: int = 0x10; g: [T]; h: U; i: string; }"
        "table U { j: short = -2; }"
    )
    builder = flatbuffers.Builder()
    builder.StartObject(9)
    builder.Finish(builder.EndObject())
    found = Decoder(schema).decode(bytes(builder.Output()), "T")
    assert repr(found) == "T(a=<E.Y: 3>, b=False, c=True, d=0.0, e=-1.5, f=16, g=None, h=None, i=None)"


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "lowtide", *map(str, arguments)], capture_output=True, text=True, timeout=300
    )


def test_the_command_line_on_damage(tmp_path):
    bad, out = tmp_path / "bad.pte", tmp_path / "out.pte"
    bad.write_bytes(stock_file("two_conds_added")[:1000])
    device = ("--device", "cortex-m")
    told = [(name, bad, *device) for name in ("explain", "plan", "show")]
    told.append(("check", bad, *device, "--max-ram", "1MiB"))
    for arguments in (("audit", bad), ("repack", bad, "-o", out), ("plan", bad), *told):
        done = command(*arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert "bad.pte: is damaged or cut short" in done.stderr
    assert not out.exists()


def inside(*arguments):
    """The command in this process, where everything is imported already."""
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_command_line(tmp_path):
    unsafe, out = tmp_path / "unsafe.pte", tmp_path / "out.pte"
    unsafe.write_bytes(stock_file("two_conds_added"))
    done = inside("audit", unsafe)
    assert done.exit_code == 1
    assert "NOT SAFE: 4 faults" in done.stdout
    assert "forward: overlap: instruction 20 aten::add.out reads" in done.stdout
    done = inside("repack", unsafe, "-o", out)
    assert done.exit_code == 0
    assert "was not safe: 4 faults" in done.stdout
    done = inside("audit", out, "--json")
    assert done.exit_code == 0
    assert '"safe": true' in done.stdout


def test_plan_and_verify_on_the_command_line(tmp_path):
    file, plan = tmp_path / "methods.pte", tmp_path / "plan.json"
    file.write_bytes(methods_file(MemoryPlanningPass()))
    done = inside("plan", file)
    assert done.exit_code == 0
    assert "methods.pte, add: " in done.stdout
    assert "methods.pte, read: " in done.stdout
    assert "The file's own plan: arena 1 has" in done.stdout
    done = inside("plan", file, "--json", plan)
    assert isinstance(done.exception, InputError)
    assert "choose one with --method" in str(done.exception)
    assert inside("plan", file, "--method", "add", "--json", plan).exit_code == 0
    assert inside("verify", file, plan, "--method", "add").exit_code == 0
    assert isinstance(inside("plan", file, "--method", "none").exception, InputError)
