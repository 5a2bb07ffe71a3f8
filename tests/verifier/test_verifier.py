"""Every kind of fault is found, and named with buffers, lifetimes and bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowtide.base.errors import VerificationError, Violation
from lowtide.ir.plan import ArenaUse, Plan
from lowtide.ir.problem import Arena, Buffer, Free, Placement, Problem
from lowtide.ir.program import Call, Program
from lowtide.lifetimes.timeline import build_problem
from lowtide.pack.bounds import live_peak, lower_bound
from lowtide.pack.planner import plan_problem
from lowtide.verifier.checks import find_violations, verify
from sketch import Sketch


def plan_of(buffers: list[Buffer], offsets: list[int], **more: object) -> Plan:
    problem = Problem(tuple(buffers), **more)  # type: ignore[arg-type]
    ends: dict[int, int] = {arena.id: arena.reserved for arena in problem.arenas}
    for buffer, offset in zip(buffers, offsets, strict=True):
        ends[buffer.arena] = max(ends[buffer.arena], offset + buffer.size)
    uses = []
    for arena in problem.arenas:
        part, _ = problem.part(arena)
        bound = lower_bound(part)
        uses.append(ArenaUse(arena.id, ends[arena.id], live_peak(part), bound))
    return Plan(problem, tuple(offsets), tuple(uses), "hand")


def only(plan: Plan, against: Program | Problem | None = None) -> Violation:
    violations, _ = find_violations(plan, against)
    assert len(violations) == 1, violations
    with pytest.raises(VerificationError):
        verify(plan, against)
    return violations[0]


A = Buffer("a", 8, ((0, 4),))
B = Buffer("b", 8, ((2, 6),))
C = Buffer("c", 8, ((4, 9),))


def test_a_right_plan_reports_its_reuse() -> None:
    report = verify(plan_of([A, B, C], [0, 8, 0]))
    assert (report.buffers, report.reuse_pairs, report.followed) == (3, 1, False)


def test_overlap_names_both_with_lifetimes_and_bytes() -> None:
    fault = only(plan_of([A, B], [0, 4]))
    assert fault.kind == "overlap"
    assert fault.buffers == ("a", "b")
    assert "a (bytes 0 to 8 of arena 1, alive [0, 4))" in fault.message
    assert "b (bytes 4 to 12 of arena 1, alive [2, 6))" in fault.message


def test_holes_in_a_lifetime_may_be_used() -> None:
    holey = Buffer("holey", 8, ((0, 2), (6, 9)))
    assert verify(plan_of([holey, B], [0, 0])).reuse_pairs == 1
    assert only(plan_of([holey, C], [0, 0])).kind == "overlap"


def test_arenas_are_apart() -> None:
    assert verify(plan_of([A, replace(B, arena=2)], [0, 0])).reuse_pairs == 0


def test_zero_bytes_conflict_with_nothing() -> None:
    verify(plan_of([A, Buffer("zero", 0, ((0, 9),))], [0, 4]))


def test_misalignment() -> None:
    assert only(plan_of([replace(A, alignment=16)], [8])).kind == "alignment"


def test_above_the_capacity() -> None:
    assert only(plan_of([A, B], [0, 8], arenas=(Arena(1, capacity=12),))).kind == "capacity"


def test_below_the_reserved_prefix() -> None:
    assert only(plan_of([A, B], [8, 20], arenas=(Arena(1, reserved=10),))).kind == "reserved"


def test_a_moved_pin() -> None:
    assert only(plan_of([replace(A, offset=8)], [0])).kind == "pin"


def test_the_arena_must_hold_what_it_is_said_to() -> None:
    plan = plan_of([A, B], [0, 8])
    short = replace(plan, uses=(replace(plan.uses[0], bytes=12),))
    assert only(short).kind == "totals"


def test_a_forged_proof_is_found() -> None:
    plan = plan_of([A, B, C], [0, 8, 16])
    verify(plan)
    forged = replace(plan, uses=(replace(plan.uses[0], live_peak_bytes=3),))
    assert "said to have 3 live bytes at its peak, not 16" in str(only(forged))
    # That no plan takes less than 8 bytes is true, if weak: of what else might be allowed, say.
    verify(replace(plan, uses=(replace(plan.uses[0], lower_bound_bytes=8),)))
    assert only(replace(plan, uses=(replace(plan.uses[0], lower_bound_bytes=25),))).kind == "totals"


def test_frees_are_checked_against_the_program() -> None:
    s = Sketch()
    x = s.input("x")
    a = s.op("a", x, size=None)  # type: ignore[arg-type]
    s.op("b", a)
    s.returns(s.op("c", x))
    program = s.build()
    plan = plan_problem(build_problem(program))
    verify(plan, program)
    forgotten = replace(plan, problem=replace(plan.problem, frees=()))
    assert str(only(forgotten, program)) == "root/a must be freed after root/b"
    early = replace(plan, problem=replace(plan.problem, frees=(Free("root/a", "root", "a"),)))
    assert {v.kind for v in find_violations(early, program)[0]} == {"frees"}


def test_names_that_would_break_the_line_are_quoted() -> None:
    fault = only(plan_of([replace(A, id="a\nlowtide: ok"), B], [0, 4]))
    assert "\n" not in str(fault)


def test_pairs_may_coincide_exactly_or_not_at_all() -> None:
    verify(plan_of([A, B], [0, 0], may_coincide=(("a", "b"),)))
    assert only(plan_of([A, B], [0, 4], may_coincide=(("a", "b"),))).kind == "overlap"


def test_a_placement_keeps_its_distance() -> None:
    outer = Buffer("outer", 32, ((0, 9),))
    rules = (Placement("a", "outer", 8),)
    verify(plan_of([outer, A], [16, 24], placements=rules))
    assert only(plan_of([outer, A], [16, 40], placements=rules)).kind == "placement"


def test_object_ids_are_given_to_all_or_none() -> None:
    plan = replace(plan_of([A, B], [0, 8]), object_ids=(0, None))
    assert only(plan).kind == "objects"
    assert "b has no shared object" in str(only(plan))


def test_object_ids_follow_sharing() -> None:
    plan = plan_of([A, C], [0, 4])
    verify(replace(plan, object_ids=(0, 0)))
    fault = only(replace(plan, object_ids=(0, 1)))
    assert fault.kind == "objects"
    assert fault.buffers == ("a", "c")


def test_object_ids_where_a_small_buffer_hides_a_large_one() -> None:
    large, small, far = (
        Buffer("large", 32, ((0, 1),)),
        Buffer("small", 4, ((1, 2),)),
        Buffer("far", 4, ((2, 3),)),
    )
    plan = plan_of([large, small, far], [0, 0, 16])
    assert only(replace(plan, object_ids=(0, 0, 1))).buffers == ("large", "far")


# With the program, lifetimes are not believed.


def chain() -> Program:
    s = Sketch()
    x = s.input("x")
    a = s.op("a", x)
    b = s.op("b", x)
    s.returns(s.op("c", a, b))
    return s.build()


def test_a_lifetime_cut_short_is_found_by_the_bytes() -> None:
    program = chain()
    plan = plan_problem(build_problem(program))
    verify(plan, program)
    position = plan.position_of("root/a")
    buffers = list(plan.problem.buffers)
    buffers[position] = replace(buffers[position], lifetime=((1, 3),))  # it is read at 3
    cut = replace(plan, problem=replace(plan.problem, buffers=tuple(buffers)))
    verify(cut)  # lifetimes and offsets agree with each other ...
    fault = only(cut, program)  # ... but not with the program
    assert fault.kind == "lost"
    assert "root/c (tick 3) reads root/a" in fault.message
    assert "says that it is dead at root/c (tick 3)" in fault.message


def test_the_writer_and_the_reader_are_named() -> None:
    program = chain()
    plan = plan_problem(build_problem(program))
    offsets = list(plan.offsets)
    offsets[plan.position_of("root/b")] = plan.offset_of("root/a")
    found, _ = find_violations(replace(plan, offsets=tuple(offsets)), program)
    lost = [fault for fault in found if fault.kind == "lost"]
    assert len(lost) == 1
    assert "root/c (tick 3) reads root/a" in lost[0].message
    assert "root/b (tick 2) has written root/b" in lost[0].message


def test_a_step_may_not_write_over_what_it_reads() -> None:
    program = chain()
    plan = plan_problem(build_problem(program))
    offsets = list(plan.offsets)
    offsets[plan.position_of("root/c")] = plan.offset_of("root/a")
    found, _ = find_violations(replace(plan, offsets=tuple(offsets)), program)
    assert any("one is written while the other is read" in fault.message for fault in found)


def test_inputs_planned_although_asked_not_to_be() -> None:
    s = Sketch()
    x = s.input("x")
    s.returns(s.op("a", x))
    asked = s.build()
    told = replace(asked, storages=(replace(asked.storages[0], planned=False), *asked.storages[1:]))
    fault = only(plan_problem(build_problem(asked)), told)
    assert fault.kind == "unasked"
    assert "root/x (input) is planned although it was asked not to be" in fault.message


def test_a_storage_without_a_place() -> None:
    program = chain()
    problem = build_problem(program)
    fewer = replace(problem, buffers=problem.buffers[:-1])
    fault = only(plan_problem(fewer), program)
    assert (fault.kind, fault.buffers) == ("unplaced", ("root/c",))


def test_a_buffer_of_another_program() -> None:
    program = chain()
    problem = build_problem(program)
    more = replace(problem, buffers=(*problem.buffers, Buffer("root/ghost", 8, ((0, 1),))))
    assert only(plan_problem(more), program).kind == "unknown"


def test_a_buffer_too_small_for_its_storage() -> None:
    program = chain()
    problem = build_problem(program)
    small = replace(problem, buffers=(replace(problem.buffers[0], size=8), *problem.buffers[1:]))
    assert only(plan_problem(small), program).kind == "misfit"


def test_storages_coalesced_that_must_not_be() -> None:
    """A branch returns its own input while the input lives on: one buffer for both gives wrong numbers."""
    s = Sketch()
    p, x = s.input("p"), s.input("x")
    yes, no = s.region("yes"), s.region("no")
    result = s.new("result", kind="result")
    inner = [s.param("x", r) for r in (yes, no)]
    s.returns(inner[0], region=yes)
    s.returns(s.op("b", inner[1], region=no), region=no)
    s.step("cond", call=Call("cond", (yes, no), operands=(x,), results=(result,), selector=p))
    s.returns(s.op("use", result, x))
    program = s.build()
    problem = build_problem(program)
    verify(plan_problem(problem), program)
    x_at, r_at = (
        next(i for i, b in enumerate(problem.buffers) if n in b.members) for n in ("root/x", "root/result")
    )
    merged = replace(
        problem.buffers[x_at],
        lifetime=((0, 9),),
        members=(*problem.buffers[x_at].members, *problem.buffers[r_at].members),
    )
    rest = [b for i, b in enumerate(problem.buffers) if i not in (x_at, r_at)]
    wrong = plan_problem(replace(problem, buffers=(merged, *rest)))
    found, _ = find_violations(wrong, program)
    assert any(fault.kind == "lost" for fault in found) or any(fault.kind == "overlap" for fault in found)


def test_a_plan_of_another_problem_is_told_apart() -> None:
    asked = Problem((A, B))
    verify(plan_problem(asked), asked)
    assert only(plan_problem(Problem((A,))), asked).kind == "unplaced"
    assert only(plan_problem(Problem((A, B, C))), asked).kind == "unknown"
    shorter = Problem((A, replace(B, lifetime=((2, 5),))))
    assert "b: the plan has lifetime ((2, 5),), not ((2, 6),)" in str(only(plan_problem(shorter), asked))
