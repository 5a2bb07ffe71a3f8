"""Random programs: wrong stock files are flagged, and repacked files are right."""

from __future__ import annotations

from collections import Counter

import pytest
from executorch.exir.passes import MemoryPlanningPass as StockPass
from torch.export.graph_signature import OutputKind

from emittable import expected, program
from lowtide.base.errors import LowtideError
from lowtide.executorch import MemoryPlanningPass, audit, repack
from runtime import Lowered, differences, edge_of, lower, run_file

CHUNKS, CHUNK = 12, 5
"""The slow tests try so many programs in all: 60."""


def lowered(edge: object, planning: object) -> Lowered | None:
    """The program; None if it does not lower, whatever the plan."""
    try:
        return lower(edge, planning)
    except Exception:
        return None


def try_one(seed: int) -> Counter[str]:
    """What became of one program."""
    made = program(seed)
    try:
        edge = edge_of(made.module, made.inputs[0])
    except Exception:
        return Counter(refused=1)
    specs = edge.exported_program().graph_signature.output_specs
    written = [s.target for s in specs if s.kind == OutputKind.USER_INPUT_MUTATION]
    wanted = expected(made, written)
    seen: Counter[str] = Counter()
    mine = lowered(edge, MemoryPlanningPass())
    if mine is not None:
        assert audit(mine.buffer).findings == (), seed
    stock = lowered(edge, StockPass())
    if stock is None:
        return Counter(refused=1)
    found = audit(stock.buffer)
    try:
        outputs = run_file(stock.buffer, made.inputs)
    except Exception:
        return Counter(refused=1)
    right = not differences(wanted, outputs, tolerance=1e-2)
    assert right or not found.safe, seed
    seen["right" if right else "wrong"] += 1
    seen["flagged"] += not found.safe
    seen["flagged and right"] += right and not found.safe
    try:
        again = repack(stock.buffer)
    except LowtideError:
        seen["not told by the file"] += 1
        return seen
    assert audit(again.data).safe, seed
    assert not differences(wanted, run_file(again.data, made.inputs), tolerance=1e-2), seed
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk):
    seen = sum((try_one(chunk * CHUNK + seed) for seed in range(CHUNK)), Counter())
    print(dict(seen))
    assert seen["right"] + seen["wrong"]
