"""What a replay says: whose error it is, and how far apart two tensors are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

import lowtide  # noqa: E402
from exports import Lambda  # noqa: E402
from lowtide.base.errors import ProgramError, ReplayError  # noqa: E402
from lowtide.replay import EagerDifference, replay  # noqa: E402
from lowtide.replay.compare import in_words, largest_difference  # noqa: E402

X = torch.arange(1.0, 5.0)


def exported(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(Lambda(function), inputs)


# The program's own errors.


def test_a_program_that_raises_is_said_to() -> None:
    inputs = (X, torch.tensor([7]))
    program = exported(lambda x, i: x[i] * 2, *inputs)
    message = r"^root/index: the program itself raises here, whatever its plan: IndexError: index 7 is out"
    with pytest.raises(ProgramError, match=message) as caught:
        replay(program, lowtide.plan(program), inputs)
    assert "\n" not in str(caught.value)
    assert replay(program, lowtide.plan(program), (X, torch.tensor([3]))).runs == 2


def test_a_program_that_breaks_its_own_bound_is_said_to() -> None:
    """PyTorch bounds the result by the elements of the tensor alone, and the mask has more."""
    column, mask = torch.randn(4, 1), torch.ones(4, 4) > 0
    program = exported(lambda x, m: torch.masked_select(x * 1.0, m) * 2, column, mask)
    plan = lowtide.plan(program)
    message = "^root/masked_select spans 64 bytes in this run, .* that it never spans more than 16: "
    with pytest.raises(ProgramError, match=message):
        replay(program, plan, (column, mask))
    assert replay(program, plan, (column, mask & (torch.arange(4) < 1))).runs == 2


def test_a_layout_that_only_eager_refuses() -> None:
    program = exported(lambda x: x.view(12) * 2, torch.rand(3, 4))
    with pytest.raises(ProgramError, match=r"^run 0: eager PyTorch raises, whatever .*: RuntimeError: view"):
        replay(program, lowtide.plan(program), (torch.rand(4, 3).t(),))


def test_the_command_line_exits_2_for_them(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowtide.cli.app import main

    torch.export.save(exported(lambda x, i: x[i] * 2, X, torch.tensor([7])), tmp_path / "raises.pt2")
    monkeypatch.setattr("sys.argv", ["lowtide", "replay", str(tmp_path / "raises.pt2")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2


# Plans with too little room.


def test_what_is_too_small_is_named() -> None:
    program = exported(lambda x: x * 2 + 1, X)
    plan = lowtide.plan(program)
    position = plan.position_of("root/mul")
    offsets = tuple(4096 if i == position else offset for i, offset in enumerate(plan.offsets))
    with pytest.raises(ReplayError, match=r"^root/mul takes bytes 4096 to 4112, outside its arena of \d+$"):
        replay(program, replace(plan, offsets=offsets), (X,))
    buffers = list(plan.problem.buffers)
    buffers[position] = replace(buffers[position], size=8)
    small = replace(plan, problem=replace(plan.problem, buffers=tuple(buffers)))
    with pytest.raises(ReplayError, match=r"^root/mul needs 16 bytes; the plan gives it 8$"):
        replay(program, small, (X,))
    offsets = tuple(offset + 4 * (i == position) for i, offset in enumerate(plan.offsets))
    roomy = tuple(replace(use, bytes=use.bytes + 16) for use in plan.uses)
    with pytest.raises(ReplayError, match=r"^root/mul is at \d+, not at a multiple of 16$"):
        replay(program, replace(plan, offsets=offsets, uses=roomy), (X,))


# Undefined bytes.


@pytest.mark.parametrize(
    ("function", "undefined"),
    [
        (lambda x: (torch.empty_like(x), x + 1), (0,)),
        (lambda x: (x + 1, torch.empty_like(x)[1:]), (1,)),
        (lambda x: (x + 1, x.new_empty(4).fill_(2)), ()),
        (lambda x: torch.empty_like(x) * 0, ()),
    ],
    ids=["output", "view", "filled", "read"],
)
def test_undefined_outputs_are_told_and_are_no_difference(
    function: Callable[..., Any], undefined: tuple[int, ...]
) -> None:
    program = exported(function, X)
    report = replay(program, lowtide.plan(program), (X,))
    assert (report.undefined, report.eager_differences) == (undefined, ())


def test_undefined_outputs_on_the_command_line(tmp_path: Any) -> None:
    from lowtide.cli.app import app

    torch.export.save(exported(lambda x: (torch.empty_like(x), x + 1), X), tmp_path / "empty.pt2")
    said = CliRunner().invoke(app, ["replay", str(tmp_path / "empty.pt2")]).output
    assert "output 0: undefined bytes, which the program makes and never writes" in said


def test_complex_composites_are_computed_as_they_are() -> None:
    """Under a dispatch mode PyTorch computes them otherwise."""
    c = torch.complex(torch.rand(2, 4), torch.rand(2, 4))
    for decompose in (False, True):
        program = exported(lambda c: (torch.linalg.vecdot(c * 1, c + 1), torch.vdot(c[0], c[1] * 2)), c)
        program = program.run_decompositions() if decompose else program
        assert replay(program, lowtide.plan(program), (c,)).eager_differences == ()


# How far apart.


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([1.0, float("nan")], [1.0, 2.0], "by NaN where the other has a number"),
        ([float("nan"), 1.5], [float("nan"), 1.0], "by 0.5"),
        ([float("inf"), 1.0], [float("inf"), 1.0], "only in the sign of a zero or the payload of a NaN"),
        ([float("inf")], [1.0], "by inf"),
        ([0.0], [-0.0], "only in the sign of a zero or the payload of a NaN"),
        ([2**60 + 1], [2**60], "by 1"),
        ([True], [False], "by 1"),
        ([3 + 4j], [0j], "by 5"),
    ],
    ids=str,
)
def test_differences_in_words(a: list[Any], b: list[Any], words: str) -> None:
    found = largest_difference(torch.tensor(a), torch.tensor(b))
    assert in_words(found) == words
    assert words.removeprefix("by ") in str(EagerDifference(0, 1, found))
