"""Constant folding: the same bits, a bound on growth, and nothing that varies is taken for a constant."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from lowtide.base.errors import InputError  # noqa: E402
from lowtide.transforms.folding import STEP_BYTES, fold_constants  # noqa: E402


class Model(torch.nn.Module):
    """A weight transposed for every run, a mask made of numbers, a parameter used twice, and state."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(24, 16))
        self.twice = torch.nn.Parameter(torch.randn(24))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(8, 8).tril().eq(0)
        scores = x @ self.weight.t().contiguous() + (self.twice * 2)
        self.count.add_(1)
        masked = (scores @ scores.t()).masked_fill(mask, -1.0)
        return masked + self.count + self.twice.sum() + self.count.neg()


def exported(decomposed: bool) -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    program = torch.export.export(Model(), (torch.randn(8, 16),))
    return program.run_decompositions() if decomposed else program


@pytest.mark.parametrize("decomposed", [False, True])
def test_the_same_bits_with_fewer_steps(decomposed: bool) -> None:
    program = exported(decomposed)
    folded = fold_constants(program)
    assert folded.steps
    assert {"eq", "mul"} <= folded.constants.keys()
    assert not set(folded.steps) & {node.name for node in folded.program.graph.nodes if node.users}
    one, other = copy.deepcopy(program).module(), folded.program.module()  # state is shared otherwise
    for _ in range(3):  # the state counts on
        x = torch.randn(8, 16)
        assert torch.equal(one(x), other(x))


def test_the_growth_is_that_of_the_constants() -> None:
    program = exported(True)
    folded = fold_constants(program)

    def size(program: torch.export.ExportedProgram) -> int:
        tensors = (*program.state_dict.values(), *program.constants.values())
        return sum(t.numel() * t.element_size() for t in tensors)

    assert folded.file_bytes == size(folded.program) - size(program)
    assert "weight" not in folded.program.state_dict  # its transpose is all that is used
    assert "twice" in folded.program.state_dict  # its sum is left to the runtime


def test_the_given_program_is_unchanged() -> None:
    program = exported(True)
    before = str(program.graph)
    fold_constants(program)
    assert str(program.graph) == before
    assert "weight" in program.state_dict


@pytest.mark.parametrize("limit", [0, 16, 80, 100, 10_000])
def test_a_limit_is_kept(limit: int) -> None:
    program = exported(True)
    folded = fold_constants(program, limit=limit)
    assert folded.file_bytes <= limit + STEP_BYTES * len(folded.steps)
    x = torch.randn(8, 16)
    assert torch.equal(copy.deepcopy(program).module()(x), folded.program.module()(x))


def test_more_is_folded_with_a_higher_limit() -> None:
    program = torch.export.export(Costly(), (torch.randn(2, 4),)).run_decompositions()
    steps = [len(fold_constants(program, limit=limit).steps) for limit in (0, 80, 10_000)]
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


class Draws(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(3) + torch.randn(3).abs()


def test_random_numbers_stay_random() -> None:
    program = torch.export.export(Draws(), (torch.zeros(3),))
    folded = fold_constants(program)
    assert not folded.steps
    assert folded.program is program


class Writes(torch.nn.Module):
    """A constant that is written into, through a view too: every run sees it anew."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("base", torch.zeros(4, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        row = self.base[1]
        row.add_(x)
        other = torch.ones(2)
        other.mul_(x)
        return self.base * 2 + other


@pytest.mark.parametrize("decomposed", [False, True])
def test_what_is_written_is_no_constant(decomposed: bool) -> None:
    program = torch.export.export(Writes(), (torch.ones(2),))
    program = program.run_decompositions() if decomposed else program
    folded = fold_constants(program).program.module()
    module = copy.deepcopy(program).module()
    for factor in (1.0, 2.0, 3.0):
        x = torch.full((2,), factor)
        assert torch.equal(module(x), folded(x))


class Branches(torch.nn.Module):
    """A constant that only a branch uses, and one that is computed in it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.weight.t().contiguous()
        return torch.cond(x.sum() > 0, lambda a, w: a @ w, lambda a, w: a - w.clone(), (x, scale))


def test_what_a_branch_uses_may_be_folded() -> None:
    program = torch.export.export(Branches(), (torch.ones(4, 4),)).run_decompositions()
    folded = fold_constants(program)
    for x in (torch.ones(4, 4), -torch.ones(4, 4)):
        assert torch.equal(copy.deepcopy(program).module()(x), folded.program.module()(x))


def test_a_limit_below_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="-1"):
        fold_constants(exported(True), limit=-1)


class Returned(torch.nn.Module):
    """What is computed of constants alone is returned, under a name that an input has."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 4))

    def forward(self, folded_neg: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return folded_neg + self.weight.neg(), self.weight.abs()


def test_what_is_returned_is_left_and_names_are_free() -> None:
    program = torch.export.export(Returned(), (torch.ones(3, 4),)).run_decompositions()
    folded = fold_constants(program)
    assert folded.steps == ("neg",)
    x = torch.randn(3, 4)
    for one, other in zip(program.module()(x), folded.program.module()(x), strict=True):
        assert torch.equal(one, other)


class TwoNames(torch.nn.Module):
    """One block of bytes under two names, written by one and read by the other."""

    def __init__(self) -> None:
        super().__init__()
        base = torch.arange(4.0)
        self.register_buffer("flat", base)
        self.register_buffer("square", base.view(2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.square.add_(1)
        return x + self.flat.neg()


def test_bytes_under_two_names_are_no_constant_if_one_is_written() -> None:
    program = torch.export.export(TwoNames(), (torch.ones(4),))
    assert fold_constants(program).steps == ()


def test_operators_of_others_are_left() -> None:
    with torch.library._scoped_library("lowtide_test", "DEF") as library:
        library.define("mul(Tensor x) -> Tensor")
        library.impl("mul", lambda x: x.neg() + torch.rand(()), "CPU")
        library.impl("mul", torch.empty_like, "Meta")

        class Theirs(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(2))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x + torch.ops.lowtide_test.mul(self.weight)

        program = torch.export.export(Theirs(), (torch.ones(2),))
        assert fold_constants(program).steps == ()


class Costly(torch.nn.Module):
    """A transpose that costs nothing beside an expansion that costs much."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 4))
        self.row = torch.nn.Parameter(torch.randn(1, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.row.expand(64, 16).clone()
        return (x @ self.weight.t().contiguous()).sum() + wide * x.sum()


def test_a_limit_gives_up_what_grows_and_keeps_what_is_free() -> None:
    program = torch.export.export(Costly(), (torch.randn(2, 4),)).run_decompositions()
    assert fold_constants(program).file_bytes == 64 * 16 * 4 - 16 * 4
    folded = fold_constants(program, limit=0)
    assert folded.file_bytes == 0
    assert list(folded.constants.values()) == [8 * 4 * 4]


class Unrolled(nn.Module):
    """One weight, transposed again in every step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = (x @ self.weight.t().contiguous()).relu()
        return x


def test_equal_constants_are_one_and_count_once():
    torch.manual_seed(0)
    program = torch.export.export(Unrolled(), (torch.randn(2, 8),)).run_decompositions()
    found = fold_constants(program, limit=0)
    assert list(found.constants.values()) == [256]
    assert found.file_bytes == 0
    x = torch.randn(2, 8)
    assert torch.equal(found.program.module()(x), program.module()(x))
