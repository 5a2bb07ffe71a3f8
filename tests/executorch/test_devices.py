"""Devices with memory of their own."""

from __future__ import annotations

import pytest
import torch
from executorch.exir.schema import DeviceType

from graphs import graph_of, planned_specs, toy_graph
from lowtide.base.errors import UnsupportedError
from lowtide.executorch import MemoryPlanningPass
from lowtide.executorch.specs import outputs_of, spec_of, specs_of
from zoo import ZOO


def device_aware():
    """A pass as ``to_executorch`` sets it up by default."""
    planning = MemoryPlanningPass()
    planning.enable_non_cpu_memory_planning = True
    return planning


def test_devices_have_arenas_of_their_own():
    module, signature = toy_graph()
    nodes = [n for n in module.graph.nodes if n.op == "call_function" and "relu" in n.name]
    nodes[1].meta["spec"].device = DeviceType.CUDA
    nodes[2].meta["spec"].device, nodes[2].meta["spec"].device_index = DeviceType.CUDA, 1
    device_aware().run(module, signature)
    ids = {spec.mem_id for spec in planned_specs(module)}
    assert ids == {1, 2, 3}
    sizes = module.meta["non_const_buffer_sizes"]
    assert sizes[0] == 0
    assert sizes[2:] == [48, 48]
    devices = [(d.buffer_idx, d.device_type, d.device_index) for d in module.meta["non_const_buffer_device"]]
    assert devices == [(2, DeviceType.CUDA, 0), (3, DeviceType.CUDA, 1)]


def test_only_one_device_wastes_no_memory_id():
    module, signature = toy_graph()
    for spec in planned_specs(module):
        spec.device = DeviceType.CUDA
    device_aware().run(module, signature)
    assert len(module.meta["non_const_buffer_sizes"]) == 2
    assert [d.buffer_idx for d in module.meta["non_const_buffer_device"]] == [1]


def test_devices_share_the_arena_if_told_so():
    module, signature = toy_graph()
    for spec in planned_specs(module)[1:]:
        spec.device = DeviceType.CUDA
    MemoryPlanningPass().run(module, signature)
    assert {spec.mem_id for spec in planned_specs(module)} == {1}
    assert "non_const_buffer_device" not in module.meta


@pytest.fixture
def cond():
    """A graph with a cond of one result: the graph, its signature, the node, and its branches."""
    torch.manual_seed(0)
    model, calls = ZOO["branch_returns_a_view"]()
    module, signature = graph_of(model, calls[0])
    (node,) = module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)
    return module, signature, node, [getattr(module, branch.target) for branch in node.args[1:3]]


def test_a_result_and_what_branches_return_go_to_one_device(cond):
    module, signature, node, branches = cond
    specs = [*specs_of(node), *(spec_of(output) for branch in branches for output in outputs_of(branch))]
    for spec in specs:
        spec.device = DeviceType.CUDA
    device_aware().run(module, signature)
    assert {(spec.mem_id, spec.mem_offset) for spec in specs} == {(2, 0)}
    assert module.meta["non_const_buffer_sizes"][2] == 96


def test_a_branch_that_returns_from_another_device_is_refused(cond):
    module, signature, node, branches = cond
    (output,) = outputs_of(branches[1])
    spec_of(output).device, spec_of(output).device_index = DeviceType.CUDA, 1
    with pytest.raises(UnsupportedError, match=f"root/{node.name}: .* on CPU:0 and CUDA:1"):
        device_aware().run(module, signature)
