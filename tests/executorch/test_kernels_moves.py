"""Kernels that only move bytes, with source and destination in one place, or one inside the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from lowtide.executorch.node_moves import moves
from lowtide.operators.executorch import TRIED
from overlaid import Case, operator_name_of, outcomes

aten = torch.ops.aten


def allowed(node: torch.fx.Node) -> Iterator[tuple[Any, Any, int]]:
    """What the table allows, as (result, argument, how far the result starts above the argument)."""
    for inner, outer, distance in moves(node):
        yield inner, outer, distance
        yield outer, inner, -distance


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 100 + 1).to(dtype).reshape(shape)


def last(*shape: int) -> torch.Tensor:
    return numbers(*shape).contiguous(memory_format=torch.channels_last)


def joins(shape: tuple[int, ...], count: int, dtype: torch.dtype = torch.float32) -> Case:
    """Parts along the first dimension that is larger than one."""
    parts = [numbers(*shape, dtype=dtype) + i for i in range(count)]
    size = parts[0].nbytes
    return Case(aten.cat.default, (parts, 0), {}, tuple((0, i, -i * size) for i in range(count)))


SHAPES = ((4,), (8, 3), (2, 3, 4, 2), (1000, 33))

CASES = [joins(shape, count) for shape in SHAPES for count in (1, 2, 3)]
CASES += [joins((8, 3), 2, dtype) for dtype in (torch.int64, torch.int8, torch.bool, torch.float16)]
CASES += [
    # One part in place and one elsewhere, before and behind it.
    Case(aten.cat.default, ([numbers(8, 4), numbers(8, 4) + 1], 0), {}, ((0, 0, 0),)),
    Case(aten.cat.default, ([numbers(8, 4), numbers(8, 4) + 1], 0), {}, ((0, 1, -128),)),
    # Inside the outer dimensions of one element.
    Case(aten.cat.default, ([numbers(1, 4, 4), numbers(1, 8, 4)], 1), {}, ((0, 0, 0), (0, 1, -64))),
    Case(aten.stack.default, ([numbers(4, 4), numbers(4, 4) + 1], 0), {}, ((0, 0, 0), (0, 1, -64))),
    Case(aten.stack.default, ([numbers(8), numbers(8) + 1, numbers(8) + 2],), {}, ((0, 1, -32),)),
    Case(aten.split_copy.Tensor, (numbers(12, 4), 4), {}, ((0, 0, 0), (1, 0, 64), (2, 0, 128))),
    Case(aten.split_copy.Tensor, (numbers(10, 4), 4), {}, ((0, 0, 0), (2, 0, 128))),
    Case(aten.split_copy.Tensor, (numbers(1, 8, 4), 4, 1), {}, ((0, 0, 0), (1, 0, 64))),
    Case(aten.split_with_sizes_copy.default, (numbers(12, 4), [8, 4]), {}, ((0, 0, 0), (1, 0, 128))),
    Case(aten.unbind_copy.int, (numbers(3, 4, 4),), {}, ((0, 0, 0), (1, 0, 64), (2, 0, 128))),
    Case(aten.slice_copy.Tensor, (numbers(12, 4), 0, 4, 8), {}, ((0, 0, 64),)),
    Case(aten.slice_copy.Tensor, (numbers(12), 0, -8, 12), {}, ((0, 0, 16),)),
    Case(aten.select_copy.int, (numbers(3, 4, 4), 0, 1), {}, ((0, 0, 64),)),
    Case(aten.select_copy.int, (numbers(3, 4, 4), 0, -1), {}, ((0, 0, 128),)),
    Case(aten.narrow_copy.default, (numbers(12, 4), 0, 4, 4), {}, ((0, 0, 64),)),
    Case(aten.view_copy.default, (numbers(12, 4), [4, 3, 4]), {}, ((0, 0, 0),)),
    Case(aten.clone.default, (numbers(12, 4),), {}, ((0, 0, 0),)),
    Case(aten.clone.default, (last(2, 3, 4, 8),), {}, ((0, 0, 0),)),
    Case(aten.clone.default, (last(2, 1, 4, 8),), {"memory_format": torch.contiguous_format}, ((0, 0, 0),)),
    Case(aten.permute_copy.default, (numbers(4, 1, 6), [1, 0, 2]), {}, ((0, 0, 0),)),
    Case(aten.permute_copy.default, (numbers(1, 4, 1, 6), [2, 1, 3, 0]), {}, ((0, 0, 0),)),
    Case(aten.transpose_copy.int, (numbers(1, 4, 6), 0, 1), {}, ((0, 0, 0),)),
    Case(aten.t_copy.default, (numbers(1, 8),), {}, ((0, 0, 0),)),
    Case(aten.expand_copy.default, (numbers(4, 6), [4, 6]), {}, ((0, 0, 0),)),
    Case(aten.expand_copy.default, (numbers(4, 6), [1, 4, 6]), {}, ((0, 0, 0),)),
    Case(aten.unsqueeze_copy.default, (numbers(4, 6), 1), {}, ((0, 0, 0),)),
    Case(aten.squeeze_copy.dims, (numbers(4, 1, 6, 1), [1, 3]), {}, ((0, 0, 0),)),
    Case(aten.squeeze_copy.dim, (numbers(4, 1, 6), 1), {}, ((0, 0, 0),)),
    Case(aten.detach_copy.default, (numbers(4, 6),), {}, ((0, 0, 0),)),
    Case(aten.alias_copy.default, (numbers(4, 6),), {}, ((0, 0, 0),)),
    Case(aten.diagonal_copy.default, (numbers(1, 4),), {}, ((0, 0, 0),)),
]


def test_every_operator_of_the_table_is_tried() -> None:
    assert {operator_name_of(case.target) for case in CASES} == TRIED


def test_copies_in_one_place() -> None:
    """All of them placed as the table allows; every bit as it is when all lies apart."""
    found = outcomes(CASES, allowed)
    not_allowed = [result.case for result in found if result.placed != result.case.over]
    assert not_allowed == []
    assert [result.case for result in found if not result.right] == []


REFUSED = [
    # The kernel works on elements in the usual order of dimensions, whatever the tensors say.
    Case(aten.cat.default, ([last(1, 3, 4, 8), last(1, 3, 4, 8)], 2), {}, ((0, 0, 0), (0, 1, -384))),
    # The kernel refuses to run where its two tensors overlap.
    Case(aten.constant_pad_nd.default, (numbers(8, 4), [0, 0, 0, 8], 7.0), {}, ((0, 0, 0),)),
    Case(aten.cat.default, ([numbers(8, 4), numbers(8, 4)], 1), {}, ((0, 0, 0),)),
    Case(aten.split_copy.Tensor, (numbers(8, 4), 2, 1), {}, ((0, 0, 0),)),
    Case(aten.slice_copy.Tensor, (numbers(8, 4), 0, 0, 8, 2), {}, ((0, 0, 0),)),
    Case(aten.permute_copy.default, (numbers(8, 4), [1, 0]), {}, ((0, 0, 0),)),
    Case(aten.expand_copy.default, (numbers(1, 4), [8, 4]), {}, ((0, 0, 0),)),
    Case(aten.constant_pad_nd.default, (numbers(8, 4), [1, 1], 0.0), {}, ((0, 0, -4),)),
    Case(aten._to_copy.default, (numbers(8, 4),), {"dtype": torch.int32}, ((0, 0, 0),)),
    Case(aten.flip.default, (numbers(8, 4), [0]), {}, ((0, 0, 0),)),
]


def test_what_rearranges_is_no_move() -> None:
    """The table allows nothing of the kind."""
    found = outcomes(REFUSED, allowed)
    assert [result.case for result in found if result.placed] == []
    assert all(result.right for result in found)


def test_pads_do_not_run_over_their_arguments() -> None:
    """Why the table has none, although they only move bytes."""
    case = Case(aten.constant_pad_nd.default, (numbers(8, 4), [0, 0, 0, 8], 7.0), {}, ((0, 0, 0),))
    with pytest.raises(RuntimeError, match="execute"):
        outcomes([case])
