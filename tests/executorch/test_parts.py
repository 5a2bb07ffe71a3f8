"""The pieces of the ExecuTorch package by themselves."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from executorch.exir import memory, to_edge
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, Verifier, greedy
from executorch.exir.passes import MemoryPlanningPass as StockPass
from executorch.exir.schema import TensorShapeDynamism
from torch import nn

import lowtide.executorch
from graphs import Layers, graph_of
from lowtide.base.errors import (
    InputError,
    LowtideError,
    UnsupportedError,
    VerificationError,
)
from lowtide.executorch import MemoryPlanningPass, planning_pass
from lowtide.executorch.copies import add_copies
from lowtide.executorch.spec_writing import object_ids
from lowtide.executorch.specs import Groups, outputs_of, spec_of, specs_of
from lowtide.formats.json.reading import plan_from_json
from lowtide.ir.problem import Buffer, Problem
from lowtide.pack.planner import plan_problem
from zoo import ZOO


def test_lowtide_itself_does_not_import_executorch():
    code = (
        "import lowtide, lowtide.pack.planner, sys; "
        "assert not [m for m in sys.modules if m.split('.')[0] in ('executorch', 'torch', 'numpy')]; "
        "import lowtide.executorch, executorch.exir; "
        "assert executorch.exir.__name__ == 'executorch.exir'; "
        "assert not hasattr(executorch, 'MemoryPlanningPass')"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=300)


def test_no_plan_before_anything_was_planned():
    with pytest.raises(LowtideError, match="nothing was planned yet"):
        _ = MemoryPlanningPass().plan


def test_plan_is_written_to_every_graph():
    torch.manual_seed(0)
    model, calls = ZOO["nested_three_deep"]()
    module, signature = graph_of(model, calls[0])
    planning = MemoryPlanningPass()
    planning.run(module, signature)
    graphs = [m for m in module.modules() if isinstance(m, torch.fx.GraphModule)]
    assert len(graphs) > 6
    total = module.meta["non_const_buffer_sizes"]
    assert total == [0, planning.plan.arena_bytes]
    for graph in graphs:
        assert graph.meta["non_const_buffer_sizes"][1] <= total[1]
        for node in graph.graph.nodes:
            for spec in specs_of(node):
                if spec is not None and spec.mem_offset is not None:
                    assert spec.mem_offset + spec.allocated_memory <= total[1]
    assert {region.name for region in planning.plan.problem.regions} >= {"root", "root/submodule_0"}
    assert plan_from_json(planning.plan.to_json()) == planning.plan


def test_result_and_outputs_of_branches_are_in_one_place():
    torch.manual_seed(0)
    model, calls = ZOO["several_results"]()
    module, signature = graph_of(model, calls[0])
    MemoryPlanningPass().run(module, signature)
    (node,) = module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)
    for branch in node.args[1:3]:
        outputs = outputs_of(getattr(module, branch.target))
        for result, output in zip(specs_of(node), outputs, strict=True):
            assert (result.mem_id, result.mem_offset) == (spec_of(output).mem_id, spec_of(output).mem_offset)


def test_stock_verifier_accepts_the_root():
    module, signature = graph_of(Layers(), (torch.randn(4, 6),))
    MemoryPlanningPass().run(module, signature)
    verifier = Verifier(module, True, True, True, signature)
    verifier.verify_graph_input_output()
    assert verifier.verify_storage_reuse() > 0


def test_a_wrong_plan_is_not_written(monkeypatch):
    """The verifier stands between the packer and the graphs."""
    honest = planning_pass.plan_program

    def at_zero(*arguments, **options):
        plan = honest(*arguments, **options)
        return replace(plan, offsets=(0,) * len(plan.offsets))

    monkeypatch.setattr(planning_pass, "plan_program", at_zero)
    module, signature = graph_of(Layers(), (torch.randn(4, 6),))
    with pytest.raises(VerificationError):
        MemoryPlanningPass().run(module, signature)
    assert all(
        spec.mem_offset is None for node in module.graph.nodes for spec in specs_of(node) if spec is not None
    )


def test_a_branch_that_returns_its_input_gets_a_clone():
    """Exported programs do not; passes that drop clones make such graphs."""
    torch.manual_seed(0)
    model, calls = ZOO["cloned_input_that_lives_on"]()
    module, signature = graph_of(model, calls[0])
    node = module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)[0]
    branch = getattr(module, node.args[1].target)
    output = branch.graph.output_node()
    placeholder = next(iter(branch.graph.nodes))
    output.args = ((placeholder,),)
    planning = MemoryPlanningPass()
    planning.run(module, signature)
    assert planning.notes == [f"root/{node.args[1].target} returns a copy of {placeholder.name}"]
    (returned,) = outputs_of(branch)
    assert returned.target is torch.ops.dim_order_ops._clone_dim_order.out
    assert spec_of(returned).mem_offset == specs_of(node)[0].mem_offset


def test_two_conds_with_one_branch_are_refused():
    torch.manual_seed(0)
    model, calls = ZOO["two_conds_added"]()
    module, _ = graph_of(model, calls[0])
    first, second = module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)
    second.args = (second.args[0], first.args[1], *second.args[2:])
    with pytest.raises(UnsupportedError, match="share one branch"):
        add_copies(module, None, plan_inputs=True, plan_outputs=True)


def test_while_loop_is_refused_by_name():
    class Loop(nn.Module):
        def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            from torch._higher_order_ops.while_loop import while_loop

            return while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 2), (n, x))[1]

    program = to_edge(torch.export.export(Loop(), (torch.tensor(3), torch.randn(4)))).exported_program()
    with pytest.raises(UnsupportedError, match="while_loop"):
        MemoryPlanningPass().run(program.graph_module, program.graph_signature)


def test_tensors_without_bound_are_freed_where_they_die():
    module, signature = graph_of(Layers(), (torch.randn(4, 6),))
    (cat,) = (n for n in module.graph.nodes if n.name == "aten_cat_default")
    spec_of(cat).shape_dynamism = TensorShapeDynamism.DYNAMIC_UNBOUND
    planning = MemoryPlanningPass()
    planning.run(module, signature)
    assert spec_of(cat).mem_offset is None
    (free,) = (n for n in module.graph.nodes if n.target is memory.free)
    assert free.args == (spec_of(cat),)
    order = list(module.graph.nodes)
    (last,) = (n for n in order if n.name == "aten_mul_tensor")
    assert order.index(free) == order.index(last) + 1
    assert "memory_free" in module.code


def test_stacked_results_without_bound_are_refused():
    """The emitter would declare them bounded, by what they are bounded by nobody knows."""
    torch.manual_seed(0)
    model, calls = ZOO["stacked_map_viewed"]()
    module, signature = graph_of(model, calls[0])
    (node,) = module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.map_impl)
    specs_of(node)[0].shape_dynamism = TensorShapeDynamism.DYNAMIC_UNBOUND
    with pytest.raises(UnsupportedError, match=f"root/{node.name}: a stacked result without a bound"):
        MemoryPlanningPass().run(module, signature)


def test_a_placeholder_of_a_branch_is_no_buffer_whatever_its_name():
    torch.manual_seed(0)
    model, calls = ZOO["view_of_branch_operand"]()
    module, _ = graph_of(model, calls[0])
    (node,) = module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)
    branch = getattr(module, node.args[1].target)
    buffer, placeholder = next(iter(module.graph.nodes)), next(iter(branch.graph.nodes))
    placeholder.target = buffer.target
    state = SimpleNamespace(
        buffers_to_mutate={"new": "h"}, inputs_to_buffers={buffer.target: "h"}, output_specs=[]
    )
    MemoryPlanningPass().run(module, state)
    assert buffer.meta["spec"].lifetime == [0, len(module.graph.nodes) - 1]
    order = list(branch.graph.nodes)
    (view,) = placeholder.users
    assert placeholder.meta["spec"].lifetime == [0, max(order.index(user) for user in view.users)]


def test_an_arena_of_nothing_has_a_size_too():
    class Empty(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x[:0].sin(), x.cos()

    module, signature = graph_of(Empty(), (torch.randn(4, 6),))
    (sine,) = (n for n in module.graph.nodes if n.name == "aten_sin_default")
    spec_of(sine).mem_id = 3
    MemoryPlanningPass().run(module, signature)
    assert module.meta["non_const_buffer_sizes"][2:] == [0, 0]
    assert (spec_of(sine).mem_id, spec_of(sine).mem_offset) == (3, 0)


def test_objects_are_runs_of_bytes_that_nothing_crosses():
    sizes_and_offsets = [(16, 0), (32, 0), (16, 16), (16, 32), (8, 40), (0, 8)]
    buffers = tuple(Buffer(str(i), size, ((i, i + 1),)) for i, (size, _) in enumerate(sizes_and_offsets))
    plan = plan_problem(Problem(buffers), packer="naive")
    moved = replace(plan, offsets=tuple(o for _, o in sizes_and_offsets))
    assert object_ids(moved) == [0, 0, 0, 1, 1, 0]


def test_groups_keep_the_first_leader():
    groups = Groups()
    a, b, c, d = (object() for _ in range(4))
    groups.join(b, c)
    groups.join(a, b)
    groups.join(d, d)
    assert groups.find(c) is a
    assert groups.members(c) == (a, b, c)
    assert groups.members(d) == (d,)


def test_public_names():
    assert {"MemoryPlanningPass", "algorithm"} <= set(lowtide.executorch.__all__)
    assert all(hasattr(lowtide.executorch, name) for name in lowtide.executorch.__all__)


def test_arguments_of_the_stock_pass_are_taken():
    stock = inspect.signature(StockPass.__init__).parameters
    own = inspect.signature(MemoryPlanningPass.__init__).parameters
    assert list(own)[: len(stock)] == list(stock)
    assert all(own[name].default == stock[name].default for name in stock)
    planning = MemoryPlanningPass(None, True, False, alignment=32)
    assert planning.allow_lifetime_and_storage_overlap
    assert not planning.alloc_graph_input
    assert planning.alignment == 32


@pytest.mark.parametrize("algorithm", [greedy, MemoryPlanningAlgorithmSuite()])
def test_an_algorithm_is_refused_in_one_line(algorithm):
    with pytest.raises(InputError, match="choose packer= instead") as caught:
        MemoryPlanningPass(memory_planning_algo=algorithm)
    assert "\n" not in str(caught.value)
