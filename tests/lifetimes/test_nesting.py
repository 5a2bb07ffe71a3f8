"""Parts inside wholes: where a copy costs nothing, and where it must not be left out."""

from __future__ import annotations

from lowtide.ir.problem import Problem
from lowtide.ir.program import Match, Program, Region, Step, Storage, Value
from lowtide.lifetimes.timeline import build_problem
from lowtide.pack.planner import plan_problem
from lowtide.verifier.checks import verify


class Sketch:
    """A program of one region, written down step by step; every storage's layout is plain."""

    def __init__(self, alignment: int = 4, **inputs: int) -> None:
        self.alignment = alignment
        self.storages: list[Storage] = []
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.at: dict[str, int] = {}
        for name, size in inputs.items():
            self.own(name, size, "input")

    def own(self, name: str, size: int, kind: str = "temporary") -> int:
        self.storages.append(Storage(f"root/{name}", size, kind, alignment=self.alignment))  # type: ignore[arg-type]
        self.values.append(Value(f"root/{name}", 0, len(self.storages) - 1, layout="C"))
        self.at[name] = len(self.values) - 1
        return self.at[name]

    def step(self, operator: str, made: dict[str, int], *reads: str, **matches: tuple[str, int]) -> None:
        """``part=(whole, distance)`` for each match."""
        writes = tuple(self.own(name, size) for name, size in made.items())
        self.steps.append(
            Step(
                f"{operator}{len(self.steps)}",
                operator,
                reads=tuple(self.at[name] for name in reads),
                writes=writes,
                matches=tuple(
                    Match(self.at[inner], self.at[outer], by) for inner, (outer, by) in matches.items()
                ),
            )
        )

    def update(self, target: str) -> None:
        self.steps.append(Step(f"update{len(self.steps)}", "update", partial=(self.at[target],)))

    def done(self, *outputs: str) -> Program:
        inputs = tuple(i for i, v in enumerate(self.values) if self.storages[v.storage or 0].kind == "input")
        region = Region("root", inputs, tuple(self.steps), tuple(self.at[name] for name in outputs))
        return Program((region,), tuple(self.values), tuple(self.storages))


def problem_of(program: Program) -> Problem:
    """With copies left out; a plan of it is verified."""
    problem = build_problem(program, elide_copies=True)
    verify(plan_problem(problem), program)
    return problem


def placed(program: Program) -> set[tuple[str, str, int]]:
    strip = len("root/")
    return {(p.inner[strip:], p.outer[strip:], p.distance) for p in problem_of(program).placements}


def joined() -> Sketch:
    sketch = Sketch(x=8)
    sketch.step("make", {"a": 8}, "x")
    sketch.step("make", {"b": 8}, "x")
    sketch.step("cat", {"whole": 16}, "a", "b", a=("whole", 0), b=("whole", 8))
    return sketch


def test_parts_lie_in_their_whole() -> None:
    sketch = joined()
    sketch.step("use", {"y": 4}, "whole")
    assert placed(sketch.done("y")) == {("a", "whole", 0), ("b", "whole", 8)}


def test_a_part_that_is_read_later_may_stay_inside() -> None:
    sketch = joined()
    sketch.step("use", {"y": 4}, "whole", "a")
    assert placed(sketch.done("y")) == {("a", "whole", 0), ("b", "whole", 8)}


def test_a_part_that_is_written_while_the_whole_lives_is_outside() -> None:
    sketch = joined()
    sketch.update("a")
    sketch.step("use", {"y": 4}, "whole", "a")
    assert placed(sketch.done("y")) == {("b", "whole", 8)}


def test_a_whole_that_is_written_while_a_part_lives_has_it_not_inside() -> None:
    sketch = joined()
    sketch.update("whole")
    sketch.step("use", {"y": 4}, "whole", "b")
    assert placed(sketch.done("y")) == {("a", "whole", 0)}


def test_one_part_twice_lies_in_at_most_one_place() -> None:
    sketch = Sketch(x=8)
    sketch.step("make", {"a": 8}, "x")
    sketch.steps.append(
        Step(
            "cat",
            "cat",
            reads=(sketch.at["a"],),
            writes=(sketch.own("whole", 16),),
            matches=(Match(1, 2, 0), Match(1, 2, 8)),
        )
    )
    assert placed(sketch.done("whole")) == set()


def test_one_part_of_two_wholes_lies_in_one() -> None:
    sketch = Sketch(x=8)
    sketch.step("make", {"a": 8}, "x")
    sketch.step("cat", {"first": 16}, "a", "x", a=("first", 0))
    sketch.step("cat", {"second": 16}, "a", "x", a=("second", 8))
    sketch.step("use", {"y": 4}, "first", "second")
    assert len(placed(sketch.done("y"))) == 1


def test_a_whole_that_is_cut_has_its_parts_inside() -> None:
    sketch = Sketch(x=8)
    sketch.step("make", {"whole": 16}, "x")
    sketch.step("split", {"a": 8, "b": 8}, "whole", a=("whole", 0), b=("whole", 8))
    sketch.step("use", {"y": 4}, "a", "b")
    assert placed(sketch.done("y")) == {("a", "whole", 0), ("b", "whole", 8)}


def test_parts_of_parts_lie_in_the_outermost() -> None:
    sketch = joined()
    sketch.step("cat", {"all": 32}, "x", "whole", whole=("all", 16))
    assert placed(sketch.done("all")) == {("a", "whole", 0), ("b", "whole", 8), ("whole", "all", 16)}


def test_what_is_not_aligned_inside_is_outside() -> None:
    sketch = Sketch(alignment=16, x=16)
    sketch.step("make", {"a": 16}, "x")
    sketch.step("cat", {"whole": 48}, "a", "x", a=("whole", 8))
    assert placed(sketch.done("whole")) == set()


def test_sizes_that_are_equal_when_rounded_up_are_no_copy_of_the_whole() -> None:
    """Two numbers that a concatenation puts behind others are not one buffer with it, if alignment hides that
    they are fewer."""
    sketch = Sketch(alignment=64, x=64)
    sketch.step("make", {"a": 64}, "x")
    sketch.step("cat", {"whole": 64}, "a", "x", a=("whole", 12))
    problem = problem_of(sketch.done("whole"))
    assert not problem.placements
    assert all(len(buffer.members) == 1 for buffer in problem.buffers)


def test_a_clone_is_one_buffer_with_what_it_copies() -> None:
    sketch = Sketch(x=8)
    sketch.step("make", {"a": 8}, "x")
    sketch.step("clone", {"b": 8}, "a", b=("a", 0))
    sketch.step("use", {"y": 4}, "a", "b")
    (shared,) = (b for b in problem_of(sketch.done("y")).buffers if len(b.members) > 1)
    assert set(shared.members) == {"root/a", "root/b"}


def test_a_part_matched_at_two_distances_by_ways_around_is_refused() -> None:
    """``a`` is in the middle of ``whole`` by one copy, and in front by another and a clone in between."""
    sketch = Sketch(x=8)
    sketch.step("make", {"a": 8}, "x")
    sketch.step("clone", {"b": 8}, "a", b=("a", 0))
    sketch.step("cat", {"whole": 16}, "b", "a", b=("whole", 0), a=("whole", 8))
    sketch.step("use", {"y": 4}, "whole")
    assert len(placed(sketch.done("y"))) <= 1
