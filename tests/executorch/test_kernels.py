"""The table of kernels that may write over an argument, against the kernels themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kernel_cases import ALL, FEW, FLAT, LAST, SAFE, UNSAFE, cases
from lowtide.executorch.node_overwrites import overwrites
from lowtide.operators.executorch import ELEMENTWISE, FIRST
from overlaid import Case, Outcome, outcomes

GROUPS = 4
"""Programs for each type, by operators: one of thousands of nodes lowers slowly."""


def permitted(node: torch.fx.Node) -> Iterator[tuple[Any, Any, int]]:
    for written, read in overwrites(node):
        yield written, read, 0


def run(named: list[tuple[str, Case]], permits: Any = permitted) -> dict[str, list[Outcome]]:
    found = defaultdict(list)
    for (name, _), result in zip(named, outcomes([case for _, case in named], permits), strict=True):
        found[name].append(result)
    return found


def test_every_operator_of_the_table_is_tried() -> None:
    assert set(SAFE) == ELEMENTWISE | FIRST
    assert not set(SAFE) & set(UNSAFE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_results_over_arguments(dtype: torch.dtype) -> None:
    """A small shape of each; a longer list of shapes is slow."""
    found = run(list(cases(SAFE, dtype, ((2, 3, 5),), ())))
    assert all(result.placed for results in found.values() for result in results)
    wrong = [name for name, results in found.items() if not all(result.right for result in results)]
    assert wrong == []


def test_kernels_that_are_not_in_the_table_are_wrong() -> None:
    found = run(list(cases(UNSAFE, torch.float32, ((17, 17),), ())), None)
    assert list(found) == list(UNSAFE)
    right = [name for name, results in found.items() if any(result.right for result in results)]
    assert right == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.parametrize("dtype", ALL, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_shapes_types_and_formats(dtype: torch.dtype, group: int) -> None:
    part = {name: SAFE[name] for name in sorted(SAFE)[group::GROUPS]}
    shapes = (FLAT, LAST) if dtype == torch.float32 else (FEW, LAST[:1])
    found = run(list(cases(part, dtype, *shapes)))
    wrong = [result.case for results in found.values() for result in results if not result.right]
    assert wrong == []
    placed = {name: sum(bool(result.placed) for result in results) for name, results in found.items()}
    assert all(placed.values()), placed
