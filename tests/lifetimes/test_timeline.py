"""Exact lifetimes: what is alive when, and which storages become one buffer."""

from __future__ import annotations

import pytest

from lowtide.base.errors import LowtideError, UnsupportedError
from lowtide.ir.problem import Free, Problem
from lowtide.ir.program import Call, Program
from lowtide.lifetimes.lowering import lower
from lowtide.lifetimes.timeline import build_problem
from lowtide.pack.planner import plan_problem
from lowtide.verifier.checks import verify
from sketch import Sketch


def lifetimes(problem: Problem) -> dict[str, tuple[tuple[int, int], ...]]:
    """Lifetime of every member by its short name."""
    return {
        name.removeprefix("root/"): buffer.lifetime for buffer in problem.buffers for name in buffer.members
    }


def together(problem: Problem) -> set[frozenset[str]]:
    """The coalesced classes, by short names."""
    return {
        frozenset(name.removeprefix("root/") for name in buffer.members)
        for buffer in problem.buffers
        if len(buffer.members) > 1
    }


def planned(program: Program) -> Problem:
    """The program's problem, after its plan has passed the verifier."""
    problem = build_problem(program)
    verify(plan_problem(problem), program)
    return problem


def test_a_straight_line() -> None:
    s = Sketch()
    x = s.input("x")
    a = s.op("a", x)
    b = s.op("b", a)
    s.returns(s.op("c", b))
    found = lifetimes(planned(s.build()))
    # tick 0 is the entry, 1 to 3 the steps, 4 the exit; a step's inputs and outputs are alive together
    assert found == {"x": ((0, 2),), "a": ((1, 3),), "b": ((2, 4),), "c": ((3, 5),)}


def test_an_input_nobody_reads_is_alive_at_entry() -> None:
    s = Sketch()
    s.input("unused")
    s.returns(s.op("a", s.input("x")))
    assert lifetimes(planned(s.build()))["unused"] == ((0, 1),)


def test_what_nobody_reads_lives_at_its_step() -> None:
    s = Sketch()
    x = s.input("x")
    s.op("dead", x)
    s.returns(s.op("a", x))
    assert lifetimes(planned(s.build()))["dead"] == ((1, 2),)


def test_a_view_keeps_its_base_alive() -> None:
    s = Sketch()
    a = s.op("a", s.input("x"))
    v = s.view("v", a)
    s.op("other")
    s.returns(s.op("c", v))
    assert lifetimes(planned(s.build()))["a"] == ((1, 4),)


def test_a_value_that_may_alias_keeps_every_candidate_alive() -> None:
    s = Sketch()
    x = s.input("x")
    a, b = s.op("a", x), s.op("b", x)
    v = s.view("v", a, b)
    s.op("other")
    s.returns(s.op("c", v))
    found = lifetimes(planned(s.build()))
    assert found["a"] == ((1, 5),)
    assert found["b"] == ((2, 5),)


def test_a_partial_write_does_not_end_the_old_life() -> None:
    s = Sketch()
    x = s.input("x")
    a = s.op("a", x)
    s.step("poke", reads=(x,), partial=(a,))
    s.returns(s.op("c", a))
    assert lifetimes(planned(s.build()))["a"] == ((1, 4),)


def test_a_full_write_ends_the_old_life() -> None:
    s = Sketch()
    x = s.input("x")
    a = s.op("a", x)
    s.op("use", a)
    s.op("other", x)
    s.step("again", reads=(x,), writes=(a,))
    s.returns(s.op("c", a))
    # a is read at 2 and not needed at 3: a set of two intervals
    assert lifetimes(planned(s.build()))["a"] == ((1, 3), (4, 6))


def branches(result_size: int = 16) -> tuple[Sketch, int, int, int, int]:
    """A root with a predicate and a cond of two empty branches; returns them and the result."""
    s = Sketch()
    p = s.input("p")
    yes, no = s.region("yes"), s.region("no")
    result = s.new("result", size=result_size, kind="result")
    return s, p, yes, no, result


def test_branches_do_not_conflict_and_their_outputs_are_the_result() -> None:
    s, p, yes, no, result = branches()
    x = s.input("x")
    for region in (yes, no):
        inner = s.param("x", region)
        a = s.op("a", inner, region=region)
        s.returns(s.op("b", a, region=region), region=region)
    s.step("cond", call=Call("cond", (yes, no), operands=(x,), results=(result,), selector=p))
    s.returns(s.op("use", result))
    problem = planned(s.build())
    assert together(problem) == {frozenset({"result", "yes/b", "no/b"})}
    found = lifetimes(problem)
    # entry 0, select 1, yes 2 3 return 4, no 5 6 return 7, use 8, exit 9
    assert found["p"] == ((0, 2),)  # the predicate dies at the jump
    assert found["x"] == ((0, 3), (5, 6))  # dead in the second half of the first branch
    assert found["yes/a"] == ((2, 4),)
    assert found["no/a"] == ((5, 7),)
    assert found["result"] == ((3, 5), (6, 9))


def test_a_value_read_in_one_branch_is_dead_in_the_other() -> None:
    s, p, yes, no, result = branches()
    x, y = s.input("x"), s.input("y")
    inner = [(s.param("x", r), s.param("y", r)) for r in (yes, no)]
    s.returns(s.op("b", inner[0][0], region=yes), region=yes)
    s.returns(s.op("b", inner[1][1], region=no), region=no)
    s.step("cond", call=Call("cond", (yes, no), operands=(x, y), results=(result,), selector=p))
    s.returns(result)
    found = lifetimes(planned(s.build()))
    assert found["x"] == ((0, 3),)
    assert found["y"] == ((0, 2), (4, 5))


def test_a_branch_that_returns_an_input_that_lives_on_copies_it() -> None:
    s, p, yes, no, result = branches()
    x = s.op("x", s.input("seed"))
    inner = [s.param("x", r) for r in (yes, no)]
    s.returns(inner[0], region=yes)
    s.returns(s.op("b", inner[1], region=no), region=no)
    s.step("cond", call=Call("cond", (yes, no), operands=(x,), results=(result,), selector=p))
    s.returns(s.op("use", result, x))
    problem = planned(s.build())
    assert together(problem) == {frozenset({"result", "no/b"})}


def test_a_branch_that_returns_an_input_that_dies_is_free() -> None:
    s, p, yes, no, result = branches()
    x = s.op("x", s.input("seed"))
    inner = [s.param("x", r) for r in (yes, no)]
    s.returns(inner[0], region=yes)
    s.returns(s.op("b", inner[1], region=no), region=no)
    s.step("cond", call=Call("cond", (yes, no), operands=(x,), results=(result,), selector=p))
    s.returns(s.op("use", result))
    # x itself becomes the result; b cannot be in the same place, for the step that makes it reads x
    classes = together(planned(s.build()))
    assert len(classes) == 1
    assert next(iter(classes)) in ({"result", "x"}, {"result", "no/b"})


def test_a_branch_that_returns_one_value_twice_copies_it_once() -> None:
    s, p, yes, no, result = branches()
    other = s.new("other", kind="result")
    x = s.input("x")
    inner = [s.param("x", r) for r in (yes, no)]
    a = s.op("a", inner[0], region=yes)
    s.returns(a, a, region=yes)
    s.returns(s.op("b", inner[1], region=no), s.op("c", inner[1], region=no), region=no)
    call = Call("cond", (yes, no), operands=(x,), results=(result, other), selector=p)
    s.step("cond", call=call)
    s.returns(s.op("use", result, other))
    problem = planned(s.build())
    holders = [c for c in together(problem) if "yes/a" in c]
    assert len(holders) == 1
    assert len({"result", "other"} & holders[0]) == 1


def loop(outputs: str) -> Program:
    """while with carries (i, a, b); the body returns what ``outputs`` names."""
    s = Sketch()
    init = [s.op(f"init_{k}") for k in "iab"]
    carries = [s.new(k, kind="carry") for k in "iab"]
    condition, body = s.region("condition"), s.region("body")
    before = [s.param(k, condition) for k in "iab"]
    s.returns(s.op("go", before[0], region=condition), region=condition)
    inside = dict(zip("iab", [s.param(k, body) for k in "iab"], strict=True))
    inside["n"] = s.op("n", inside["i"], region=body)
    inside["m"] = s.op("m", inside["a"], region=body)
    s.returns(*(inside[k] for k in outputs), region=body)
    s.step("loop", call=Call("while", (condition, body), carries=tuple(carries), inits=tuple(init)))
    s.returns(s.op("use", carries[1], carries[2]))
    return s.build()


def test_swapped_carries_are_not_coalesced_with_each_other() -> None:
    problem = planned(loop("nba"))
    for names in together(problem):
        assert len(names & {"a", "b"}) <= 1
    assert any({"a", "init_a"} <= names for names in together(problem))


def test_a_carry_that_stays_costs_nothing() -> None:
    problem = planned(loop("nab"))
    assert any({"b", "init_b"} == set(names) for names in together(problem))


def test_captured_values_live_through_every_iteration() -> None:
    s = Sketch()
    captured = s.op("captured")
    init = s.op("init")
    carry = s.new("carry", kind="carry")
    condition, body = s.region("condition"), s.region("body")
    p = [s.param(k, condition) for k in ("carry", "captured")]
    s.returns(s.op("go", p[0], region=condition), region=condition)
    q = [s.param(k, body) for k in ("carry", "captured")]
    first = s.op("first", q[1], region=body)  # read at the start of an iteration only
    s.returns(s.op("last", q[0], first, region=body), region=body)
    call = Call("while", (condition, body), operands=(captured,), carries=(carry,), inits=(init,))
    s.step("loop", call=call)
    s.returns(s.op("use", carry))
    program = s.build()
    flow = lower(program)
    ((_, _, body_end),) = [span for span in flow.spans if span[0] == body]
    assert lifetimes(planned(program))["captured"] == ((1, body_end),)


def test_a_stacked_result_lives_from_the_start_of_the_call() -> None:
    s = Sketch()
    xs = s.input("xs", size=64)
    stacked = s.new("ys", size=64, kind="result")
    body = s.region("body")
    a = s.op("a", s.param("x", body), region=body)
    s.returns(s.op("y", a, region=body), region=body)
    s.op("before", xs)
    s.step("map", call=Call("scan", (body,), slices=(xs,), results=(stacked,)))
    s.returns(s.op("use", stacked))
    problem = planned(s.build())
    # entry 0, before 1, begin 2, next 3, a 4, y 5, back 6, use 7
    assert lifetimes(problem)["ys"] == ((2, 8),)
    assert lifetimes(problem)["xs"] == ((0, 7),)  # every iteration sees a slice of it
    assert together(problem) == set()


def test_a_region_called_twice_has_one_set_of_offsets_alive_at_both_calls() -> None:
    s = Sketch()
    x = s.input("x")
    shared = s.region("shared")
    inner = s.op("a", s.param("x", shared), region=shared, size=32)
    s.returns(s.op("b", inner, region=shared), region=shared)
    results = [s.new(f"r{k}", kind="result") for k in range(2)]
    s.step("call0", call=Call("call", (shared,), operands=(x,), results=(results[0],)))
    s.op("between", x, size=64)
    s.step("call1", call=Call("call", (shared,), operands=(results[0],), results=(results[1],)))
    s.returns(s.op("use", *results))
    problem = planned(s.build())
    found = lifetimes(problem)
    # entry 0; call0: a 1, b 2, return 3; between 4; call1: a 5, b 6, return 7; use 8
    assert found["shared/a"] == ((1, 3), (5, 7))
    # both results are alive at the end, so only one of them can be b itself
    assert [len({"r0", "r1"} & names) for names in together(problem)] == [1]


def test_nested_results_escape_to_the_root() -> None:
    s, p, yes, no, result = branches()
    x = s.input("x")
    inner_result = s.new("inner", yes, kind="result")
    deep = [s.region(name, yes) for name in ("deep_yes", "deep_no")]
    top = s.param("x", yes)
    for region in deep:
        s.returns(s.op("d", s.param("x", region), region=region), region=region)
    s.step(
        "cond", yes, call=Call("cond", tuple(deep), operands=(top,), results=(inner_result,), selector=top)
    )
    s.returns(inner_result, region=yes)
    s.returns(s.op("b", s.param("x", no), region=no), region=no)
    s.step("cond", call=Call("cond", (yes, no), operands=(x,), results=(result,), selector=p))
    later = s.op("later", x, size=160)
    s.op("far", later)
    s.returns(s.op("use", result))
    problem = planned(s.build())
    assert together(problem) == {
        frozenset({"result", "yes/inner", "yes/deep_yes/d", "yes/deep_no/d", "no/b"})
    }
    (buffer,) = [b for b in problem.buffers if len(b.members) == 5]
    assert buffer.region == "root"  # it belongs to the outermost region that uses it


def test_state_is_always_alive_and_its_writeback_is_coalesced_where_it_can_be() -> None:
    s = Sketch()
    state = s.new("state", kind="state", persistent=True)
    x = s.input("x")
    old = s.op("old", state)
    new = s.op("new", x)  # made after the last read of the old state: can be the state itself
    s.writebacks.append((state, new))
    s.returns(old)
    problem = planned(s.build())
    assert together(problem) == {frozenset({"state", "new"})}
    assert lifetimes(problem)["state"] == ((0, 5),)


def test_a_writeback_that_the_state_is_read_for_stays_a_copy() -> None:
    s = Sketch()
    state = s.new("state", kind="state", persistent=True)
    new = s.op("new", state)
    s.writebacks.append((state, new))
    s.returns(s.op("out", new))
    assert together(planned(s.build())) == set()


def test_unbounded_values_are_freed_after_their_last_use() -> None:
    s = Sketch()
    x = s.input("x")
    a = s.op("a", x, size=None)  # type: ignore[arg-type]
    v = s.view("v", a)
    b = s.op("b", v, size=None)  # type: ignore[arg-type]
    s.op("c", b)
    kept = s.op("kept", x, size=None)  # type: ignore[arg-type]
    s.returns(kept)
    problem = planned(s.build())
    assert {name for buffer in problem.buffers for name in buffer.members} == {"root/x", "root/c"}
    assert problem.frees == (Free("root/a", "root", "b"), Free("root/b", "root", "c"))


def test_an_unbounded_result_is_freed_by_its_receiver() -> None:
    s, p, yes, no, _ = branches()
    result = s.new("r", size=None, kind="result")
    x = s.input("x")
    for region in (yes, no):
        a = s.op("a", s.param("x", region), region=region, size=None)  # type: ignore[arg-type]
        s.returns(s.op("b", a, region=region, size=None), region=region)  # type: ignore[arg-type]
    s.step("cond", call=Call("cond", (yes, no), operands=(x,), results=(result,), selector=p))
    s.returns(s.op("use", result))
    frees = planned(s.build()).frees
    assert Free("root/yes/a", "root/yes", "b") in frees
    assert Free("root/r", "root", "use") in frees
    assert not any(free.buffer.endswith("/b") for free in frees)


def test_a_captured_value_is_freed_after_the_call_that_reads_it() -> None:
    s = Sketch()
    x = s.input("x")
    u = s.op("u", x, size=None)  # type: ignore[arg-type]
    child = s.region("child")
    s.returns(s.op("read", u, region=child), region=child)  # no operand: the caller's value by name
    result = s.new("r", kind="result")
    s.step("call", call=Call("call", (child,), results=(result,)))
    s.returns(result)
    assert planned(s.build()).frees == (Free("root/u", "root", "call"),)


def test_regions_nest_deep() -> None:
    s = Sketch()
    outer = 0
    for depth in range(1500):
        inner = s.region(f"r{depth}", outer)
        s.names[inner] = f"root/r{depth}"  # short names: full ones would be quadratic
        s.step("call", outer, call=Call("call", (inner,)))
        outer = inner
    s.step("use", outer, reads=(s.op("deep", region=outer),))
    views = [s.input("x")]
    for depth in range(3000):
        views.append(s.view(f"v{depth}", views[-1]))
    s.returns(s.op("out", views[-1]))
    problem = planned(s.build())
    assert {b.name for b in problem.buffers} == {"root/x", "root/out", "root/r1499/deep"}


def test_recursion_is_refused() -> None:
    s = Sketch()
    region = s.region("again")
    s.step("call", region, call=Call("call", (region,)))
    s.step("call", call=Call("call", (region,)))
    with pytest.raises(UnsupportedError, match="root/again calls itself"):
        lower(s.build())


def test_calls_that_multiply_beyond_the_limit_are_refused() -> None:
    s = Sketch()
    regions = [s.region(f"r{k}") for k in range(12)]
    for outer, inner in zip([0, *regions], regions, strict=False):
        s.step("first", outer, call=Call("call", (inner,)))
        s.step("second", outer, call=Call("call", (inner,)))
    with pytest.raises(UnsupportedError, match="more than 1000 program points"):
        lower(s.build(), point_limit=1000)


def test_a_call_that_does_not_fit_its_region_is_refused() -> None:
    s = Sketch()
    region = s.region("r")
    s.param("x", region)
    s.step("call", call=Call("call", (region,)))
    with pytest.raises(LowtideError, match="takes 1 values and is called with 0"):
        lower(s.build())
