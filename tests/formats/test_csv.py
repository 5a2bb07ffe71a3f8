"""CSV: every dialect that MiniMalloc reads, the columns that a problem needs, and clear refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from lowtide.base.errors import InputError, UnsupportedError
from lowtide.base.files import read_text
from lowtide.formats.csv.reading import problem_from_csv, read_csv
from lowtide.formats.csv.writing import plan_to_csv, problem_to_csv
from lowtide.ir.plan import ArenaUse, Plan
from lowtide.ir.problem import Arena, Buffer, Placement, Problem
from strategies import plans, problems

BENCHMARKS = sorted((Path(__file__).parents[2] / "benchmarks" / "data").glob("*/*.csv"))


def test_the_simplest_dialect() -> None:
    problem = problem_from_csv("id,lower,upper,size\nb1,0,3,4\nb2,3,9,8\n")
    assert problem == Problem((Buffer("b1", 4, ((0, 3),)), Buffer("b2", 8, ((3, 9),))))


@pytest.mark.parametrize("id", ["id", "buffer", "buffer_id"])
@pytest.mark.parametrize("lower", ["lower", "begin", "start"])
@pytest.mark.parametrize(("upper", "last"), [("upper", 9), ("end", 8)])
def test_every_name_of_a_column(id: str, lower: str, upper: str, last: int) -> None:
    problem = problem_from_csv(f"size,{upper},{lower},{id}\n4,{last},3,x\n")
    assert problem.buffers == (Buffer("x", 4, ((3, 9),)),)


@pytest.mark.parametrize(
    ("upper", "gaps", "lifetime"),
    [
        ("upper", "", ((0, 10),)),
        ("upper", "4-6", ((0, 4), (6, 10))),
        ("end", "4-6", ((0, 4), (7, 11))),
        ("upper", "6-8 2-3", ((0, 2), (3, 6), (8, 10))),
        ("upper", " 2-3  3-5 ", ((0, 2), (5, 10))),
        ("upper", "2-5 4-6", ((0, 2), (6, 10))),
        ("upper", "0-2 9-10", ((2, 9),)),
    ],
)
def test_gaps_are_holes_in_the_lifetime(upper: str, gaps: str, lifetime: tuple[tuple[int, int], ...]) -> None:
    problem = problem_from_csv(f"id,lower,{upper},size,gaps\nx,0,10,4,{gaps}\n")
    assert problem.buffers[0].lifetime == lifetime


def test_gaps_at_negative_times() -> None:
    problem = problem_from_csv("id,lower,upper,size,gaps\nx,-9,9,4,-7--5 -1-2\n")
    assert problem.buffers[0].lifetime == ((-9, -7), (-5, -1), (2, 9))


def test_a_gap_with_a_window_is_refused_by_name() -> None:
    text = "id,lower,upper,size,gaps\na,0,9,4,\nx,0,9,4,2-3 4-6@0:32\n"
    with pytest.raises(UnsupportedError, match=r"^f\.csv: line 3: buffer 'x': gap '4-6@0:32' has a window"):
        problem_from_csv(text, "f.csv")


def test_offsets_are_pins_only_on_request() -> None:
    text = "id,lower,upper,size,offset\na,0,9,4,16\nb,0,9,4,\n"
    assert [b.offset for b in problem_from_csv(text).buffers] == [None, None]
    assert [b.offset for b in problem_from_csv(text, pins=True).buffers] == [16, None]
    with pytest.raises(InputError, match="no column 'offset'"):
        problem_from_csv("id,lower,upper,size\na,0,9,4\n", pins=True)


def test_a_hint_is_accepted_and_ignored() -> None:
    plain = problem_from_csv("id,lower,upper,size\na,0,9,4\n")
    assert problem_from_csv("id,lower,upper,size,hint\na,0,9,4,-1\n") == plain


def test_blank_cells_mean_the_default() -> None:
    text = (
        "id,lower,upper,size,alignment,gaps,arena,name,kind,region\n"
        "a,0,9,4,,,,,,\n"
        "b,0,9,4,8,1-2,3,n,state,r\n"
    )
    plain, full = problem_from_csv(text).buffers
    assert plain == Buffer("a", 4, ((0, 9),))
    assert full == Buffer("b", 4, ((0, 1), (2, 9)), 8, arena=3, name="n", kind="state", region="r")


def test_what_spreadsheets_add_is_forgiven() -> None:
    text = 'ID, Lower ,Upper,Size\r\n\r\n"a,b", 0 ,+9,4\r\n\r\n'
    assert problem_from_csv(text).buffers == (Buffer("a,b", 4, ((0, 9),)),)


def test_lines_are_counted_through_quoted_line_ends() -> None:
    with pytest.raises(InputError, match=r"^<csv>: line 5: buffer 'b': size 'four' is not a whole number$"):
        problem_from_csv('id,lower,upper,size\n"a\na",0,9,4\n\nb,0,9,four\n')


def test_only_the_columns_that_are_needed_are_written() -> None:
    simple = Buffer("a", 4, ((0, 3),))
    assert problem_to_csv(Problem((simple,))) == "id,lower,upper,size\na,0,3,4\n"
    rich = Buffer(
        "b", 8, ((1, 2), (4, 6)), alignment=16, arena=2, offset=32, name="x,y", kind="state", region="r"
    )
    assert problem_to_csv(Problem((simple, rich))) == (
        "id,lower,upper,size,alignment,gaps,arena,name,kind,region,offset\n"
        "a,0,3,4,1,,1,,temporary,root,\n"
        'b,1,6,8,16,2-4,2,"x,y",state,r,32\n'
    )


def test_a_plan_has_offsets() -> None:
    problem = Problem((Buffer("a", 4, ((0, 3),)), Buffer("b", 8, ((1, 2),))), (Arena(1, capacity=64),))
    plan = Plan(problem, (8, 0), (ArenaUse(1, 12, 12, 12),), "naive")
    assert plan_to_csv(plan) == "id,lower,upper,size,offset\na,0,3,4,8\nb,1,2,8,0\n"


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ({"may_coincide": (("a", "b"),)}, "'a' and 'b' may coincide"),
        ({"placements": (Placement("a", "b", 0),)}, "'a' lies inside 'b'"),
        ({"arenas": (Arena(1, capacity=99),)}, "the capacity of arena 1"),
        ({"arenas": (Arena(1, reserved=9),)}, "the reserved bytes of arena 1"),
    ],
)
def test_a_rule_is_not_lost_unasked(extra: dict[str, tuple[object, ...]], why: str) -> None:
    buffers = (Buffer("a", 4, ((0, 3),)), Buffer("b", 4, ((0, 3),)))
    problem = replace(Problem(buffers), **extra)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"CSV cannot carry .*{why}: write JSON, or allow the loss"):
        problem_to_csv(problem)
    assert problem_from_csv(problem_to_csv(problem, lossy=True)) == Problem(buffers)


def test_a_plan_does_not_hide_why_live_buffers_share_bytes() -> None:
    buffers = (Buffer("a", 4, ((0, 3),)), Buffer("b", 4, ((0, 3),)))
    plan = Plan(Problem(buffers, may_coincide=(("a", "b"),)), (0, 0), (ArenaUse(1, 4, 8, 4),), "auto")
    with pytest.raises(InputError, match="may coincide"):
        plan_to_csv(plan)
    assert plan_to_csv(plan, lossy=True).endswith("\nb,0,3,4,0\n")


@given(problems(descriptions=True, negative_times=True))
def test_a_round_trip_keeps_all_that_csv_carries(problem: Problem) -> None:
    pinned = any(buffer.offset is not None for buffer in problem.buffers)
    described = [
        replace(b, dtype=None, shape=None, operator=None, source=None, members=()) for b in problem.buffers
    ]
    back = problem_from_csv(problem_to_csv(problem, lossy=True), pins=pinned)
    assert back == Problem(tuple(described))


@given(plans(holes=True, permissions=False))
def test_the_offsets_of_a_plan_come_back_as_pins(plan: Plan) -> None:
    back = problem_from_csv(plan_to_csv(plan), pins=True)
    assert tuple(buffer.offset for buffer in back.buffers) == plan.offsets


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_benchmark_is_written_as_it_was(path: Path) -> None:
    text = read_text(path)
    problem = problem_from_csv(text)
    assert len(problem.buffers) == text.count("\n") - 1
    assert problem_to_csv(problem) == text


def test_a_file_is_named_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("id,lower,upper,size\na,0,1,4\na,2,3,4\n")
    with pytest.raises(InputError) as caught:
        read_csv(path)
    assert str(caught.value) == f"{path}: line 3: buffer 'a' is in line 2 already: ids must be unique"
