"""Explanations: the peak is that of the live bytes, the figures are what they say, the advice holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lowtide
from lowtide import Arena, Buffer, Call, Explanation, Problem, Program, Region, Step, Storage, Value, _kernel
from lowtide.ir.plan import ArenaUse
from lowtide.ir.problem import Placement
from lowtide.lifetimes.timeline import build_problem
from lowtide.outputs.json import json_schema
from lowtide.outputs.wording import waiting
from lowtide.pack.arrays import to_kernel
from lowtide.report.curve import floor_of, live_curve, without_buffers
from lowtide.report.findings import Advice
from peaks import check_peaks
from strategies import problems


@given(problems(permissions=False))
def test_the_peak_is_that_of_the_live_bytes(problem: Problem) -> None:
    check_peaks(lowtide.explain(problem), problem)


INSIDE_WHAT_ENDS = Problem(
    (Buffer("a", 8, ((0, 2),)), Buffer("b", 1, ((0, 2),)), Buffer("c", 8, ((0, 1),))),
    may_coincide=(("a", "c"),),
    placements=(Placement("b", "c", 0),),
)
"""Where ``c`` ends, ``b`` needs a byte of its own beside ``a``: the sum rises though nothing begins."""


@example(INSIDE_WHAT_ENDS)
@given(problems())
def test_bytes_that_may_be_shared_count_once(problem: Problem) -> None:
    for arena in problem.arenas:
        part, _ = problem.part(arena)
        floor = floor_of(part)
        assert not floor.has_permissions
        assert live_curve(floor).peak + arena.reserved == _kernel.disjoint_peak(to_kernel(part))
        lives = {b.id: b.lifetime for b in part.buffers}
        for buffer in floor.buffers:
            inside = lives[buffer.id]
            assert all(any(a <= start and stop <= b for a, b in inside) for start, stop in buffer.lifetime)


@given(problems(permissions=False), st.data())
def test_a_buffer_wins_what_the_peak_falls_without_it(problem: Problem, data: st.DataObject) -> None:
    problem = replace(problem, arenas=())
    arena = data.draw(st.sampled_from(problem.arenas)) if problem.arenas else None
    if arena is None:
        return
    part, _ = problem.part(arena)
    curve = live_curve(part)
    for buffer in part.buffers:
        without = live_curve(without_buffers(part, {buffer.id})).peak
        assert curve.without(buffer.size, buffer.lifetime) == without


def chain(*sizes: int, late: int | None = None) -> Program:
    """Steps that each read what the one before wrote; with ``late``, the last reads that value too."""
    count = len(sizes)
    storages = tuple(
        Storage(f"root/s{i}", size, "input" if i == 0 else "temporary") for i, size in enumerate(sizes)
    )
    values = tuple(Value(f"root/s{i}", storage=i, layout=str(sizes[i])) for i in range(count))
    steps = []
    for i in range(1, count):
        reads = (i - 1,) if late is None or i < count - 1 else (i - 1, late)
        steps.append(Step(f"s{i}", "test.op.default", reads=reads, writes=(i,), source=f"model.py:{i}"))
    root = Region(params=(0,), steps=tuple(steps), outputs=(count - 1,))
    return Program((root,), values, storages)


def advice(explanation: Explanation, kind: str) -> list[Advice]:
    """The advice of one kind."""
    return [a for a in explanation.advice if a.kind == kind]


def test_who_waits_how_long() -> None:
    program = chain(8, 16, 32, 64, 32, 8, late=1)
    (peak,) = lowtide.explain(program).peaks
    assert (peak.at.step, peak.at.source, peak.bytes) == ("root/s3", "model.py:3", 16 + 32 + 64)
    waits = {a.name: (a.written, a.read, a.idle) for a in peak.alive}
    written, read, idle = waits["root/s1"]
    assert written is not None
    assert (written.step, written.away) == ("root/s1", 2)
    assert read is not None
    assert (read.step, read.away) == ("root/s5", 2)
    assert idle
    assert [waiting(a, peak.at.tick) for a in peak.alive] == [
        "written here, read in 1",
        "written 1 ago, read here",
        "idle, written 2 ago, read in 2",
    ]


def test_a_step_of_another_branch_is_not_next() -> None:
    """On the clock the second branch comes after the first; what only it reads is dead in the first."""
    names = ("root/x", "root/c", "root/r")
    storages = (
        Storage("root/x", 16, "input"),
        Storage("root/c", 1, "input"),
        Storage("root/r", 16, "output"),
        Storage("root/a/y", 64, region=1),
        Storage("root/b/z", 16, region=2),
    )
    values = (
        *(Value(name, storage=i, layout="16") for i, name in enumerate(names)),
        Value("root/a/x", 1),
        Value("root/a/y", 1, storage=3, layout="64"),
        Value("root/a/out", 1, storage=None, aliases=(4,)),
        Value("root/b/x", 2),
        Value("root/b/z", 2, storage=4, layout="16"),
    )
    call = Call("cond", (1, 2), operands=(0,), results=(2,), selector=1)
    root = Region(params=(0, 1), steps=(Step("r", "cond", call=call, effects=True),), outputs=(2,))
    first = Region("root/a", (3,), (Step("y", "op", reads=(3,), writes=(4,)),), (5,), "branch", 0)
    second = Region("root/b", (6,), (Step("z", "op", reads=(6,), writes=(7,)),), (7,), "branch", 0)
    program = Program((root, first, second), values, storages)
    (peak,) = lowtide.explain(program).peaks
    assert peak.at.step.startswith("root/a")
    named = {touch.step for a in peak.alive for touch in (a.written, a.read) if touch is not None}
    assert not any(step.startswith("root/b") for step in named)


def test_keeping_inputs_and_outputs_elsewhere() -> None:
    explanation = lowtide.explain(chain(64, 32, 48))
    (inputs,) = advice(explanation, "inputs")
    assert (inputs.subject, inputs.wins, inputs.peaks) == (("root/s0",), 96 - 80, {1: 80})
    explanation = lowtide.explain(chain(48, 32, 64))
    (outputs,) = advice(explanation, "outputs")
    assert (outputs.subject, outputs.wins, outputs.peaks) == (("root/s2",), 96 - 80, {1: 80})
    assert inputs.exact
    assert outputs.exact


def test_a_step_that_can_run_later() -> None:
    """s1 is made at once and read last; made later, it does not lie beside the large ones."""
    storages = tuple(
        Storage(f"root/{name}", size, kind)  # type: ignore[arg-type]
        for name, size, kind in (
            ("x", 8, "input"),
            ("early", 16, "temporary"),
            ("big", 64, "temporary"),
            ("small", 8, "temporary"),
            ("out", 8, "output"),
        )
    )
    values = tuple(Value(s.name, storage=i, layout=str(s.size)) for i, s in enumerate(storages))
    steps = (
        Step("early", "op", reads=(0,), writes=(1,)),
        Step("big", "op", reads=(0,), writes=(2,)),
        Step("small", "op", reads=(2,), writes=(3,)),
        Step("out", "op", reads=(1, 3, 0), writes=(4,)),
    )
    program = Program((Region(params=(0,), steps=steps, outputs=(4,)),), values, storages)
    explanation = lowtide.explain(program)
    assert explanation.peak_bytes == 8 + 16 + 64 + 8
    (later,) = advice(explanation, "delay")
    assert (later.subject, later.until, later.wins, later.exact) == (("root/early",), "root/out", 16, True)
    moved = replace(program.regions[0], steps=(steps[1], steps[2], steps[0], steps[3]))
    changed = build_problem(replace(program, regions=(moved,)))
    assert {use.id: use.live_peak_bytes for use in lowtide.plan(changed).uses} == later.peaks
    assert not advice(explanation, "wait")  # which would win no more


def test_a_buffer_that_waits() -> None:
    """s1 is read at once and then last: it cannot be made later, but need not be kept meanwhile."""
    program = chain(8, 16, 32, 64, 8, late=1)
    explanation = lowtide.explain(program)
    assert explanation.peak_bytes == 16 + 32 + 64
    (wait,) = advice(explanation, "wait")
    assert (wait.subject, wait.until, wait.wins, wait.exact) == (("root/s1",), "root/s4", 16, False)


def test_a_step_is_not_delayed_past_what_spoils_its_operand() -> None:
    program = chain(8, 16, 64, 8, 8, late=1)
    spoils = Step("spoil", "op", partial=(0,))
    steps = program.regions[0].steps
    spoilt = replace(program, regions=(replace(program.regions[0], steps=(steps[0], spoils, *steps[1:])),))
    assert not advice(lowtide.explain(spoilt), "delay")


def constants() -> Program:
    """A weight, two steps on it alone, then one with the input."""
    storages = (
        Storage("root/w", 64, "constant", planned=False),
        Storage("root/x", 8, "input"),
        Storage("root/t", 64),
        Storage("root/u", 32),
        Storage("root/out", 8, "output"),
    )
    values = tuple(Value(s.name, storage=i, layout=str(s.size)) for i, s in enumerate(storages))
    steps = (
        Step("t", "aten.permute_copy.default", reads=(0,), writes=(2,)),
        Step("u", "aten.sum.default", reads=(2,), writes=(3,)),
        Step("out", "aten.mul.Tensor", reads=(1, 3), writes=(4,)),
    )
    return Program((Region(params=(1,), steps=steps, outputs=(4,)),), values, storages)


def test_constants_computed_at_run_time() -> None:
    explanation = lowtide.explain(constants())
    (folded,) = advice(explanation, "constants")
    assert explanation.peak_bytes == 8 + 64 + 32
    assert (folded.subject, folded.costs, folded.wins) == (("root/t", "root/u"), 32, 104 - 16)


@pytest.mark.parametrize(
    "change",
    [
        {"effects": True},
        {"operator": "aten.rand.default", "reads": ()},
        {"partial": (0,)},
    ],
)
def test_what_is_no_constant(change: dict[str, object]) -> None:
    program = constants()
    steps = list(program.regions[0].steps)
    steps[0] = replace(steps[0], **change)  # type: ignore[arg-type]
    changed = replace(program, regions=(replace(program.regions[0], steps=tuple(steps)),))
    assert not advice(lowtide.explain(changed), "constants")


def copying(**change: object) -> Program:
    """A value, its copy, and a step that reads the copy."""
    program = chain(8, 64, 64, 8)
    steps = list(program.regions[0].steps)
    steps[1] = replace(steps[1], **{"operator": "aten.clone.default", **change})  # type: ignore[arg-type]
    return replace(program, regions=(replace(program.regions[0], steps=tuple(steps)),))


def test_a_copy_that_could_be_a_view() -> None:
    explanation = lowtide.explain(copying())
    (copy,) = advice(explanation, "copy")
    assert (copy.subject, copy.wins) == (("root/s2",), 128 - 72)


def test_a_copy_that_is_needed() -> None:
    assert not advice(lowtide.explain(copying(operator="aten.relu.default")), "copy")
    program = copying()
    spoils = Step("spoil", "op", partial=(1,))  # changes what was copied while the copy is to be read
    steps = program.regions[0].steps
    spoilt = replace(program, regions=(replace(program.regions[0], steps=(*steps[:2], spoils, steps[2])),))
    assert not advice(lowtide.explain(spoilt), "copy")


def test_a_plan_above_its_bound() -> None:
    problem = Problem((Buffer("a", 4, ((0, 2),)), Buffer("b", 4, ((2, 4),))), arenas=(Arena(1, reserved=2),))
    plan = lowtide.plan(problem, packer="naive")
    explanation = lowtide.explain(plan)
    (packing,) = advice(explanation, "packing")
    assert (packing.subject, packing.wins, packing.exact) == (("arena 1",), 4, False)
    (peak,) = explanation.peaks
    assert (peak.bytes, peak.arena_bytes, peak.reserved) == (6, 10, 2)
    assert not explanation.followed
    assert plan.uses == (ArenaUse(1, 10, 6, 6),)


def test_memory_is_counted_or_named() -> None:
    memory = {share.what: share for share in lowtide.explain(constants()).memory}
    assert (memory["constants"].counted, memory["constants"].bytes) == (False, 64)
    assert (memory["inputs"].counted, memory["inputs"].bytes) == (True, 8)
    for what in ("delegate blobs", "delegate scratch", "kernel scratch", "runtime bookkeeping"):
        assert not memory[what].counted
    unknown = {share.what: share.bytes for share in lowtide.explain(Problem(())).memory}
    assert unknown["constants"] is None


def test_json_follows_its_schema_and_is_the_same_again(tmp_path: Path) -> None:
    schema = json_schema("explanation")
    for source in (chain(8, 64, 64, 8, late=1), constants(), copying(), Problem(())):
        explanation = lowtide.explain(source, name="x")
        document = json.loads(explanation.to_json())
        jsonschema.validate(document, schema)
        assert explanation.to_json() == lowtide.explain(source, name="x").to_json()
        assert document["peak_bytes"] == explanation.peak_bytes
    path = tmp_path / "a.csv"
    path.write_text("id,lower,upper,size\na,0,3,4\n")
    assert lowtide.explain(path).name == "a.csv"


def test_markdown_is_safe_with_any_name() -> None:
    problem = Problem((Buffer("a|b`c``<img>", 4, ((0, 2),), source="model_x.py:3 *bold*"),))
    text = lowtide.explain(problem, name="net|1").to_markdown()
    row = next(line for line in text.splitlines() if "a\\|b" in line)
    assert "``` a\\|b`c``<img> ```" in row
    assert "model\\_x.py:3 \\*bold\\*" in row
    assert text.startswith("### `net\\|1`: live peak 4 bytes\n")
    many = Problem(tuple(Buffer(f"b{i}", 4, ((0, 2),)) for i in range(40)))
    assert "and 25 more" in lowtide.explain(many).to_markdown()


def test_the_arena_is_that_of_the_plan_that_was_asked_for():
    program = chain(64, 32, 48)
    best, naive = lowtide.explain(program), lowtide.explain(program, packer="naive")
    assert best.arena_bytes == lowtide.plan(program).arena_bytes == best.lower_bound_bytes
    assert naive.arena_bytes == lowtide.plan(program, packer="naive").arena_bytes > best.arena_bytes
    assert "no plan takes less." in best.to_markdown()
    assert f"no plan takes less than {best.arena_bytes}" in naive.to_markdown()
    small = lowtide.explain(program, capacity=16)
    assert (small.arena_bytes, small.lower_bound_bytes) == (None, None)
    assert "keeps the capacity" in small.to_markdown()
    plan = lowtide.plan(program, packer="naive")
    assert lowtide.explain(plan).arena_bytes == naive.arena_bytes
