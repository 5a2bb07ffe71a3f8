"""In which order ExecuTorch's emitter has carries and rows copied: what ``order="sequential"`` stands on."""

from __future__ import annotations

import pytest
import torch
from executorch.exir.dialects._ops import ops
from executorch.exir.schema import KernelCall, MoveCall

from lowtide.executorch import MemoryPlanningPass
from runtime import differences, eager, edge_of, lower
from zoo import ZOO

COPY, ROW = "aten::copy_", "executorch_prim::et_copy_index"


def instructions(name, planning=None):
    """Copies and moves of a program of the zoo, in order: what, to, from."""
    torch.manual_seed(0)
    model, calls = ZOO[name]()
    lowered = lower(edge_of(model, calls[0]), planning or MemoryPlanningPass())
    (method,) = lowered.manager.executorch_program.execution_plan
    found = []
    for instruction in method.chains[0].instructions:
        match instruction.instr_args:
            case KernelCall(op_index, args) if method.operators[op_index].name in (COPY, ROW):
                found.append((method.operators[op_index].name, args[0], args[1]))
            case MoveCall(move_from, move_to):
                found.append(("move", move_to, move_from))
    return found, method


def test_carries_in_order_then_rows_in_order():
    found, method = instructions("carries_that_rotate")
    assert [what for what, _, _ in found] == [COPY] * 6 + [ROW] * 2
    targets = [to for _, to, _ in found]
    assert targets[:3] == targets[3:6]
    assert len({*targets}) == 5
    assert targets[0] == method.outputs[0]
    sources = [source for _, _, source in found]
    assert set(sources[3:]).isdisjoint(targets), "what a carry was is held"


def test_a_branch_moves_pointers_and_no_move_reads_what_another_sets():
    found, _ = instructions("swapped_results")
    moves = [(to, source) for what, to, source in found if what == "move"]
    assert len(moves) == 4
    assert {to for to, _ in moves}.isdisjoint(source for _, source in moves)


TRADING = [name for name in ZOO if "carr" in name or "trade" in name or name == "chain_of_scans"]


@pytest.mark.parametrize("name", ["carries_that_trade_places", "carries_that_feed_rows"])
def test_what_is_held_is_noted(name):
    planning = MemoryPlanningPass(elide_copies=True)
    instructions(name, planning)
    assert planning.notes
    assert all("which an earlier copy changes" in note for note in planning.notes)


def without_clones(edge, view: bool) -> int:
    """Let the bodies of loops return what they clone, or a view of it; how many clones went."""
    gone = 0
    for module in edge.exported_program().graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule) or module is edge.exported_program().graph_module:
            continue
        for node in [n for n in module.graph.nodes if "clone" in str(n.target)]:
            (source, *_), shape = node.args, list(node.meta["val"].shape)
            if view:
                with module.graph.inserting_before(node):
                    source = module.graph.call_function(ops.edge.aten.view_copy.default, (source, shape))
                source.meta = dict(node.meta)
            node.replace_all_uses_with(source)
            module.graph.erase_node(node)
            gone += 1
        module.recompile()
    return gone


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "carries_that_rotate" else pytest.mark.slow)
        for name in TRADING
        if name not in ("view_of_carry", "carries_that_trade_places_without_clones")
    ],
)
@pytest.mark.parametrize("view", [False, True])
def test_carries_that_a_body_returns_as_they_are(name, view):
    """Passes that drop clones make such bodies; what an earlier copy changes is cloned again."""
    torch.manual_seed(0)
    model, calls = ZOO[name]()
    edge = edge_of(model, calls[0])
    assert without_clones(edge, view) >= 2
    for everything in (False, True):
        planning = MemoryPlanningPass(in_place=everything, elide_copies=everything, reorder=everything)
        assert differences(eager(model, calls), lower(edge, planning).run(calls)) == []
        assert view or any("returns a copy of" in note for note in planning.notes)
