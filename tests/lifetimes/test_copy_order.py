"""Copies at once and copies one after another: two carries that trade places."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowtide
from lowtide.base.errors import LowtideError
from lowtide.ir.program import (
    Call,
    CallKind,
    CopyOrder,
    Match,
    Program,
    Region,
    Step,
    Storage,
    StorageKind,
    Value,
)
from lowtide.lifetimes.lowering import lower
from lowtide.lifetimes.timeline import build_problem
from lowtide.pack.planner import plan_problem
from lowtide.verifier.ownership import check_ownership


def loop(order: CopyOrder, kind: CallKind = "while", *, held: bool = True) -> Program:
    """``a, b = b.clone(), a.clone()`` in every round; without the clones if nothing is held."""
    names: list[tuple[str, StorageKind]] = [
        ("root/x", "input"),
        ("root/y", "input"),
        ("root/a", "carry"),
        ("root/b", "carry"),
        ("root/body/old_b", "temporary"),
        ("root/body/old_a", "temporary"),
        ("root/test/go", "temporary"),
        ("root/rows", "result"),
    ]
    storages = tuple(
        Storage(name, 16, kind, region={"body": 1, "test": 2}.get(name.split("/")[1], 0))
        for name, kind in names
    )
    values = [
        Value(name, storages[i].region, i, (), "C") for i, (name, _) in enumerate(names)
    ]  # x, y, a, b, old_b, old_a, go, rows
    values += [Value(f"root/{name}", region) for name, region in (("body/p", 1), ("body/q", 1))]
    values += [Value(f"root/{name}", region) for name, region in (("test/p", 2), ("test/q", 2))]
    clones = (
        Step("old_b", "clone", reads=(9,), writes=(4,), matches=(Match(4, 9),)),
        Step("old_a", "clone", reads=(8,), writes=(5,), matches=(Match(5, 8),)),
    )
    outputs: tuple[int, ...] = (4, 5) if held else (9, 8)
    if kind == "scan":  # a row is what the first carry was
        call = Call("scan", (1,), carries=(2, 3), inits=(0, 1), results=(7,), order=order)
        outputs = (*outputs, 5 if held else 8)
    else:
        call = Call("while", (2, 1), carries=(2, 3), inits=(0, 1), order=order)
    root = Region(
        "root",
        (0, 1),
        (Step("loop", kind, effects=True, call=call),),
        (2, 3, 7) if kind == "scan" else (2, 3),
    )
    body = Region("root/body", (8, 9), clones if held else (), outputs, "body", 0)
    test = Region("root/test", (10, 11), (Step("go", "any", reads=(10,), writes=(6,)),), (6,), "condition", 0)
    return Program((root, body, test), tuple(values), storages)


def shared(program: Program) -> set[frozenset[str]]:
    """Which storages are one buffer with every copy that can be elided."""
    problem = build_problem(program, elide_copies=True)
    return {frozenset(name.rpartition("/")[2] for name in buffer.members) for buffer in problem.buffers}


def test_one_point_a_copy_in_the_order_of_the_runtime():
    flow = lower(loop("sequential", "scan"))
    names = [s.name.rpartition("/")[2] for s in flow.program.storages]
    made = [
        [f"{names[c.target_storage]}:={names[c.source_storages[0]]}" for c in point.copies]
        or [names[s] for s in point.writes]
        for point in flow.points
        if point.kind == "copy"
    ]
    assert made == [["a:=x"], ["b:=y"], ["rows"], ["a:=old_b"], ["b:=old_a"], ["rows:=old_a"]]
    assert [len(p.copies) for p in lower(loop("parallel", "scan")).points if p.kind == "copy"] == [2, 3]


def test_what_an_earlier_copy_changes_is_held():
    for kind in ("while", "scan"):
        found = shared(loop("sequential", kind))
        assert not any({"a", "old_a"} <= members for members in found)
        assert any(len(members) > 1 for members in found)


@pytest.mark.parametrize("kind", ["while", "scan"])
def test_the_verifier_follows_copies_in_their_order(kind):
    """The clone of a carry where the carry is: by the time that it is copied it is the new value."""
    program = loop("sequential", kind)
    problem = build_problem(program)
    plan = plan_problem(problem)
    assert check_ownership(program, plan) == []
    by_name = {name: i for i, buffer in enumerate(problem.buffers) for name in buffer.members}
    offsets = list(plan.offsets)
    offsets[by_name["root/body/old_a"]] = offsets[by_name["root/a"]]
    faults = check_ownership(program, replace(plan, offsets=tuple(offsets)))
    assert any("old_a" in fault.message for fault in faults)


@pytest.mark.parametrize("kind", ["while", "scan"])
def test_a_carry_that_nothing_holds_is_refused(kind):
    lowtide.plan(loop("parallel", kind, held=False))
    with pytest.raises(LowtideError, match=r"root/a is copied after a copy has changed it"):
        lowtide.plan(loop("sequential", kind, held=False))
