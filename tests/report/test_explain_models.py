"""Explanations of real models: right about the peak, and right about what would lower it, as carried out."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import fx  # noqa: E402

import lowtide  # noqa: E402
from lowtide.frontends.front_end import Source  # noqa: E402
from lowtide.ir.request import Request  # noqa: E402
from lowtide.replay import replay  # noqa: E402
from lowtide.report.explain import explain_source  # noqa: E402
from lowtide.report.findings import Advice, Explanation  # noqa: E402
from lowtide.sources import load  # noqa: E402
from models import CONTROL_FLOW_MODELS, REAL_MODELS  # noqa: E402
from peaks import check_peaks  # noqa: E402

FAST = ("distilbert", "nested_cond", "shared_while", "scan_with_cond", "stateful")


def export(name: str) -> tuple[torch.export.ExportedProgram, tuple[torch.Tensor, ...]]:
    """A model of tests/helpers/models.py and inputs for it."""
    torch.manual_seed(0)
    if name in REAL_MODELS:
        model, inputs = REAL_MODELS[name]()
    else:
        model, cases = CONTROL_FLOW_MODELS[name]()
        inputs = cases[0]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return torch.export.export(model, inputs), inputs


def explained(source: Any, **request: Any) -> tuple[Source, Explanation]:
    """What was loaded, and its explanation."""
    loaded = load(source, Request(**request))
    return loaded, explain_source(loaded, "model")


def advice(explanation: Explanation, kind: str) -> Advice:
    """The one piece of advice of a kind."""
    (found,) = [a for a in explanation.advice if a.kind == kind]
    return found


def live_peaks(source: Any, **request: Any) -> dict[int, int]:
    """The live peak of each arena, as planning finds it."""
    plan = lowtide.plan(source, **request)
    return {use.id: use.live_peak_bytes for use in plan.uses}


@pytest.fixture(
    scope="module",
    params=[
        n if n in FAST else pytest.param(n, marks=pytest.mark.slow)
        for n in (*REAL_MODELS, *CONTROL_FLOW_MODELS)
    ],
)
def exported(request: pytest.FixtureRequest) -> torch.export.ExportedProgram:
    """Each model once for all tests that leave it as it is."""
    return export(request.param)[0]


def test_the_peak_and_its_buffers(exported: torch.export.ExportedProgram) -> None:
    loaded, explanation = explained(exported)
    check_peaks(explanation, loaded.problem)
    assert {p.arena: p.bytes for p in explanation.peaks} == live_peaks(exported)
    for peak in explanation.peaks:
        assert peak.at.operator is not None or not peak.at.step.startswith("root/")
        for alive in peak.alive:
            assert alive.written is not None
            assert alive.read is not None or alive.written.away == 0
            assert alive.idle == (alive.written.away > 0 and (alive.read is None or alive.read.away > 0))


def test_inputs_and_outputs_elsewhere_win_what_was_said(exported: torch.export.ExportedProgram) -> None:
    _, explanation = explained(exported)
    for kind, option in (("inputs", "plan_inputs"), ("outputs", "plan_outputs")):
        after = live_peaks(exported, **{option: False})
        said = [a for a in explanation.advice if a.kind == kind]
        if not said:
            assert sum(after.values()) == explanation.peak_bytes
            continue
        assert {id: size for id, size in said[0].peaks.items() if size} == after
        assert said[0].wins == explanation.peak_bytes - sum(after.values())


def run(exported: torch.export.ExportedProgram, inputs: Any) -> list[torch.Tensor]:
    """What a changed program computes, node by node."""
    module = exported.graph_module
    given = {s.arg.name: s for s in exported.graph_signature.input_specs}
    left = list(torch.utils._pytree.tree_leaves(inputs))
    arguments = []
    for node in module.graph.find_nodes(op="placeholder"):
        target = given[node.name].target
        table = {**exported.state_dict, **exported.constants}
        arguments.append(left.pop(0) if target is None else table[target])
    with torch.no_grad():
        return list(fx.Interpreter(module).run(*arguments))


@pytest.mark.parametrize("name", ["t5_encoder"])
def test_copies_left_out(name: str) -> None:
    exported, inputs = export(name)
    before = run(exported, inputs)
    _, explanation = explained(exported)
    found = advice(explanation, "copies")
    graph = exported.graph_module.graph
    for node in list(graph.nodes):
        if f"root/{node.name}" in found.subject:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    assert live_peaks(exported) == found.peaks
    assert all(map(torch.equal, before, run(exported, inputs)))


@pytest.mark.parametrize(
    "name", ["yolos", *(pytest.param(name, marks=pytest.mark.slow) for name in ("llama", "vit"))]
)
def test_constants_computed_ahead_of_time(name: str) -> None:
    exported, inputs = export(name)
    before = run(exported, inputs)
    _, explanation = explained(exported)
    found = advice(explanation, "constants")
    module, graph = exported.graph_module, exported.graph_module.graph
    tables = {**exported.state_dict, **exported.constants}
    targets = {s.arg.name: s.target for s in exported.graph_signature.input_specs}
    known: dict[fx.Node, Any] = {}
    for node in list(graph.nodes):
        if node.op == "placeholder" and targets[node.name] is not None:
            known[node] = tables[targets[node.name]]
        made = node.op == "call_function" and all(n in known for n in node.all_input_nodes)
        if not made or (node.all_input_nodes == [] and f"root/{node.name}" not in found.subject):
            continue
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
        with torch.no_grad():
            known[node] = node.target(*args, **kwargs)
        if not isinstance(known[node], torch.Tensor):
            del known[node]
            continue
        module.register_buffer(f"folded_{node.name}", known[node])
        with graph.inserting_before(node):
            constant = graph.get_attr(f"folded_{node.name}")
        constant.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(constant)
        known[constant] = known[node]
        graph.erase_node(node)
    graph.eliminate_dead_code()
    loaded, changed = explained(exported)
    assert {p.arena: p.bytes for p in changed.peaks} == found.peaks
    assert not [a for a in changed.advice if a.kind == "constants"]
    assert loaded.program is not None
    assert all(map(torch.equal, before, run(exported, inputs)))


@pytest.mark.parametrize("name", [pytest.param("bert", marks=pytest.mark.slow), "early_exit"])
def test_outputs_over_inputs(name: str) -> None:
    exported, inputs = export(name)
    _, explanation = explained(exported)
    found = advice(explanation, "in_place")
    plan = lowtide.plan(exported, in_place=True)
    assert plan.arenas == found.peaks
    assert explanation.peak_bytes - plan.arena_bytes == found.wins
    _, shared = explained(exported, in_place=True)
    assert shared.peak_bytes == plan.lower_bound_bytes
    assert not [a for a in shared.advice if a.kind == "in_place"]
    assert lowtide.verify(plan, exported, in_place=True).followed
    assert replay(load(exported, Request(in_place=True)).origin, plan, inputs).runs == 2


class LateMask(torch.nn.Module):
    """A mask that is made first and read last, beside a wide layer in between."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = torch.nn.Linear(16, 256), torch.nn.Linear(256, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.exp(x)
        return self.narrow(torch.relu(self.wide(x))) * mask + x


def test_a_step_that_runs_later() -> None:
    inputs = (torch.randn(8, 16),)
    with torch.no_grad():
        exported = torch.export.export(LateMask().eval(), inputs)
    before = run(exported, inputs)
    _, explanation = explained(exported)
    found = advice(explanation, "delay")
    assert (found.subject, found.until, found.wins) == (("root/exp",), "root/mul", 8 * 16 * 4)
    graph = exported.graph_module.graph
    nodes = {node.name: node for node in graph.nodes}
    nodes["mul"].prepend(nodes["exp"])
    assert live_peaks(exported) == found.peaks
    assert all(map(torch.equal, before, run(exported, inputs)))


def test_lines_of_the_model_are_named() -> None:
    exported, _ = export("distilbert")
    _, explanation = explained(exported)
    (peak,) = explanation.peaks
    assert peak.at.source is not None
    assert peak.at.source.startswith("modeling_distilbert.py:")
    made = [alive for alive in peak.alive if alive.kind == "temporary"]
    assert made
    assert all((alive.source or "").startswith("modeling_distilbert.py:") for alive in made)
