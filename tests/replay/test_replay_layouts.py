"""Where elements lie: inputs in any layout, offsets that count from a storage, dimensions of one element."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import lowtide  # noqa: E402
from exports import Lambda  # noqa: E402
from lowtide.base.errors import InputError, UnsupportedError  # noqa: E402
from lowtide.operators.sizes import layout_key, overlaps_itself, same_places  # noqa: E402
from lowtide.replay import ReplayReport, replay  # noqa: E402

ROW = torch.arange(20.0)
TOGETHER = {"in_place": True, "elide_copies": True}


def run(function: Callable[..., Any], *inputs: Any, given: Any = None, **request: Any) -> ReplayReport:
    """Export with some inputs, plan, verify, and replay with these or with other ones."""
    exported = torch.export.export(Lambda(function), inputs)
    plan = lowtide.plan(exported, packer="first-fit", **request)
    assert lowtide.verify(plan, exported, **request).followed
    report = replay(exported, plan, inputs if given is None else given, **request)
    assert report.eager_differences == ()
    return report


# Dimensions of one element have strides that kernels and their fakes do not agree on.


def _turned(x: torch.Tensor) -> torch.Tensor:
    y = (x * 1.0).t()
    z = y + 1
    return z * 2 - z


def _turned_in_a_branch(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda y: (y * 1.0).t().exp() + 1, lambda y: y.t() + 2, (x,)) * 3


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1, 1)])
@pytest.mark.parametrize("function", [_turned, _turned_in_a_branch], ids=lambda f: f.__name__)
def test_dimensions_of_one_element(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    run(function, torch.rand(shape), **TOGETHER)


def test_a_symbolic_dimension_that_is_one_in_this_run() -> None:
    shapes = (({0: torch.export.Dim("n", min=1, max=8)},),)
    example, single = torch.rand(4, 3), torch.rand(1, 3)
    exported = torch.export.export(Lambda(_turned), (example,), dynamic_shapes=shapes)
    plan = lowtide.plan(exported, **TOGETHER)
    for given in (example, single):
        assert replay(exported, plan, (given,), **TOGETHER).eager_differences == ()


def test_layouts_are_told_apart_by_what_can_be_seen() -> None:
    one = torch.empty_strided((3, 1, 2), (1, 7, 3))
    other = torch.empty_strided((3, 1, 2), (1, 99, 3))
    third = torch.empty_strided((2, 1, 3), (1, 7, 2))
    assert layout_key(one, 24) == layout_key(other, 24) != layout_key(third, 24)
    assert same_places(one, other)
    assert not same_places(one, third)


# Offsets that count from the start of a storage.


def _absolute(x: torch.Tensor) -> torch.Tensor:
    a, y = x + 1, x * 2
    return torch.as_strided(y, (2,), (1,), 1) + a.sum()


def _absolute_of_a_view(x: torch.Tensor) -> torch.Tensor:
    a, y = x + 1, x * 2
    return torch.as_strided(y[4:].view(4, 4).t(), (3, 2), (2, 5), 3) + a.sum()


def _absolute_and_written(x: torch.Tensor) -> torch.Tensor:
    a, y = x + 1, x * 2
    torch.as_strided(y[2:], (2,), (3,), 5).add_(1)
    return torch.as_strided_scatter(y, a[:2], (2,), (1,), 7) + torch.as_strided_copy(a[1:], (20,), (1,), 0)


@pytest.mark.parametrize(
    "function", [_absolute, _absolute_of_a_view, _absolute_and_written], ids=lambda f: f.__name__
)
def test_absolute_offsets(function: Callable[..., Any]) -> None:
    run(function, ROW)
    run(function, ROW, **TOGETHER)


def test_an_absolute_offset_into_more_than_the_program_has_is_refused(tmp_path: Path) -> None:
    def outside(x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(x, (2,), (1,), 0) + 1

    exported = torch.export.export(Lambda(outside), (ROW[2:6],))
    with pytest.raises(UnsupportedError, match="pass the whole tensor"):
        lowtide.plan(exported)
    torch.export.save(exported, tmp_path / "part.pt2")  # the fake tensors of a file have no offsets
    with pytest.raises(UnsupportedError, match="'as_strided': its offset counts from the start"):
        lowtide.plan(tmp_path / "part.pt2")
    with pytest.raises(UnsupportedError, match="spans bytes 24 to 32 of 'root/inputs_0'"):
        lowtide.plan(torch.export.export(Lambda(lambda x: torch.as_strided(x, (2,), (1,), 6)), (ROW[:4],)))


def test_a_view_of_nothing_may_begin_behind_the_end() -> None:
    run(lambda x: (x * 2)[2:, 1:].sum() + x, torch.rand(2, 3))


# Inputs.


@pytest.mark.parametrize(
    "x",
    [
        ROW[:4].expand(3, 4),
        ROW[:3, None].expand(3, 4),
        ROW[:1].expand(12).view(3, 4),
        ROW[:6].unfold(0, 4, 1),
    ],
    ids=["rows", "columns", "one", "windows"],
)
def test_inputs_whose_elements_are_one_in_memory(x: torch.Tensor) -> None:
    assert overlaps_itself(x)
    run(lambda m: (m * 2 + 1, m.t().sum(0)), x, **TOGETHER)
    for inputs in (True, False):
        with pytest.raises(UnsupportedError, match="root/inputs_0 is changed, but several of its elements"):
            run(lambda m: m.add_(1), x, plan_inputs=inputs)


def test_inputs_are_laid_out_as_the_program_was_traced() -> None:
    wide = torch.rand(3, 8)
    x = torch.rand(3, 4)
    for given in (wide[:, ::2], wide[:, 4:], torch.rand(4, 3).t(), ROW[:4].expand(3, 4)):
        run(lambda m: m * 2 + m.t().amax(0)[:, None], x, given=(given,))
    run(lambda m: m.t() * 2, x.t(), given=(torch.rand(4, 3),), **TOGETHER)


def test_inputs_that_share_memory() -> None:
    def changes_the_first(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    apart = (torch.rand(4), torch.rand(2))
    run(lambda x, y: (x + 1, y * 2), ROW[2:6], ROW[3:5])
    run(changes_the_first, *apart, given=(ROW[2:6].clone(), ROW[3:5].clone()))
    with pytest.raises(InputError, match="root/inputs_0 is changed, and shares memory with root/inputs_1"):
        run(changes_the_first, ROW[2:6], ROW[3:5])
    for given in ((ROW[2:6], ROW[3:5]), (ROW[2:6], ROW[1:3])):
        with pytest.raises(
            InputError, match="root/inputs_0 is changed, and shares memory with root/inputs_1"
        ):
            run(changes_the_first, *apart, given=given)
    run(changes_the_first, *apart, given=(ROW[2:6].clone(), ROW[0:2]))
    run(changes_the_first, ROW[2:6].clone(), ROW[:2])
    both = ROW.clone()
    run(changes_the_first, both[2:6], both[6:8])
