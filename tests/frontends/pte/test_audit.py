"""The audit against the real runtime: what computes wrong numbers is flagged."""

from __future__ import annotations

import json
from random import Random

import pytest
import torch
from executorch.exir.passes import MemoryPlanningPass as StockPass

from lowtide.executorch import MemoryPlanningPass, audit
from lowtide.frontends.pte import analyse, open_pte
from lowtide.frontends.pte.auditing import check_places
from lowtide.frontends.pte.methods import Place
from lowtide.frontends.pte.writing import rewrite
from models import REAL_MODELS
from quick_zoo import quick
from runtime import edge_of, lower
from stock_files import files_of, methods_file, real_files, stock_file
from zoo import ZOO

QUICK = ("two_conds_added", "reshaped_result", "scan_and_map_and_cond")


@pytest.mark.parametrize("name", quick(ZOO, QUICK))
def test_what_computes_wrong_numbers_is_flagged(name):
    files = files_of(name)
    assert audit(files.lowtide).findings == ()
    if files.stock is None:
        return
    found = audit(files.stock)
    assert found.safe == files.right(files.stock)


def test_a_finding_names_path_instructions_operators_and_tensors():
    found = audit(stock_file("two_conds_added"))
    finding = found.findings[0]
    assert finding.kind == "overlap"
    assert finding.method == "forward"
    writer, reader = finding.instructions
    assert finding.path[-1] == reader
    assert writer in finding.path
    assert finding.path.index(writer) < finding.path.index(reader)
    assert f"instruction {reader} aten::add.out reads" in finding.message
    assert f"instruction {writer} aten::mul.out has written" in finding.message
    assert "of arena 1" in finding.message
    assert "; path " in finding.message
    told = json.loads(found.to_json())
    assert told["safe"] is False
    assert told["findings"][0]["path"] == list(finding.path)


def test_every_step_of_a_path_can_be_taken():
    file = open_pte(stock_file("two_conds_added"))
    (analysis,) = analyse(file)
    found = audit(file)
    assert found.findings
    for finding in found.findings:
        for at, then in zip(finding.path, finding.path[1:], strict=False):
            assert then in analysis.paths.successors[at]


def test_a_view_that_lies_where_nothing_is_written():
    found = audit(stock_file("reshaped_result"))
    assert {finding.kind for finding in found.findings} == {"unwritten"}
    assert "a view of" in found.findings[0].message


def test_outside_and_misaligned():
    (analysis,) = analyse(open_pte(files_of("two_conds_added").lowtide))
    places = {t.index: t.place for t in analysis.method.planned}
    end = max(place.stop for place in places.values())
    highest = {value for value, place in places.items() if place.stop == end}
    small = check_places(analysis, places, {1: end - 1}, 16)
    assert {(f.kind, f.values[0]) for f in small} == {("outside", value) for value in highest}
    assert {f.kind for f in check_places(analysis, places, {}, 16)} == {"outside"}
    found = check_places(analysis, places, analysis.method.arenas, 64)
    assert {f.kind for f in found} == {"misaligned"}
    assert {f.values[0] for f in found} == {v for v, p in places.items() if p.start % 64}


def test_an_output_that_a_move_points_away_from_the_callers_memory():
    torch.manual_seed(0)
    model, calls = ZOO["results_are_outputs"]()
    edge = edge_of(model, calls[0])
    stock = audit(lower(edge, StockPass(alloc_graph_output=False)).buffer)
    assert {f.kind for f in stock.findings if "caller's memory" in f.message} == {"output"}
    mine = audit(lower(edge, MemoryPlanningPass(alloc_graph_output=False)).buffer)
    assert mine.findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [True, False])
def test_unplanned_inputs_and_outputs(inputs):
    torch.manual_seed(0)
    model, calls = ZOO["three_chained_conds"]()
    edge = edge_of(model, calls[0])
    planning = MemoryPlanningPass(alloc_graph_input=inputs, alloc_graph_output=not inputs)
    assert audit(lower(edge, planning).buffer).findings == ()


@pytest.mark.parametrize("planning", [StockPass, MemoryPlanningPass])
def test_every_method_is_looked_at(planning):
    found = audit(methods_file({"add": planning(), "read": planning()}))
    assert found.findings == ()
    assert found.methods == ("add", "read", "width")


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_MODELS)
def test_real_models_raise_nothing(name):
    for data in real_files(name)[1:]:
        found = audit(data)
        assert found.findings == ()
        assert found.notes == ()


@pytest.mark.parametrize(
    "name",
    ["scan_and_map_and_cond", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bert", "swin"))],
)
def test_what_kernels_allow_is_no_fault(name):
    """Outputs over inputs, and copies of bytes to where they are."""
    torch.manual_seed(0)
    model, calls = ZOO[name]() if name in ZOO else REAL_MODELS[name]()
    edge = edge_of(model, calls[0] if name in ZOO else calls)
    planning = MemoryPlanningPass(in_place=True, elide_copies=True)
    data = lower(edge, planning).buffer
    assert planning.plan.applied
    assert audit(data).findings == ()


def moved(data, random):
    """A file whose tensors of one place were moved to another, and what is found in it."""
    file = open_pte(data)
    (analysis,) = analyse(file)
    places = {t.index: t.place for t in analysis.method.planned}
    chosen = random.choice(sorted({(p.start, p.stop) for p in places.values()}))
    size = analysis.method.arenas[1]
    start = random.randrange(0, size - (chosen[1] - chosen[0]) + 1, 16)
    spots = {value: (1, start) for value, p in places.items() if (p.start, p.stop) == chosen}
    places |= {value: Place(1, start, start + chosen[1] - chosen[0]) for value in spots}
    found = check_places(analysis, places, analysis.method.arenas, 16)
    return rewrite(file, {"forward": spots}, {}).data, found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
@pytest.mark.parametrize("name", quick(("scan_and_map_and_cond", "three_chained_conds", "early_exit"), QUICK))
def test_plans_spoilt_at_random(name, seed):
    """Whatever the runtime gets wrong after tensors were moved about is flagged."""
    files, random = files_of(name), Random(seed)
    wrong = flagged = 0
    for _ in range(12):
        data, found = moved(files.lowtide, random)
        if not files.right(data):
            wrong += 1
            assert found, "wrong numbers and no finding"
        flagged += bool(found)
    assert flagged >= wrong
    assert flagged
