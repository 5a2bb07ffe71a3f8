"""The torch.export front end: sizes, views, several results, operators in place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.export import Dim  # noqa: E402

from exports import FOUR, Lambda, imported, names, region, step, storage, storages, value  # noqa: E402
from lowtide.base.errors import UnsupportedError  # noqa: E402
from lowtide.frontends.torch_export import import_program  # noqa: E402

# Sizes, shapes, sources.


def test_size_is_the_span_rounded_up_to_the_alignment() -> None:
    result = imported(lambda x: x.add(1).sum(dim=1), torch.ones(3, 5), alignment=32)
    assert storage(result, "root/add").size == 64  # 3 * 5 * 4 = 60
    assert storage(result, "root/sum_1").size == 32  # 3 * 4 = 12
    assert storage(result, "root/add").alignment == 32
    assert storage(result, "root/add").shape == (3, 5)
    assert storage(result, "root/add").dtype == "float32"


def test_strides_with_gaps_count_and_empty_tensors_do_not() -> None:
    spaced = torch.empty(64)[: 4 * 16].as_strided((4, 4), (16, 1))
    result = import_program(
        torch.export.export(Lambda(lambda x, e: (x + 1, e * 2)), (spaced, torch.ones(0, 3)))
    )
    assert storage(result, "root/inputs_0").size == 208  # (3 * 16 + 3 + 1) * 4
    assert value(result, "root/inputs_0").layout == ""
    assert storage(result, "root/inputs_1").size == 0
    assert storage(result, "root/mul").size == 0


def test_steps_say_where_they_come_from() -> None:
    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin()

    result = import_program(torch.export.export(nn.Sequential(Inner(), nn.ReLU()), (FOUR,)))
    assert step(result, "sin").operator == "aten.sin.default"
    assert (step(result, "sin").source or "").startswith("test_torch_export.py:")
    assert (step(result, "sin").source or "").endswith(" in forward (0)")
    assert (step(result, "relu").source or "").endswith("(1)")
    assert storage(result, "root/sin").source == step(result, "sin").source


# Views, by schema and by trial.


@pytest.mark.parametrize(
    ("function", "covers"),
    [
        (lambda t: t.view(16), True),
        (lambda t: t.transpose(0, 1), True),
        (lambda t: t.unsqueeze(0), True),
        (lambda t: t.reshape(2, 8), True),
        (lambda t: t.expand_as(t), True),
        (lambda t: t.to(torch.float32), True),
        (lambda t: torch.nn.functional.dropout(t, 0.5, False), True),
        (lambda t: t.type_as(t), True),
        (lambda t: t[1:3], False),
        (lambda t: t.diagonal(), False),
        (lambda t: t.expand(3, 4, 4), False),
        (lambda t: torch.einsum("ij->ji", t), True),
    ],
)
def test_views_share_the_storage_of_their_base(function: Callable[..., Any], covers: bool) -> None:
    result = imported(lambda x: function(x.sin()).cos(), FOUR)
    (made,) = (s for s in region(result, "root").steps if s.operator == "aten.cos.default")
    (read,) = made.reads
    view = result.program.values[read]
    assert view.aliases == (result.program.value("root/sin"),)
    assert bool(view.layout) is covers
    assert len(result.program.storages) == 3  # input, sin, cos


def test_view_steps_read_and_write_nothing() -> None:
    result = imported(lambda x: x.sin().view(-1).cos(), FOUR)
    assert (step(result, "view").reads, step(result, "view").writes) == ((), ())
    assert value(result, "root/view").layout == "C"


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t.t().contiguous(),
        lambda t: t.t().reshape(16),
        lambda t: t.to(torch.float64),
        lambda t: t.clone(),
    ],
)
def test_what_must_copy_has_its_own_storage(function: Callable[..., Any]) -> None:
    result = imported(lambda x: function(x.sin()).cos(), FOUR)
    assert len(result.program.storages) == 4
    (made,) = (s for s in region(result, "root").steps if s.operator == "aten.cos.default")
    assert result.program.values[made.reads[0]].storage is not None


def test_alias_decisions_are_the_same_after_a_file(tmp_path: Path) -> None:
    module = Lambda(
        lambda x: (torch.nn.functional.dropout(x.sin(), 0.5, False).reshape(16), x.t().contiguous() + 1)
    )
    exported = torch.export.export(module, (torch.randn(4, 4),))
    torch.export.save(exported, tmp_path / "p.pt2")
    assert import_program(tmp_path / "p.pt2").program == import_program(exported).program


def test_layout_names_a_dense_permutation_and_chains_of_views_stay_flat() -> None:
    result = imported(lambda x: x.sin().view(2, 8).t()[:, 0:1].squeeze(1).cos(), FOUR)
    assert value(
        result, "root/t" if "root/t" in {v.name for v in result.program.values} else "root/numpy_t"
    ).layout
    sin = result.program.value("root/sin")
    assert {v.aliases for v in result.program.values if v.storage is None} == {(sin,)}


def test_an_undecidable_copy_has_its_own_storage_and_may_alias() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    shaped = graph.call_function(torch.ops.aten.reshape.default, (x, [3, 5]))  # cannot run: 16 elements
    graph.output(shaped)
    with FakeTensorMode():
        x.meta["val"], shaped.meta["val"] = torch.empty(4, 4), torch.empty(4, 4)
    result = import_program(torch.fx.GraphModule({}, graph))
    made = value(result, "root/reshape_default")
    assert made.storage is not None
    assert made.aliases == (result.program.value("root/x"),)
    assert step(result, "reshape_default").reads == (result.program.value("root/x"),)


# Several results, none, scalars.


def test_multi_output_operators_have_a_value_for_each_result() -> None:
    def function(x: torch.Tensor) -> Any:
        best, where = torch.topk(x, 2)
        most, at = x.max(dim=0)
        halves = x.split(2)
        normed = torch.native_layer_norm(x, [4], None, None, 1e-5)
        return best, where, most, at, halves[0] + halves[1], normed[0]

    result = imported(function, FOUR)
    assert step(result, "topk").writes == tuple(result.program.value(f"root/topk.{i}") for i in (0, 1))
    assert storage(result, "root/topk.1").dtype == "int64"
    assert storage(result, "root/max_1.0").size == 16
    assert storage(result, "root/split.1") == storage(result, "root/inputs_0")
    assert step(result, "split").writes == ()
    assert [storage(result, f"root/native_layer_norm.{i}").size for i in range(3)] == [64, 16, 16]
    binding = result.regions[0]
    (element,) = (n for n in binding.values if n.name == "getitem")
    assert binding.values[element] == result.program.value("root/topk.0")


def test_none_scalar_and_symbolic_outputs() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x + 1, None, 3, x.shape[0], True

    exported = torch.export.export(Model(), (FOUR,), dynamic_shapes={"x": {0: Dim("n", min=2, max=8)}})
    result = import_program(exported)
    assert names(result, result.program.regions[0].outputs) == ["root/add", None, None, None, None]
    assert result.outputs[1:3] == (None, 3)
    assert result.outputs[3].name.startswith("sym_size")


def test_item_reads_its_tensor_and_sizes_read_nothing() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n = x.sum().int().item()
            torch._check(n >= 0)
            torch._check(n <= 10)
            return x.new_zeros(n) + x.shape[0]

    exported = torch.export.export(Model(), (FOUR,), dynamic_shapes={"x": {0: Dim("n", min=2, max=8)}})
    result = import_program(exported)
    item = next(s for s in region(result, "root").steps if s.operator == "aten.item.default")
    assert len(item.reads) == 1
    assert item.writes == ()
    sizes = [s for s in region(result, "root").steps if s.operator.startswith("aten.sym_size")]
    assert sizes
    assert all(s.reads == () and not s.effects for s in sizes)
    assert storage(result, "root/new_zeros").size == 48  # ten floats, at most


# In place.


def test_in_place_operators_change_their_target_in_part() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        made = x + 1
        made.mul_(2)
        made[0].fill_(3)
        return made.relu_()

    result = imported(function, FOUR)
    made = result.program.value("root/add")
    assert step(result, "mul_").partial == (made,)
    assert made in step(result, "mul_").reads
    assert step(result, "mul_").writes == ()
    assert storages(result, "output") == ["root/add"]
    assert names(result, step(result, "fill_").partial) == ["root/select"]
    assert len(result.program.storages) == 2


def test_copy_and_out_write_whole_storages_in_full_and_parts_in_part() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        made = torch.empty(4, 4)
        torch.add(x, 1, out=made)
        made[:2].copy_(x[2:])
        made.copy_(x)
        return made

    result = imported(function, FOUR)
    made = result.program.value("root/empty")
    assert step(result, "add").writes == (made,)
    assert step(result, "add").reads == (result.program.value("root/inputs_0"),)
    part, whole = step(result, "copy_"), step(result, "copy__1")
    assert names(result, part.partial) == ["root/slice_1"]
    assert part.writes == ()
    assert (len(whole.writes), whole.partial) == (1, ())
    assert whole.reads == (result.program.value("root/inputs_0"),)


def test_functional_form_writes_mutated_inputs_and_state_back() -> None:
    class Model(nn.Module):
        state: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state.add_(x)
            x.mul_(2)
            return x + self.state

    exported = torch.export.export(Model(), (FOUR.clone(),))
    in_place, functional = import_program(exported), import_program(exported.run_decompositions())
    assert in_place.program.writebacks == ()
    assert names(in_place, step(in_place, "add_").partial) == ["root/b_state"]
    assert [names(functional, pair) for pair in functional.program.writebacks] == [
        ["root/b_state", "root/add"],
        ["root/x", "root/mul"],
    ]
    for result in (in_place, functional):
        assert storages(result, "state") == ["root/b_state"]
        assert storages(result, "input") == ["root/x"]
        (returned,) = result.program.regions[0].outputs
        assert names(result, [returned])[0] in {"root/add", "root/add_1"}
        assert storage(result, "root/b_state").persistent
        assert [t.shape for t in result.tensors.values()] == [(4, 4)]


def test_batch_norm_in_training_writes_its_statistics_without_saying_so() -> None:
    exported = torch.export.export(nn.BatchNorm1d(4).train(), (FOUR,))
    result = import_program(exported)
    assert storages(result, "state") == [
        "root/b_running_mean",
        "root/b_running_var",
        "root/b_num_batches_tracked",
    ]
    asleep = import_program(torch.export.export(nn.BatchNorm1d(4).eval(), (FOUR,)))
    assert storages(asleep, "state") == []


def test_mutating_custom_operators() -> None:
    with torch.library._scoped_library("lowtide_test", "FRAGMENT"):

        @torch.library.custom_op("lowtide_test::bump", mutates_args=("x",))
        def bump(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            return x + y

        bump.register_fake(lambda x, y: torch.empty_like(y))
        exported = torch.export.export(Lambda(lambda x: torch.ops.lowtide_test.bump(x.sin(), x)), (FOUR,))
        result = import_program(exported)
        assert names(result, step(result, "bump").partial) == ["root/sin"]
        functional = import_program(exported.run_decompositions())
        (made,) = (
            s for s in region(functional, "root").steps if s.operator.startswith("auto_functionalized")
        )
        assert made.partial == ()
        assert len(made.writes) == 2  # the result, and the changed copy
        assert set(names(functional, made.reads)) == {"root/sin", "root/inputs_0"}


def test_growing_a_tensor_is_refused() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    grown = graph.call_function(torch.ops.aten.resize_.default, (x, [8]))
    graph.output(grown)
    x.meta["val"], grown.meta["val"] = torch.empty(4, device="meta"), torch.empty(8, device="meta")
    with pytest.raises(UnsupportedError, match=r"'resize__default'.*moves or grows"):
        import_program(torch.fx.GraphModule({}, graph))
