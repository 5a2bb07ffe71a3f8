"""What users have of it: every command and function on models, refusals in one line, files that stay safe."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lowtide
from command_line import run as run_command
from lowtide.base.errors import (
    InfeasibleError,
    InputError,
    LowtideError,
    UnsupportedError,
    VerificationError,
)
from lowtide.cli.app import app
from lowtide.frontends.tflite.interpreter import Scratch, simulate
from lowtide.frontends.tflite.judging import must_stay_online
from lowtide.frontends.tflite.metadata import ONLINE, offsets_in
from lowtide.frontends.tflite.reading import read_model
from lowtide.frontends.tflite.writing import with_offsets
from tflite_building import Net
from tflite_nets import NETS
from tflm import run
from wake_words import BOUND, STOCK, wake_words

SMALLEST = {"in_place": True, "elide_copies": True}


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    path = tmp_path / "loop.tflite"
    path.write_bytes(NETS["loop"]())
    return path


def all_zero(data: bytes) -> bytes:
    """The same model with every tensor at the start of the arena."""
    model = read_model(data)
    return with_offsets(
        model, [0 if i in model.arena_tensors else ONLINE for i in range(model.tensor_count)]
    ).data


@pytest.mark.parametrize("name", sorted(STOCK))
def test_wake_words_get_smaller_files_that_run_the_same(name, tmp_path):
    words = wake_words()
    if name not in words:
        pytest.skip("pymicro-wakeword is not installed")
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(words[name])
    plan = lowtide.plan(path)
    assert plan.arena_bytes == plan.lower_bound_bytes == BOUND[name]
    assert lowtide.verify(plan, path).followed
    done = lowtide.repack(path)
    assert [(arena.before, arena.after) for arena in done.arenas] == [(STOCK[name], BOUND[name])]
    stock, ours = run(words[name], runs=4), run(done.data, runs=4)
    assert (stock.head, ours.head) == (STOCK[name], BOUND[name])
    assert ours.same_bits(stock)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("options", [{}, SMALLEST], ids=["plain", "smallest"])
def test_a_file_repacked_twice_is_the_same_file(name, options):
    data = NETS[name]()
    once = lowtide.repack(data, **options)
    assert once.changed == (once.data != data)
    assert once.arenas[0].after <= once.arenas[0].before
    again = lowtide.repack(once.data, **options)
    assert not again.changed
    assert again.data == once.data
    assert lowtide.audit(once.data).safe


@pytest.mark.parametrize("name", NETS)
def test_the_plan_in_a_file_is_taken_as_it_is(name):
    """Outputs over inputs and copies that were left out are no faults to the commands that read it."""
    from lowtide.ir.request import Request
    from lowtide.sources import load

    asks = {"probe_scratch": name == "scratch"}
    done = lowtide.repack(NETS[name](), **asks, **SMALLEST)
    source = load(done.data, Request(format_options=asks))
    if not done.changed:
        assert source.plan is None
        return
    assert source.plan is not None
    assert source.plan.arena_bytes == done.arenas[0].after == run(done.data, runs=1).head
    lowtide.verify(source.plan, done.data, **asks)


def test_a_plan_is_never_above_what_the_file_has():
    better = lowtide.repack(NETS["loop"](), **SMALLEST)
    plan = lowtide.plan(better.data)  # without the techniques that the file makes use of
    assert plan.arena_bytes == better.arenas[0].after < lowtide.plan(NETS["loop"]()).arena_bytes


def test_wrong_offsets_are_told_of_and_put_right():
    data = NETS["branches 0"]()
    broken = all_zero(data)
    audit = lowtide.audit(broken)
    assert not audit.safe
    assert json.loads(audit.to_json())["safe"] is False
    done = lowtide.repack(broken)
    assert done.faults_before == len(audit.findings)
    assert lowtide.audit(done.data).safe
    assert run(done.data).same_bits(run(data))


def test_a_tensor_that_nothing_uses_counts():
    net = Net()
    main = net.graph()
    x = main.input((1, 64))
    main.tensor((1, 4000))
    main.outputs = [main.made("TANH", [x])]
    data = net.finish()
    assert lowtide.plan(data).arena_bytes == run(lowtide.repack(data).data, runs=1).head == 16000


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"alignment": 32}, UnsupportedError, "16 bytes"),
        ({"plan_inputs": False}, UnsupportedError, "inputs"),
        ({"plan_outputs": False}, UnsupportedError, "outputs"),
        ({"reset_state": True}, UnsupportedError, "variables"),
        ({"capacity": {2: 4096}}, UnsupportedError, "one arena"),
        ({"capacity": 4000}, InfeasibleError, "4,128"),
        ({"scratch": {"SOFTMIN": 16}}, InputError, "names no operator"),
        ({"scratch": {"3:0": 16}}, InputError, "names no operator"),
        ({"scratch_log": "a.log", "probe_scratch": True}, InputError, "one of"),
        ({"scratch_log": "missing.log"}, InputError, "no such file"),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_line(options, error, said):
    for function in (lowtide.plan, lowtide.repack):
        with pytest.raises(error, match=said) as caught:
            function(NETS["loop"](), **options)
        assert "\n" not in str(caught.value)


def test_only_one_arena_is_planned_as_a_whole():
    with pytest.raises(UnsupportedError, match="one arena"):
        lowtide.plan(NETS["loop"](), hierarchy="block")
    with pytest.raises(UnsupportedError, match="16 bytes"):
        lowtide.audit(NETS["loop"](), alignment=32)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: struct.pack("<I", len(data)) + data,
        lambda data: data[:200],
        lambda data: b"\0\0\0\x1c" + data[4:],
        lambda data: b"",
        lambda data: b"id,lower\n",
    ],
    ids=["size in front", "cut", "big-endian", "empty", "text"],
)
def test_damaged_files_give_one_line(damage, loop):
    loop.write_bytes(damage(loop.read_bytes()))
    for function in (lowtide.plan, lowtide.audit, lowtide.repack, lowtide.explain):
        with pytest.raises(LowtideError) as caught:
            function(loop)
        assert "\n" not in str(caught.value)


def test_files_of_2_gib_are_not_read(tmp_path):
    path = tmp_path / "large.tflite"
    with path.open("wb") as file:
        file.write(NETS["loop"]())
        file.truncate(1 << 31)
    with pytest.raises(UnsupportedError, match="2 GiB"):
        lowtide.plan(path)


def test_scratch_is_planned_however_it_is_told(tmp_path):
    data = NETS["scratch"]()
    probed = lowtide.plan(data, probe_scratch=True)
    assert probed.arena_bytes == run(data, runs=1).head
    model = read_model(data)
    scratch = (Scratch(0, 0, 2048), Scratch(0, 2, 64))
    arena = simulate(model, None, scratch)
    lines = [
        f"(id={i}): size={a.size}, offset={a.offset}, first_used={a.first} last_used={a.last}"
        for i, a in enumerate((*arena.tensors.values(), *arena.scratch))
    ]
    log = tmp_path / "target.log"
    log.write_text("booting\n" + "\n".join(lines))
    said = lowtide.plan(data, scratch={"TRANSPOSE_CONV": 2048, "2": 64})
    logged = lowtide.plan(data, scratch_log=log)
    assert [(b.name, b.size) for b in said.problem.buffers] == [
        (b.name, b.size) for b in logged.problem.buffers
    ]
    more = lowtide.plan(data, scratch={"2": 128}, scratch_log=log)
    assert {b.size for b in more.problem.buffers if b.kind == "scratch"} == {2048, 128}


def test_explain_names_nothing_that_the_interpreter_cannot_do():
    found = lowtide.explain(NETS["branches 0"]())
    assert found.peaks
    assert not {advice.kind for advice in found.advice} & {"inputs", "outputs"}


@pytest.mark.parametrize("name", sorted(wake_words()))
def test_what_a_run_leaves_for_the_next_is_neither_constant_nor_moved(name):
    found = lowtide.explain(wake_words()[name])
    assert not {advice.kind for advice in found.advice} & {"constants", "delay"}


def command(*arguments: object) -> str:
    """What a command prints, if it ends well."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def status(*arguments: object) -> int:
    return CliRunner().invoke(app, list(map(str, arguments))).exit_code


def test_commands_agree_on_a_model(loop, tmp_path):
    plan, page = tmp_path / "plan.json", tmp_path / "page.html"
    command("plan", loop, "-O2", "--json", plan)
    assert "every byte followed" in command("verify", loop, plan)
    assert "ARENA_1_BYTES 4128u" in command("plan", loop, "--header", "-").replace("  ", " ")
    assert status("check", loop, "--max-arena", 4127) == 1
    assert "7,200 bytes" in command("check", loop, "--max-arena", 4128)
    command("compare", loop, "--timeout", 0.1)
    command("repack", loop, "-o", loop, "-O2")
    head = run(loop.read_bytes(), runs=1).head
    assert head == lowtide.repack(loop).arenas[0].before < 4128
    command("check", loop, "--max-arena", head)
    assert status("check", loop, "--max-arena", head - 1) == 1
    assert "safe" in command("audit", loop)
    command("show", loop, "-o", page)
    assert page.stat().st_size > 10_000
    old = tmp_path / "old.tflite"
    old.write_bytes(NETS["loop"]())
    changed = CliRunner().invoke(app, ["diff", str(old), str(loop)])
    assert changed.exit_code == 1
    assert f"4,128 to {head:,} bytes" in changed.stdout


def test_a_file_with_wrong_offsets_keeps_no_budget(loop):
    loop.write_bytes(all_zero(loop.read_bytes()))
    assert status("audit", loop) == 1
    assert status("check", loop, "--max-arena", "1MiB") == 1


@pytest.mark.parametrize(
    "options",
    [
        ("plan", "--scratch", "SOFTMIN=1KiB"),
        ("plan", "--scratch", "1KiB"),
        ("plan", "--scratch", "ADD=1", "--scratch", "ADD=2"),
        ("plan", "--alignment", "8"),
        ("repack", "-o", "out.tflite", "--no-plan-inputs"),
        ("audit", "--alignment", "32"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, loop):
    done = CliRunner().invoke(app, [options[0], str(loop), *options[1:]])
    assert isinstance(done.exception, (InputError, UnsupportedError))
    assert "\n" not in str(done.exception)
    assert done.stdout == ""


def test_an_error_is_one_line_and_the_file_is_as_it_was(loop):
    before = loop.read_bytes()
    done = run_command("repack", loop, "-o", loop, "--scratch", "SOFTMIN=1KiB")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("lowtide: error: ")
    assert loop.read_bytes() == before


def some_offsets(data: bytes) -> tuple[bytes, dict[int, int]]:
    """The same model with every third tensor where the interpreter puts it, and these offsets."""
    model = read_model(data)
    barred = must_stay_online(model)
    places = sorted(simulate(model).tensors.items())
    given = {i: place.offset for i, place in places[::3] if i not in barred}
    return with_offsets(model, [given.get(i, ONLINE) for i in range(model.tensor_count)]).data, given


@pytest.mark.parametrize("name", ["loop", "shared", "branch", "variable in a branch", "resource"])
def test_offsets_that_are_kept_stay_and_the_rest_gets_smaller(name):
    stock = NETS[name]()
    data, given = some_offsets(stock)
    found = lowtide.repack(data, keep_offsets=True, timeout=0.3)
    kept = offsets_in(read_model(found.data))
    assert kept is not None
    assert {i: kept[i] for i in given} == given
    assert found.arenas[0].after <= found.arenas[0].before
    assert found.changed == (name in ("loop", "shared"))
    assert run(found.data, runs=3).same_bits(run(stock, runs=3))
    assert lowtide.plan(data, keep_offsets=True, timeout=0.3).arena_bytes == found.arenas[0].after


def test_offsets_that_cannot_be_kept_are_refused_in_one_line(loop):
    data = loop.read_bytes()
    with pytest.raises(InputError, match="no offsets to keep"):
        lowtide.repack(data, keep_offsets=True)
    with pytest.raises(VerificationError, match="the plan is wrong"):
        lowtide.repack(all_zero(data), keep_offsets=True)
    with pytest.raises(UnsupportedError, match="--elide-copies"):
        lowtide.repack(some_offsets(data)[0], keep_offsets=True, **SMALLEST)
    loop.write_bytes(data)
    assert "no offsets to keep" in run_command("repack", loop, "-o", loop, "--keep-offsets").stderr


def test_offsets_outside_the_arena_keep_no_budget(loop):
    model = read_model(loop.read_bytes())
    loop.write_bytes(with_offsets(model, [-64] + [ONLINE] * (model.tensor_count - 1)).data)
    for arguments in (("check", loop, "--max-arena", "1MiB"), ("show", loop), ("audit", loop)):
        assert status(*arguments) == 1
    assert lowtide.repack(str(loop), timeout=0.3).faults_before == 1
