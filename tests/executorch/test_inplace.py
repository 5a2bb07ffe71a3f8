"""In-place reuse that ExecuTorch's reinplace pass asks for."""

from __future__ import annotations

import itertools

import pytest
import torch
from executorch.exir.dialects._ops import ops
from torch import nn

from lowtide.base.errors import UnsupportedError
from lowtide.executorch import MemoryPlanningPass
from runtime import differences, eager, edge_of, lower
from zoo import Run, signs

ROWS = torch.tensor([1, 3])


def reuse(model, calls, options=None, edge=None, **config):
    """Lower with the reinplace pass, check the outputs; the planning pass."""
    torch.manual_seed(0)
    planning = MemoryPlanningPass(**(options or {}))
    lowered = lower(edge or edge_of(model, calls[0]), planning, **config)
    assert differences(eager(model, calls), lowered.run(calls)) == []
    return planning


def put(x, i):
    return x.tanh().index_put((i,), x[:2] * 3).view(24) * 2


def put_beside_a_view(x, i):
    h = x.tanh()
    v = h.view(24)
    return h.index_put((i,), x[:2] * 3) + 1, v * 2


def put_before_a_branch_reads(x, i):
    h = x.tanh()
    w = h.view(24)
    r = h.index_put((i,), x[:2] * 3).view(24)
    return torch.cond(x.sum() > 0, lambda w, r: w + r, lambda w, r: w - r, (w, r))


def test_granted_where_the_argument_dies():
    planning = reuse(Run(put), signs(4, 6, more=(ROWS - 1,)), run_reinplace_pass=True)
    assert planning.notes == []
    assert "root/aten_tanh_default" in planning.plan.names
    assert not any("index_put" in name for name in planning.plan.names)


@pytest.mark.parametrize("function", [put_beside_a_view, put_before_a_branch_reads])
def test_refused_while_a_view_lives(function):
    planning = reuse(Run(function), signs(4, 6, more=(ROWS - 1,)), run_reinplace_pass=True)
    (note,) = planning.notes
    assert "index_put" in note
    assert "root/aten_tanh_default is read after" in note


class Cache(nn.Module):
    """Rows put into a buffer, and read back."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(8, 4))

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        self.rows.index_put_((i,), x)
        return self.rows.sum(0) + x


class CacheAndOld(Cache):
    """The same, and what the buffer held before."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        old = self.rows.view(32)
        new = self.rows.index_put((i,), x).index_put((i - 1,), x * 2)
        result = new.view(32) - 2 * old
        self.rows.copy_(new)
        return result


CACHE_CALLS = [(torch.randn(2, 4), ROWS + n) for n in range(3)]


def test_state_is_changed_where_it_is():
    planning = reuse(Cache(), CACHE_CALLS, run_reinplace_pass=True)
    assert planning.notes == []
    assert sum(buffer.size == 128 for buffer in planning.plan.problem.buffers) == 1


def test_a_refusal_on_state_writes_the_new_value_back():
    planning = reuse(CacheAndOld(), CACHE_CALLS, run_reinplace_pass=True)
    (note,) = planning.notes
    assert "root/b_rows is read after" in note


def test_new_state_that_nobody_gets_has_a_place():
    """The emitter drops new values of state from the outputs, so that no caller provides memory for them."""
    planning = reuse(CacheAndOld(), CACHE_CALLS, {"alloc_graph_output": False}, run_reinplace_pass=True)
    assert "root/_clone_dim_order_out" in planning.plan.names  # a clone, changed in place by both operators


EXTRA = frozenset({ops.edge.aten._softmax.default})


def normalised(x):
    h = x * 2
    return torch.softmax(h, -1).permute(1, 0) * 2


def normalised_beside_a_view(x):
    h = x * 2
    v = h.view(24)
    return torch.softmax(h, -1).permute(1, 0) * 2, v + 1


class Written(nn.Module):
    """Rows put into an input and into a buffer; one new value comes back as an output too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(8, 4))

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new = self.rows.index_put((i,), x)
        self.rows.copy_(new)
        return new, new.softmax(-1)


REUSING = {
    "put": (Run(put), signs(4, 6, more=(ROWS - 1,)), {"run_reinplace_pass": True}),
    "put_beside_a_view": (
        Run(put_beside_a_view),
        signs(4, 6, more=(ROWS - 1,)),
        {"run_reinplace_pass": True},
    ),
    "put_before_a_branch_reads": (
        Run(put_before_a_branch_reads),
        signs(4, 6, more=(ROWS - 1,)),
        {"run_reinplace_pass": True},
    ),
    "cache": (Cache(), CACHE_CALLS, {"run_reinplace_pass": True}),
    "cache_and_old": (CacheAndOld(), CACHE_CALLS, {"run_reinplace_pass": True}),
    "cache_returned": (Written(), CACHE_CALLS, {"run_reinplace_pass": True, "reinplace_extra_ops": EXTRA}),
    "normalised": (Run(normalised), signs(4, 6), {"reinplace_extra_ops": EXTRA}),
    "normalised_beside_a_view": (Run(normalised_beside_a_view), signs(4, 6), {"reinplace_extra_ops": EXTRA}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REUSING)
def test_with_every_choice_of_what_is_planned(name):
    """Inputs and outputs planned or not, buffers shared between methods or not."""
    model, calls, config = REUSING[name]
    edge = edge_of(model, calls[0])
    for inputs, outputs, share in itertools.product((True, False), repeat=3):
        options = {
            "alloc_graph_input": inputs,
            "alloc_graph_output": outputs,
            "share_mutable_buffers": share,
        }
        reuse(model, calls, options, edge, emit_mutable_buffer_names=share, **config)


def test_two_names_of_one_shared_buffer_are_one_state():
    reuse(
        CacheAndOld(),
        CACHE_CALLS,
        {"share_mutable_buffers": True},
        emit_mutable_buffer_names=True,
        run_reinplace_pass=True,
    )


def test_result_of_an_out_variant_takes_the_bytes_of_its_argument():
    planning = reuse(Run(normalised), signs(4, 6), reinplace_extra_ops=EXTRA)
    assert planning.notes == []
    assert "root/aten__softmax_default" not in planning.plan.names


def test_out_variant_is_refused_where_a_view_of_the_argument_lives():
    planning = reuse(Run(normalised_beside_a_view), signs(4, 6), reinplace_extra_ops=EXTRA)
    (note,) = planning.notes
    assert "softmax" in note
    assert "root/aten__softmax_default" in planning.plan.names


def test_an_operator_of_another_type_is_refused():
    def compared(x):
        return (x * 2).argmax(dim=1) + 1

    extra = frozenset({ops.edge.aten.argmax.default})
    planning = reuse(Run(compared), signs(4, 6), reinplace_extra_ops=extra)
    assert planning.plan.arena_bytes > 0


def test_a_result_in_the_midst_of_an_argument_is_refused():
    class Marked(MemoryPlanningPass):
        def run(self, graph_module, graph_signature=None):
            node = next(n for n in graph_module.graph.nodes if "_softmax" in n.name)
            node.meta.update(_share_alloc_with_arg_idx=0, _shared_alloc_offset=16)
            return super().run(graph_module, graph_signature)

    with pytest.raises(UnsupportedError, match=r"_softmax\w*: a pass before this one wants it 16 bytes in"):
        lower(edge_of(Run(normalised), signs(4, 6)[0]), Marked())
