"""Reordering of torch.export graphs: the same results, the signature kept, in a smaller arena."""

from __future__ import annotations

import warnings
from random import Random

import pytest

torch = pytest.importorskip("torch")

import lowtide  # noqa: E402
from irregular import IRREGULAR  # noqa: E402
from lowtide.replay import replay  # noqa: E402
from lowtide.transforms.reorder.fx import node_edges, reorder_graphs  # noqa: E402
from random_programs import Writer  # noqa: E402


def export(model, inputs):
    torch.manual_seed(0)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return torch.export.export(model, inputs)


@pytest.mark.parametrize("name", ["random wired 1", "pyramid", "branches"])
def test_irregular_networks(name):
    torch.manual_seed(0)
    model, inputs = IRREGULAR[name]()
    exported = export(model, inputs)
    signature = str(exported.graph_signature)
    names = {node.name for node in exported.graph.nodes}
    expected = model(*inputs)
    found = reorder_graphs(exported)
    assert found.changed
    assert found.after.arena_bytes < found.before.arena_bytes
    assert found.regions[0].proved
    assert found.after.arena_bytes == found.regions[0].bound
    assert str(exported.graph_signature) == signature
    assert {node.name for node in exported.graph.nodes} == names
    plan = lowtide.plan(exported)
    assert plan.arena_bytes == found.after.arena_bytes
    assert lowtide.verify(plan, exported).followed
    replay(exported, plan, inputs)
    results = exported.module()(*inputs)
    torch.testing.assert_close(results, expected, rtol=0, atol=0)
    again = reorder_graphs(exported)
    assert not again.changed


def test_graphs_stay_as_they_are_where_nothing_is_won():
    class Chain(torch.nn.Module):
        def forward(self, x):
            return (x.sin() * 2).cos() + 1

    exported = export(Chain(), (torch.randn(8),))
    order = [node.name for node in exported.graph.nodes]
    assert not reorder_graphs(exported).changed
    assert [node.name for node in exported.graph.nodes] == order


def test_random_numbers_keep_their_order():
    class Draws(torch.nn.Module):
        def forward(self, x):
            small = torch.rand_like(x[:2])
            large = torch.rand_like(x)
            return large.sum() + (x * small.sum()).sum(), x.repeat(4).sum() + small

    exported = export(Draws(), (torch.randn(64),))
    found = reorder_graphs(exported)
    drawn = [node.args[0] for node in exported.graph.nodes if "rand_like" in str(node.target)]
    assert len(drawn) == 2
    assert "slice" in drawn[0].name
    torch.manual_seed(1)
    expected = Draws()(torch.ones(64))
    torch.manual_seed(1)
    torch.testing.assert_close(exported.module()(torch.ones(64)), expected)
    assert found.after.arena_bytes <= found.before.arena_bytes


@pytest.mark.parametrize(
    "first", [pytest.param(k, marks=pytest.mark.slow if k else ()) for k in range(0, 300, 10)]
)
def test_random_programs(first):
    """Control flow, views, state and random wiring: eager results, and the replay of the new plan."""
    for seed in range(first, first + (10 if first else 2)):
        made = Writer(Random(seed), steps=12, depth=2).write()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exported = made.export(decompose=bool(seed % 2))
        except Exception:
            continue
        found = reorder_graphs(exported)
        for name, order in found.orders.items():
            assert sorted(order) == list(range(len(order))), name
        plan = lowtide.plan(exported)
        assert plan.arena_bytes == found.after.arena_bytes, seed
        lowtide.verify(plan, exported)
        assert replay(exported, plan, made.inputs).eager_differences == (), seed


def test_draws_keep_their_order_in_a_graph_without_schemas():
    """``torch.rand`` as a plain function has no schema that says that it draws."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    large = graph.call_function(torch.rand, (1000,))
    small = graph.call_function(torch.rand, (10,))
    total = graph.call_function(torch.sum, (large,))
    graph.output(graph.call_function(torch.add, (graph.call_function(torch.add, (small, total)), x)))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    steps = {node: i for i, node in enumerate(graph.find_nodes(op="call_function", target=torch.rand))}
    assert node_edges(module, steps) == [(0, 1)]
    assert (steps[large], steps[small]) == (0, 1)
