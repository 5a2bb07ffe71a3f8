"""The algorithm, alone in the stock pass and as a member of a suite."""

from __future__ import annotations

import pytest
import torch
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, Verifier, greedy, naive
from executorch.exir.passes import MemoryPlanningPass as StockPass
from executorch.exir.tensor import TensorSpec
from torch import fx

from graphs import Layers, graph_of, planned_specs
from lowtide.base.errors import UnsupportedError
from lowtide.executorch import algorithm
from lowtide.executorch.specs import specs_of
from runtime import differences, eager, edge_of, lower
from zoo import ZOO, Run, signs

needs_storage_base = pytest.mark.skipif(
    not hasattr(TensorSpec, "inplace_base") or not isinstance(TensorSpec.inplace_base, property),
    reason="parts of tensors came with ExecuTorch 1.5",
)


def test_algorithm_in_a_suite_wins_where_it_is_smaller():
    module, signature = graph_of(Layers(), (torch.randn(4, 6),))
    suite = MemoryPlanningAlgorithmSuite(algo_list=[greedy, algorithm()])
    StockPass(memory_planning_algo=suite).run(module, signature)
    again, _ = graph_of(Layers(), (torch.randn(4, 6),))
    StockPass().run(again, signature)
    assert module.meta["non_const_buffer_sizes"][1] <= again.meta["non_const_buffer_sizes"][1]
    verifier = Verifier(module, True, True, True, signature)
    assert verifier.verify_storage_reuse() > 0


def test_algorithm_keeps_clear_of_submodules():
    module, signature = graph_of(Layers(), (torch.randn(4, 6),))
    specs = list(dict.fromkeys(s for n in module.graph.nodes for s in specs_of(n) if s is not None))
    for i, spec in enumerate(specs):
        spec.lifetime = [i, i + 1]
        spec.mem_id = 3 if i % 2 else None
    module.input_mem_buffer_sizes = [0, 96, 0, 0, 64]
    sizes = algorithm()(16, specs, module, signature, 64)
    assert sizes[0] == 0  # who reads a size has the places written
    assert all(spec.mem_offset >= 96 for spec in specs if spec.mem_id == 1)
    ends = {id: max(s.mem_offset + s.allocated_memory for s in specs if s.mem_id == id) for id in (1, 3)}
    assert sizes.bufsizes == list(sizes) == [0, ends[1] + 64, 0, ends[3] + 64, 64]
    assert set(sizes.spec_dict) == set(specs)


def test_it_only_returns_its_result():
    """Other members of the suite run on the same specs after it."""
    module, signature = graph_of(Layers(), (torch.randn(4, 6),))
    specs = planned_specs(module)
    for i, spec in enumerate(specs):
        spec.lifetime = [i, i + 1]
    specs[2].inplace_base = specs[1]
    before = [{**vars(spec), "lifetime": list(spec.lifetime)} for spec in specs]
    result = algorithm()(16, specs, module, signature, 0)
    assert result.bufsizes[1] > 0
    assert [vars(spec) for spec in specs] == before
    assert result[1] == result.bufsizes[1]
    places = [(spec.mem_id, spec.mem_offset, spec.mem_obj_id) for spec in specs]
    assert places == [(p.mem_id, p.mem_offset, p.mem_obj_id) for p in map(result.spec_dict.get, specs)]
    specs[0].mem_id = 7  # a pass renumbers them then
    assert list(result) == result.bufsizes
    assert specs[0].mem_id == 7


def test_members_of_a_suite_have_names_of_their_own():
    """A suite keeps results by name: of two with one name, only the last would count."""
    members = [algorithm(), algorithm(packer="naive"), algorithm(seed=1)]
    assert len({member.__name__ for member in members}) == 3
    module, signature = graph_of(Layers(), (torch.randn(4, 6),))
    alone, _ = graph_of(Layers(), (torch.randn(4, 6),))
    StockPass(memory_planning_algo=algorithm()).run(alone, signature)
    StockPass(memory_planning_algo=MemoryPlanningAlgorithmSuite(algo_list=members)).run(module, signature)
    assert module.meta["non_const_buffer_sizes"] == alone.meta["non_const_buffer_sizes"]


def test_before_naive_in_a_suite():
    module, signature = graph_of(Layers(), (torch.randn(4, 6),))
    suite = MemoryPlanningAlgorithmSuite(algo_list=[algorithm(), greedy, naive])
    StockPass(memory_planning_algo=suite).run(module, signature)
    verifier = Verifier(module, True, True, True, signature)
    assert verifier.verify_storage_reuse() > 0


class PoolInBranches(StockPass):
    """Sums live in memory 3; only branches have any."""

    def run(self, graph_module, graph_signature=None):
        for module in graph_module.modules():
            for node in getattr(getattr(module, "graph", None), "nodes", ()):
                if node.target == torch.ops.aten.add.out:
                    node.meta["spec"].mem_id = 3
        return super().run(graph_module, graph_signature)


@pytest.fixture(scope="module")
def sums_in_branches():
    def function(x):
        h = x.sin()
        r = torch.cond(h.sum() > 0, lambda h: (h + h.cos()) * 2, lambda h: (h + 1).tanh(), (h,))
        return r * 3

    torch.manual_seed(0)
    model, calls = Run(function), signs(4, 6)
    return model, calls, edge_of(model, calls[0])


def test_memory_that_only_called_graphs_use(sums_in_branches):
    model, calls, edge = sums_in_branches
    lowered = lower(edge, PoolInBranches(algorithm()))
    assert differences(eager(model, calls), lowered.run(calls)) == []
    (plan,) = lowered.manager.executorch_program.execution_plan
    assert plan.non_const_buffer_sizes[2:] == [0, 96]


def test_greedy_forgets_memory_that_only_called_graphs_use(sums_in_branches):
    """The suite refuses results of different lengths, and so it does here; the documentation says so."""
    _, _, edge = sums_in_branches
    (plan,) = lower(edge, PoolInBranches()).manager.executorch_program.execution_plan
    assert len(plan.non_const_buffer_sizes) == 2  # and yet there are tensors in memory 3
    with pytest.raises(AssertionError, match="the same number of buffers"):
        lower(edge, PoolInBranches(MemoryPlanningAlgorithmSuite(algo_list=[greedy, algorithm()])))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scan_then_cond", "maps_chained", "wide_branches"])
def test_control_flow_that_the_stock_pass_gets_right_stays_right(name):
    torch.manual_seed(0)
    model, calls = ZOO[name]()
    expected, edge = eager(model, calls), edge_of(model, calls[0])
    right = not differences(expected, lower(edge, StockPass()).run(calls))
    suite = MemoryPlanningAlgorithmSuite(algo_list=[algorithm()])
    for planning in (StockPass(algorithm()), StockPass(suite)):
        found = lower(edge, planning).run(calls)
        assert (not differences(expected, found)) or not right


def part_of_a_whole(*, distance=16):
    """A tensor that is to lie within another, with their bytes alive at different times, and a third."""
    whole, part, other = (TensorSpec.from_tensor(torch.empty(n)) for n in (16, 4, 16))
    whole.lifetime, part.lifetime, other.lifetime = [0, 1], [3, 4], [3, 4]
    for spec in (whole, part, other):
        spec.mem_id = 1
    part.storage_base, part.storage_base_offset = whole, distance
    return whole, part, other


@needs_storage_base
def test_a_part_lies_where_it_is_to_in_its_whole():
    specs = part_of_a_whole()
    result = algorithm()(16, specs, fx.GraphModule({}, fx.Graph()))
    places = [result.spec_dict[spec] for spec in specs]
    assert places[1].mem_offset == places[0].mem_offset + 16
    assert places[0].mem_obj_id == places[1].mem_obj_id != places[2].mem_obj_id
    assert result.bufsizes == [0, 128]  # the third cannot have the bytes of the whole while the part lives
    specs[1].storage_base_offset = 0
    assert algorithm()(16, specs, fx.GraphModule({}, fx.Graph())).bufsizes == [0, 80]


@needs_storage_base
@pytest.mark.parametrize(("distance", "message"), [(8, "no multiple of the alignment"), (16, "not planned")])
def test_a_part_that_cannot_lie_so_is_refused(distance, message):
    whole, part, other = part_of_a_whole(distance=distance)
    specs = (part, other) if "not planned" in message else (whole, part, other)
    with pytest.raises(UnsupportedError, match=message):
        algorithm()(16, specs, fx.GraphModule({}, fx.Graph()))


@needs_storage_base
def test_a_part_of_itself_is_refused():
    whole, part, other = part_of_a_whole()
    whole.storage_base, whole.storage_base_offset = part, 16
    with pytest.raises(UnsupportedError, match="leads back"):
        algorithm()(16, (whole, part, other), fx.GraphModule({}, fx.Graph()))
