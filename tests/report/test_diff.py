"""lowtide diff: buffers are matched by what they are, and every change is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from command_line import run
from lowtide import Buffer, Match, Problem, Program, Region, Step, Storage, Value
from lowtide.ir.plan import Plan
from lowtide.lifetimes.timeline import build_problem
from lowtide.outputs.json import json_schema
from lowtide.report.matching import match
from strategies import plans


def layer(number: int, size: int = 64, suffix: int | None = None) -> list[Buffer]:
    """Three buffers of one layer as an exporter names them: all layers share lines of code."""
    found = []
    for i, operator in enumerate(("linear", "relu", "add")):
        index = number if suffix is None else suffix
        name = f"root/{operator}" if index == 0 else f"root/{operator}_{index}"
        source = f"net.py:{10 + i} in forward (layers.{number})"
        start = 3 * number + i
        found.append(
            Buffer(
                name, size, ((start, start + 2),), operator=f"aten.{operator}", source=source, shape=(size,)
            )
        )
    return found


def network(*layers: list[Buffer]) -> Plan:
    """A plan of these layers, one after the other."""
    shifted = []
    tick = 0
    for buffers in layers:
        for buffer in buffers:
            shifted.append(replace(buffer, lifetime=((tick, tick + 2),)))
            tick += 1
    return lowtide.plan(Problem(tuple(shifted)))


def names(old: Plan, new: Plan) -> dict[str | None, str | None]:
    """Which old name became which new one."""
    a, b = old.problem.buffers, new.problem.buffers
    return {None if j is None else b[j].label: None if i is None else a[i].label for i, j in match(a, b)}


def test_nothing_differs() -> None:
    plan = network(layer(0), layer(1))
    found = lowtide.diff(plan, plan)
    assert not found.differs
    assert (found.changes, found.unchanged) == ((), 6)


@given(plans(permissions=False))
def test_a_plan_is_itself(plan: Plan) -> None:
    found = lowtide.diff(plan, plan)
    assert not found.differs
    assert found.unchanged == len(plan.problem.buffers)


@given(plans(permissions=False), plans(permissions=False))
def test_every_buffer_is_accounted_for(old: Plan, new: Plan) -> None:
    found = lowtide.diff(old, new)
    came = sum(change.kind == "came" for change in found.changes)
    went = sum(change.kind == "went" for change in found.changes)
    kept = len(found.changes) - came - went + found.unchanged
    assert kept + came == len(new.problem.buffers)
    assert kept + went == len(old.problem.buffers)
    assert (found.old_bytes, found.new_bytes) == (old.arena_bytes, new.arena_bytes)
    grown = sum(change.bytes for change in found.changes)
    assert grown == sum(b.size for b in new.problem.buffers) - sum(b.size for b in old.problem.buffers)
    back = lowtide.diff(new, old)
    assert sorted(change.bytes for change in back.changes) == sorted(
        -change.bytes for change in found.changes
    )


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_layer_more_shifts_every_name_behind_it(at: int) -> None:
    """The new layer takes number 9 in the module tree; the exporter numbers nodes in order of execution."""
    old = network(*(layer(i) for i in range(3)))
    kept = [layer(i, suffix=i if i < at else i + 1) for i in range(3)]
    extra = layer(9, suffix=at)
    new = network(*kept[:at], extra, *kept[at:])
    found = names(old, new)
    for i in range(3):
        for before, after in zip(layer(i), kept[i], strict=True):
            assert found[after.label] == before.label
    changes = lowtide.diff(old, new).changes
    assert {c.name for c in changes if c.kind == "came"} == {b.label for b in extra}
    assert not [c for c in changes if c.kind in ("went", "grew", "shrank")]


def test_lines_that_move_are_no_difference() -> None:
    old = network(layer(0), layer(1))
    moved = tuple(
        replace(b, source=(b.source or "").replace("net.py:1", "net.py:4")) for b in old.problem.buffers
    )
    assert not lowtide.diff(old, replace(old, problem=replace(old.problem, buffers=moved))).differs


def test_what_grew_and_what_was_replaced() -> None:
    old = network(layer(0), layer(1))
    wide = [replace(b, size=128, shape=(128,)) if b.label == "root/relu_1" else b for b in layer(1)]
    found = lowtide.diff(old, network(layer(0), wide))
    (grew,) = [c for c in found.changes if c.kind == "grew"]
    assert (grew.name, grew.bytes) == ("root/relu_1", 64)
    other = [replace(b, operator="aten.gelu") if b.label == "root/relu_1" else b for b in layer(1)]
    assert not lowtide.diff(old, network(layer(0), other)).changes  # another operator in the same place
    (arena,) = found.arenas
    assert (arena.old_bytes, arena.new_bytes) == (128, 192)
    assert arena.differs


def test_alike_buffers_are_matched_by_size_in_order() -> None:
    def alike(*sizes: int) -> Plan:
        buffers = [
            Buffer(f"root/op_{i}", size, ((i, i + 1),), operator="op", source="net.py:3 in forward")
            for i, size in enumerate(sizes)
        ]
        return lowtide.plan(Problem(tuple(buffers)))

    found = lowtide.diff(alike(1, 2, 3, 4), alike(1, 9, 2, 3, 4))
    assert [(c.kind, c.bytes) for c in found.changes if c.kind != "moved"] == [("came", 9)]


@given(st.lists(st.integers(1, 5), max_size=8), st.lists(st.integers(1, 5), max_size=8))
def test_matching_is_one_to_one(old: list[int], new: list[int]) -> None:
    a, b = (
        [Buffer(f"op_{i}", size, ((i, i + 1),), operator="op") for i, size in enumerate(sizes)]
        for sizes in (old, new)
    )
    pairs = match(a, b)
    assert sorted(i for i, _ in pairs if i is not None) == list(range(len(a)))
    assert sorted(j for _, j in pairs if j is not None) == list(range(len(b)))
    assert (None, None) not in pairs


def test_an_arena_that_came() -> None:
    old = lowtide.plan(Problem((Buffer("a", 4, ((0, 2),)),)))
    new = lowtide.plan(Problem((Buffer("a", 4, ((0, 2),), arena=2),)))
    found = lowtide.diff(old, new)
    assert [(a.arena, a.old_bytes, a.new_bytes) for a in found.arenas] == [(1, 4, 0), (2, 0, 4)]
    (moved,) = found.changes
    assert moved.kind == "moved"
    assert moved.old is not None
    assert moved.new is not None
    assert (moved.old.arena, moved.new.arena) == (1, 2)


@settings(max_examples=10)
@given(plans(permissions=False), plans(permissions=False))
def test_json_follows_its_schema(old: Plan, new: Plan) -> None:
    found = lowtide.diff(old, new)
    document = json.loads(found.to_json())
    jsonschema.validate(document, json_schema("difference"))
    assert document["differs"] == found.differs
    assert found.to_markdown().startswith("### `old` → `new`: ")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old.json", tmp_path / "new.csv"
    old.write_text(network(layer(0), layer(1)).to_json())
    new.write_text("id,lower,upper,size\nroot/linear,0,2,64\nroot/relu,1,3,96\n")
    return old, new


def test_exit_status_is_that_of_diff(files: tuple[Path, Path]) -> None:
    old, new = files
    same = run("diff", old, old)
    assert same.returncode == 0
    assert "128 to 128 bytes, as before" in same.stdout
    assert "0 buffers moved, 6 unchanged" in same.stdout
    changed = run("diff", old, new)
    assert changed.returncode == 1
    assert "+32" in changed.stdout
    assert run("diff", old, new, "-q").stdout == ""
    assert run("diff", old, "nowhere.json").returncode == 2
    both = run("diff", old, new, "--json", "--markdown")
    assert both.returncode == 2
    assert len(both.stderr.splitlines()) == 1


def test_json_and_markdown_from_the_command_line(files: tuple[Path, Path]) -> None:
    old, new = files
    document = json.loads(run("diff", old, new, "--json").stdout)
    jsonschema.validate(document, json_schema("difference"))
    assert document["new_bytes"] - document["old_bytes"] == 32
    text = run("diff", old, new, "--markdown").stdout
    assert "| 1 | 128 → 160 | +32 | 128 → 160 |" in text


def joined(seed: int) -> Program:
    """Random kernels that may write over what they read, and pieces that are joined to wholes."""
    random = Random(seed)
    storages = [Storage("root/x", 64, "input")]
    steps: list[Step] = []
    for i in range(random.randrange(6, 14)):
        made, sizes = len(storages), [storage.size for storage in storages]
        if made > 1 and random.random() < 0.45:
            first, second = random.sample(range(made), 2)
            parts = (Match(first, made, 0), Match(second, made, sizes[first]))
            storages.append(Storage(f"root/join{i}", sizes[first] + sizes[second]))
            steps.append(Step(f"join{i}", "cat", (first, second), (made,), matches=parts))
        else:
            read = random.randrange(made)
            storages.append(Storage(f"root/map{i}", sizes[read]))
            steps.append(Step(f"map{i}", "map", (read,), (made,), overwrites=((made, read),)))
    storages[-1] = replace(storages[-1], kind="output")
    values = tuple(Value(storage.name, storage=i, layout="dense") for i, storage in enumerate(storages))
    return Program((Region(params=(0,), steps=tuple(steps), outputs=(made,)),), values, tuple(storages))


def test_a_program_is_planned_as_plan_does() -> None:
    """Copies that are elided may be in the way elsewhere: then both plan without."""
    without = 0
    for seed in range(60):
        program = joined(seed)
        plan = lowtide.plan(program, in_place=True, elide_copies=True, timeout=0.3)
        everything = build_problem(program, in_place=True, elide_copies=True)
        without += plan.problem != everything
        found = lowtide.diff(program, plan, in_place=True, elide_copies=True, timeout=0.3)
        assert found.old_bytes == found.new_bytes == plan.arena_bytes, seed
        assert not found.differs, seed
    assert without
