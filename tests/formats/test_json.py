"""JSON: problems and plans come back as they were, by the published schema, and nothing is guessed."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given

from lowtide.base.errors import InputError
from lowtide.formats.json.reading import (
    from_json,
    plan_from_json,
    problem_from_json,
    read_json,
    read_plan,
)
from lowtide.formats.json.writing import json_schema, plan_to_json, problem_to_json
from lowtide.ir.plan import ArenaUse, Plan, Progress
from lowtide.ir.problem import Arena, Buffer, Problem
from strategies import plans, problems

if TYPE_CHECKING:
    from pathlib import Path


def small_plan() -> Plan:
    a = Buffer("a", 8, ((0, 3),), alignment=4, name="x", shape=(2, "n"), dtype="float32", members=("a", "v"))
    b = Buffer("b", 4, ((1, 2), (4, 6)), alignment=4, offset=16, kind="state")
    c = Buffer("c", 4, ((0, 9),), arena=2)
    problem = Problem((a, b, c), (Arena(1, capacity=64, reserved=4), Arena(2)))
    uses = (ArenaUse(1, 20, 16, 20), ArenaUse(2, 4, 4, 4))
    return Plan(problem, (4, 16, 0), uses, "auto", seconds=0.5, history=(Progress(0.25, 24, 24),))


@given(problems(descriptions=True, negative_times=True))
def test_a_problem_comes_back(problem: Problem) -> None:
    text = problem_to_json(problem)
    assert problem_from_json(text) == problem
    assert from_json(text) == problem
    assert problem_to_json(problem_from_json(text)) == text


@given(plans(descriptions=True, negative_times=True))
def test_a_plan_comes_back(plan: Plan) -> None:
    text = plan_to_json(plan)
    back = plan_from_json(text)
    assert back == plan
    assert (back.seconds, back.history) == (plan.seconds, plan.history)
    assert from_json(text) == plan
    assert plan_to_json(back) == text


@pytest.mark.parametrize("kind", ["problem", "plan"])
def test_the_schemas_are_sound(kind: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(kind))


@given(problems(descriptions=True))
def test_a_problem_keeps_to_its_schema(problem: Problem) -> None:
    validate("problem", json.loads(problem_to_json(problem)))


@given(plans(descriptions=True))
def test_a_plan_keeps_to_its_schema(plan: Plan) -> None:
    validate("plan", json.loads(plan_to_json(plan)))


def test_what_the_schema_demands_is_all_that_is_needed() -> None:
    least: dict[str, Any] = {
        "format": "lowtide.problem",
        "version": 1,
        "buffers": [{"id": "a", "size": 4, "lifetime": [[0, 1]]}],
    }
    validate("problem", least)
    assert problem_from_json(json.dumps(least)) == Problem((Buffer("a", 4, ((0, 1),)),))


def test_the_fields_of_a_plan() -> None:
    document = json.loads(plan_to_json(small_plan()))
    assert document["format"] == "lowtide.plan"
    assert document["version"] == 1
    assert document["arena_bytes"] == 24
    assert document["arenas"] == {"1": 20, "2": 4}
    assert document["live_peak_bytes"] == 20
    assert document["lower_bound_bytes"] == 24
    assert document["optimal"] is True
    assert document["history"] == [{"seconds": 0.25, "arena_bytes": 24, "lower_bound_bytes": 24}]
    first, second, _ = document["buffers"]
    assert first["offset"] == 4
    assert first["shape"] == [2, "n"]
    assert first["members"] == ["a", "v"]
    assert "pin" not in first
    assert (second["offset"], second["pin"]) == (16, 16)
    assert second["lifetime"] == [[1, 2], [4, 6]]


def test_one_buffer_a_line() -> None:
    lines = plan_to_json(small_plan()).splitlines()
    assert sum('"id": "a"' in line or '"id": "b"' in line for line in lines) == 2
    assert max(map(len, lines)) < 400


def test_object_ids_are_for_all_or_none() -> None:
    document = json.loads(plan_to_json(small_plan()))
    document["buffers"][0]["object_id"] = 3
    with pytest.raises(InputError, match=r"^<json>: buffers\[1\]\.object_id: is missing$"):
        plan_from_json(json.dumps(document))
    document["buffers"][1]["object_id"] = None
    document["buffers"][2]["object_id"] = 0
    assert plan_from_json(json.dumps(document)).object_ids == (3, None, 0)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("arena_bytes",), 99, "arena_bytes: 99, but the arenas add up to 24"),
        (("live_peak_bytes",), 0, "live_peak_bytes: 0, but the arenas add up to 20"),
        (("lower_bound_bytes",), 1, "lower_bound_bytes: 1, but the arenas add up to 24"),
        (("optimal",), False, "optimal: contradicts arena_uses"),
        (("arenas",), {"1": 24}, "arenas: contradicts arena_uses"),
        (("arenas",), {"1": 20, "2": 4.0}, "arenas['2']: 4.0 is not a whole number"),
        (
            ("arena_uses", 0, "bytes"),
            24,
            "arena_uses[0].bytes: 24 contradicts the offsets: buffer 'b' ends at 20",
        ),
        (("arena_uses", 0, "lower_bound_bytes"), 21, "arena_uses[0].lower_bound_bytes: 21 is more than"),
        (("arena_uses", 1, "id"), 3, "buffers[2].arena: arena 2 is not in arena_uses"),
        (
            ("buffers", 1, "offset"),
            32,
            "arena_uses[0].bytes: 20 contradicts the offsets: buffer 'b' ends at 36",
        ),
        (("buffers", 1, "offset"), -4, "buffers[1].offset: -4 is no place for 4 bytes"),
        (("buffers", 1, "offset"), 2**63 - 2, "is no place for 4 bytes"),
        (("buffers", 1, "pin"), 15, "not a multiple of its alignment"),
        (("seconds",), -1, "seconds: -1 is not a number of seconds"),
        (("packer",), None, "packer: null is not a string"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(
    where: tuple[str | int, ...], value: object, message: str
) -> None:
    document = json.loads(plan_to_json(small_plan()))
    at: Any = document
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = value
    with pytest.raises(InputError) as caught:
        plan_from_json(json.dumps(document), "p.json")
    assert str(caught.value).startswith("p.json: ")
    assert message in str(caught.value)


def test_a_buffer_moved_within_its_arena_is_for_the_verifier_to_find() -> None:
    document = json.loads(plan_to_json(small_plan()))
    document["buffers"][0]["offset"] = 12
    assert plan_from_json(json.dumps(document)).offsets == (12, 16, 0)


def test_a_buffer_of_no_bytes_may_end_beyond_the_arena() -> None:
    problem = Problem((Buffer("a", 4, ((0, 1),)), Buffer("empty", 0, ((0, 1),))))
    plan = Plan(problem, (0, 64), (ArenaUse(1, 4, 4, 4),), "naive")
    assert plan_from_json(plan_to_json(plan)) == plan


def test_the_wrong_kind_of_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "problem.json").write_text(problem_to_json(small_plan().problem))
    (tmp_path / "plan.json").write_text(small_plan().to_json())
    assert read_json(tmp_path / "plan.json") == small_plan() == read_plan(tmp_path / "plan.json")
    assert read_json(tmp_path / "problem.json") == small_plan().problem
    with pytest.raises(InputError, match=r"problem\.json: is a problem, but a plan is needed"):
        read_plan(tmp_path / "problem.json")


def validate(kind: Any, document: object) -> None:
    validator(kind).validate(document)


@cache
def validator(kind: Any) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema(kind))


EXTRA = {
    "toy.front_end": {"version": 2, "opcodes": [3, 1], "notes": {"why": "é", "exact": True, "ratio": 0.5}},
    "somebody.else": {"version": 1, "none": None, "big": 2**70},
}


def test_what_others_add_comes_back_whoever_knows_it() -> None:
    plan = replace(small_plan(), extra=EXTRA)
    text = plan_to_json(plan)
    jsonschema.validate(json.loads(text), json_schema("plan"))
    assert json.loads(text)["extra"] == EXTRA
    back = plan_from_json(text)
    assert back.extra == plan.extra
    assert plan_to_json(back) == text
    assert back == small_plan(), "what is added is not compared"
    assert pickle.loads(pickle.dumps(back)).extra == plan.extra


def test_nothing_added_is_nothing_written() -> None:
    assert '"extra"' not in plan_to_json(small_plan())


def test_nobody_changes_what_was_added() -> None:
    opcodes = [3, 1]
    plan = replace(small_plan(), extra={"toy": {"version": 1, "opcodes": opcodes, "more": {}}})
    opcodes.append(9)
    assert plan.extra["toy"]["opcodes"] == (3, 1)
    for change in (plan.extra, plan.extra["toy"], plan.extra["toy"]["more"]):
        with pytest.raises(TypeError):
            change["new"] = 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ([], "extra: an object|extra: a list is not an object"),
        ({"toy": []}, "extra.toy: needs fields"),
        ({"toy": {}}, "extra.toy: needs fields"),
        ({"toy": {"version": 0}}, "extra.toy: needs fields"),
        ({"toy": {"version": True}}, "extra.toy: needs fields"),
        ({"toy": {"version": "1"}}, "extra.toy: needs fields"),
    ],
)
def test_what_is_added_needs_a_version(extra: Any, message: str) -> None:
    document = json.loads(plan_to_json(small_plan())) | {"extra": extra}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json_schema("plan"))
    with pytest.raises(InputError, match=message):
        plan_from_json(json.dumps(document))


@pytest.mark.parametrize("value", [{1}, float("nan"), object(), {1: 2}])
def test_what_is_added_is_json(value: Any) -> None:
    with pytest.raises(InputError, match=r"extra\.toy\.x: "):
        replace(small_plan(), extra={"toy": {"version": 1, "x": value}})
