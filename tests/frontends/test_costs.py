"""What a front end pays for a mistake: each row of the table in ``docs/how-to/front-end.md``.

A true program, and the same with one mistake in it. The mistaken one is planned, and the true one, which is
what the runtime does, is simulated under that plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from lowtide.base.errors import LowtideError
from lowtide.ir.builder import ProgramBuilder
from lowtide.ir.plan import Plan
from lowtide.ir.program import Call, Match, Program
from lowtide.lifetimes.lowering import lower
from lowtide.lifetimes.timeline import problem_of_flow
from lowtide.pack.planner import plan_problem
from lowtide.pack.registry import Options
from lowtide.testing import simulate
from lowtide.transforms.reorder import reorder

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "front-end.md"
PACKERS = ("auto", "first-fit", "best-fit", "first-fit-area")

Case = Callable[[ProgramBuilder, bool], None]
CASES: dict[tuple[str, str], Case] = {}


def case(field: str, mistake: str) -> Callable[[Case], Case]:
    """The program of a row; its second argument says whether to make the mistake."""

    def add(make: Case) -> Case:
        CASES[field, mistake] = make
        return make

    return add


def build(make: Case, *, mistaken: bool) -> Program:
    builder = ProgramBuilder(alignment=4)
    make(builder, mistaken)
    return builder.build()


def plans(program: Program) -> list[Plan]:
    problem = problem_of_flow(lower(program), in_place=True, elide_copies=True)
    return [plan_problem(problem, packer=packer, options=Options(timeout=1)) for packer in PACKERS]


def without_strangers(program: Program, plan: Plan) -> Plan:
    """The plan without places that the program has no use for."""
    known = {storage.name for storage in program.storages}
    kept = [i for i, buffer in enumerate(plan.problem.buffers) if known.intersection(buffer.members)]
    if len(kept) == len(plan.offsets):
        return plan
    problem = replace(plan.problem, buffers=tuple(plan.problem.buffers[i] for i in kept))
    return replace(plan, problem=problem, offsets=tuple(plan.offsets[i] for i in kept))


def wrong(program: Program, plan: Plan) -> bool:
    plan = without_strangers(program, plan)
    return any(not simulate(program, plan, paths=20, seed=seed).right for seed in range(0, 80, 20))


def order_of(program: Program) -> list[str]:
    return [step.name for step in reorder(program).program.regions[0].steps if step.effects]


def cost(make: Case) -> str:
    """What a mistake costs, by trial."""
    true = build(make, mistaken=False)
    right = plans(true)
    assert not any(wrong(true, plan) for plan in right)
    try:
        program = build(make, mistaken=True)
        found = plans(program)
    except LowtideError:
        return "refused"
    if any(right[0].names.keys() - plan.names.keys() for plan in found):
        return "no place"
    if any(wrong(true, plan) for plan in found):
        return "wrong numbers"
    if found[0].arena_bytes > right[0].arena_bytes:
        return "bytes"
    return "nothing"


def chain(builder: ProgramBuilder, *reads_of_c: str, x: int = 16, a: int = 16) -> None:
    """x, then a, b, c, each of the one before it; c reads what is said."""
    made = {"x": builder.input("x", x)}
    made["a"] = builder.op("a", "op", made["x"], size=a)
    made["b"] = builder.op("b", "op", made["a"], size=16)
    builder.returns(builder.op("c", "op", *(made[name] for name in reads_of_c), size=16))


@case("Step.reads", "leaves out a value")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    chain(builder, *(["b"] if mistaken else ["b", "a"]))


@case("Step.reads", "has a value too many")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    chain(builder, *(["b", "x"] if mistaken else ["b"]))


def hidden_write(builder: ProgramBuilder, **effect: list[int]) -> None:
    """While k lives, which lies where a was, some step touches a again, and nobody reads it afterwards."""
    x = builder.input("x", 16)
    a = builder.op("a", "op", x, size=16)
    b = builder.op("b", "op", a, size=16)
    k = builder.op("k", "op", b, size=16)
    builder.step("again", reads=[b], **{name: [a] for name in effect})
    builder.returns(builder.op("out", "op", b, k, size=4))


@case("Step.writes", "leaves out a value that is written again")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    hidden_write(builder, **({} if mistaken else {"writes": []}))


@case("Step.partial", "leaves out a value")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    hidden_write(builder, **({} if mistaken else {"partial": []}))


@case("Step.writes", "leaves out a value that nobody reads")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    x = builder.input("x", 16)
    a, junk = builder.new("a", 16), builder.new("junk", 16)
    builder.step("pair", reads=[x], writes=[a] if mistaken else [a, junk])
    builder.returns(a)


def touched_late(builder: ProgramBuilder, effect: str) -> None:
    """a is made, something else comes and goes, then a step has an effect on a, and a is read."""
    x = builder.input("x", 16)
    a = builder.op("a", "op", x, size=16)
    t = builder.op("t", "op", x, size=16)
    u = builder.op("u", "op", t, size=16)
    builder.step("late", reads=[u], **({effect: [a]} if effect else {}))  # type: ignore[arg-type]
    builder.returns(builder.op("out", "op", a, u, size=4))


@case("Step.writes", "has a value too many")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    touched_late(builder, "writes" if mistaken else "")


@case("Step.writes", "has a value of which a part is left as it was")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    touched_late(builder, "writes" if mistaken else "partial")


@case("Step.partial", "has a value that is written from end to end")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    touched_late(builder, "partial" if mistaken else "writes")


def with_scratch(builder: ProgramBuilder, *, used: bool) -> None:
    x, a = builder.input("x", 16), builder.new("a", 16)
    builder.step("a", reads=[x], writes=[a], scratch=[builder.scratch("work", 16)] if used else [])
    builder.returns(a)


@case("Step.scratch", "leaves out a storage")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    with_scratch(builder, used=not mistaken)


@case("Step.scratch", "has a storage too many")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    with_scratch(builder, used=mistaken)


def in_any_order(builder: ProgramBuilder, *effects: str) -> None:
    """Two large values that need not be alive at once."""
    x = builder.input("x", 4)
    made = {}
    for name, read, size in (("A", "x", 64), ("B", "x", 64), ("a", "A", 4), ("b", "B", 4)):
        made[name] = builder.new(name, size)
        reads = [made.get(read, x)]
        builder.step(name, reads=reads, writes=[made[name]], effects=name in effects)
    builder.returns(made["a"], made["b"])


@case("Step.call", "leaves out an operand")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    inner = builder.region("inner")
    p, q = builder.param("p", inner), builder.param("q", inner)
    builder.returns(builder.op("y", "op", p, q, size=16, region=inner), region=inner)
    x, z = builder.input("x", 16), builder.input("z", 16)
    result = builder.new("result", 16, kind="result")
    builder.step("call", call=Call("call", (inner,), (x,) if mistaken else (x, z), results=(result,)))
    builder.returns(result)


@case("Step.call", "names another region")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    regions = []
    for name in ("both", "first"):
        inner = builder.region(name)
        p, q = builder.param("p", inner), builder.param("q", inner)
        u = builder.op("u", "op", p, size=16, region=inner)
        reads = (u, q) if name == "both" else (u,)
        builder.returns(builder.op("y", "op", *reads, size=16, region=inner), region=inner)
        regions.append(inner)
    x, z = builder.input("x", 16), builder.input("z", 16)
    last = z
    for turn, inner in enumerate((*regions, regions[1] if mistaken else regions[0])):
        result = builder.new(f"result{turn}", 16, kind="result")
        call = Call("call", (inner,), (x, last if turn < 2 else z), results=(result,))
        builder.step(f"call{turn}", call=call)
        last = result
    builder.returns(last)


@case("Step.source", "is wrong")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    x, a = builder.input("x", 16), builder.new("a", 16)
    builder.step("a", reads=[x], writes=[a], source="elsewhere.py:9" if mistaken else "model.py:3")
    builder.returns(a)


def overwriting(builder: ProgramBuilder, *, allowed: bool, strange: bool = False) -> None:
    x, a = builder.input("x", 16, layout="dense"), builder.new("a", 16, layout="dense")
    pairs = [(x, x)] if strange else [(a, x)] if allowed else []
    builder.step("a", reads=[x], writes=[a], overwrites=pairs)
    builder.returns(a)


@case("Step.overwrites", "leaves out a pair")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    overwriting(builder, allowed=not mistaken)


@case("Step.overwrites", "has a pair too many")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    overwriting(builder, allowed=mistaken)


@case("Step.overwrites", "has a value that the step does not write")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    overwriting(builder, allowed=True, strange=mistaken)


def joined(builder: ProgramBuilder, *distances: int) -> None:
    """The two halves of a whole, each copied to its place."""
    x = builder.input("x", 4)
    a, b = (builder.op(name, "op", x, size=16, layout="dense") for name in "ab")
    whole = builder.new("whole", 32, layout="dense")
    matches = [Match(part, whole, distance) for part, distance in zip((a, b), distances, strict=False)]
    builder.step("join", reads=[a, b], writes=[whole], matches=matches)
    builder.returns(builder.op("out", "op", whole, size=4))


@case("Step.matches", "leaves out a match")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    joined(builder, *(() if mistaken else (0, 16)))


@case("Step.matches", "has a match too many")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    joined(builder, *((0, 16) if mistaken else ()))


@case("Step.matches", "has the wrong distance")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    joined(builder, *((16, 0) if mistaken else (0, 16)))


@case("Step.matches", "has a negative distance")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    joined(builder, 0, -16 if mistaken else 16)


@case("Storage.size", "is too small")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    chain(builder, "b", a=8 if mistaken else 16)


@case("Storage.size", "is too large")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    chain(builder, "b", a=32 if mistaken else 16)


@case("Storage.size", "is `None` of what has a size")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    x = builder.input("x", 16)
    a = builder.new("a", None if mistaken else 16)
    builder.step("a", reads=[x], writes=[a])
    builder.returns(builder.op("b", "op", a, size=16))


def given(builder: ProgramBuilder, kind: str) -> None:
    """Something is made and gone before the first step that reads z."""
    x = builder.input("x", 16)
    a = builder.op("a", "op", x, size=4)
    z = builder.new("z", 16, kind=kind)
    builder.returns(builder.op("out", "op", a, z, size=4))


@case("Storage.kind", "is `temporary` for an input")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    given(builder, "temporary" if mistaken else "input")


@case("Storage.kind", "is `constant` for a temporary")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    x = builder.input("x", 16)
    a = builder.op("a", "op", x, size=16, kind="constant" if mistaken else "temporary")
    builder.returns(builder.op("b", "op", a, size=16))


def stateful(builder: ProgramBuilder, *, persistent: bool) -> None:
    s = builder.new("s", 16, kind="state", persistent=persistent)
    a = builder.op("a", "op", s, size=16)
    builder.step("update", reads=[a], writes=[s])
    b = builder.op("b", "op", a, size=16)
    builder.returns(builder.op("out", "op", b, size=4))


@case("Storage.persistent", "is false of what the next run reads")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    stateful(builder, persistent=not mistaken)


@case("Storage.persistent", "is true needlessly")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    stateful(builder, persistent=mistaken)


@case("Value.aliases", "leaves out what it is a view of")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    x = builder.input("x", 16)
    a = builder.op("a", "op", x, size=16)
    b = builder.op("b", "op", a, size=16)
    view = builder.view("view", *(() if mistaken else (a,)))
    builder.returns(builder.op("c", "op", b, view, size=16))


@case("Value.aliases", "has a value too many")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    x = builder.input("x", 16)
    a = builder.op("a", "op", x, size=16)
    b = builder.op("b", "op", a, size=16)
    view = builder.view("view", *((b, x) if mistaken else (b,)))
    builder.returns(builder.op("c", "op", view, size=16))


def returned(builder: ProgramBuilder, inner_layout: str) -> None:
    """A region's output is copied to the call's result, by a kernel that reads while it writes."""
    inner = builder.region("inner")
    p = builder.param("p", inner)
    y = builder.op("y", "op", p, size=16, region=inner, layout=inner_layout)
    builder.returns(y, region=inner)
    x = builder.input("x", 4)
    result = builder.new("result", 16, kind="result", layout="dense")
    call = Call("call", (inner,), (x,), results=(result,), order="sequential")
    builder.step("call", call=call)
    builder.returns(builder.op("out", "op", result, size=4))


@case("Value.layout", "is empty")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    returned(builder, "" if mistaken else "dense")


@case("Value.layout", "is that of something that lies otherwise")
def _(builder: ProgramBuilder, mistaken: bool) -> None:
    returned(builder, "dense" if mistaken else "transposed")


def table() -> dict[tuple[str, str], str]:
    """The rows of the page: field and mistake, and what it says of the cost."""
    rows = re.findall(r"^\| `(\w+\.\w+)` \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    return {(field, mistake): cost for field, mistake, cost in rows}


EFFECTS = {
    ("Step.effects", "is false of two steps whose order matters"),
    ("Step.effects", "is true needlessly"),
}


def test_every_row_is_tried() -> None:
    assert table().keys() == CASES.keys() | EFFECTS


@pytest.mark.parametrize("row", CASES, ids=": ".join)
def test_what_a_mistake_costs(row: tuple[str, str]) -> None:
    assert cost(CASES[row]) == table()[row]


def test_what_a_mistaken_effect_costs() -> None:
    """Effects matter to whoever changes the order, and to nobody else."""

    def made(*effects: str) -> Program:
        return build(lambda builder, _: in_any_order(builder, *effects), mistaken=False)

    def bytes_of(program: Program) -> int:
        return plans(reorder(program).program)[0].arena_bytes

    steps = [step.name for step in reorder(made()).program.regions[0].steps]
    assert steps.index("a") < steps.index("B"), "nothing says that B comes before a: wrong order"
    assert order_of(made("B", "a")) == ["B", "a"]
    assert bytes_of(made("A", "B", "a", "b")) > bytes_of(made())
    assert plans(made("B", "a"))[0] == plans(made())[0]
    assert replace(made("B"), regions=made().regions) == made()
