"""lowtide.fit: what is done, what it costs, what is left alone, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import io

import pytest
import torch
from torch import nn

import lowtide
from fit_models import mobilenet_v2
from lowtide.base.errors import InputError, UnsupportedError
from lowtide.fitting import proving
from lowtide.fitting.targets import target_of
from lowtide.transforms.fit import Limits, fit_program, floor_of
from lowtide.transforms.fit.ladder import _rewrite_steps
from lowtide.transforms.fit.preparing import prepare
from lowtide.transforms.rewrites import Change, Win


class Chain(nn.Module):
    """Two large maps around convolutions of three rows."""

    def __init__(self, wide: int = 16) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, wide, 3, padding=1)
        self.second = nn.Conv2d(wide, wide, 3, 2, padding=1)
        self.third = nn.Conv2d(wide, 4, 3, 2, padding=1)

    def forward(self, x):
        return self.third(torch.relu(self.second(torch.relu(self.first(x)))))


@pytest.fixture(scope="module")
def chain():
    torch.manual_seed(0)
    return torch.export.export(Chain().eval(), (torch.randn(1, 3, 32, 32),))


@pytest.fixture(scope="module")
def fitted(chain):
    return lowtide.fit(chain, runtime="pytorch")


def saved(program) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def test_a_chain_takes_a_part_of_its_arena(chain, fitted):
    assert fitted.changed
    assert fitted.fits
    assert fitted.arena_bytes <= 0.5 * fitted.arena_before
    assert fitted.floor.bytes <= fitted.arena_bytes
    assert 1 <= fitted.work <= 1.10
    assert [step.kind for step in fitted.steps][-1] == "split"
    assert fitted.proof.largest < 1e-5
    assert fitted.proof.replayed > len(list(chain.graph.nodes))


def test_steps_add_up(fitted):
    arena, macs = fitted.arena_before, fitted.macs_before
    for step in fitted.steps:
        arena, macs = arena - step.wins, macs + step.macs
        assert step.arena_bytes == arena
    assert (arena, macs) == (fitted.arena_bytes, fitted.macs)


def test_the_plan_is_that_of_the_program(fitted):
    lowtide.verify(fitted.plan, fitted.program, in_place=True, elide_copies=True)
    again = lowtide.plan(fitted.program, in_place=True, elide_copies=True)
    assert again.arena_bytes == fitted.arena_bytes


def test_the_input_is_left_alone(chain):
    before, names = str(chain.graph), [node.name for node in chain.graph.nodes]
    custom = [copy.deepcopy(node.meta.get("custom")) for node in chain.graph.nodes]
    found = lowtide.fit(chain, runtime="pytorch", prove=False)
    assert found.program is not chain
    assert (str(chain.graph), [node.name for node in chain.graph.nodes]) == (before, names)
    assert [node.meta.get("custom") for node in chain.graph.nodes] == custom
    assert found.program.graph_signature.user_inputs == chain.graph_signature.user_inputs
    assert found.program.state_dict.keys() == chain.state_dict.keys()


def test_the_trade_goes_from_the_whole_to_the_least(chain):
    found = lowtide.fit(chain, runtime="pytorch", prove=False, trade=True)
    sizes, macs = zip(*found.front, strict=True)
    assert list(sizes) == sorted(set(sizes))
    assert list(macs) == sorted(set(macs), reverse=True)
    assert macs[-1] == found.macs_before
    assert macs[0] <= 1.10 * found.macs_before


def test_the_result_is_frozen(fitted):
    with pytest.raises(dataclasses.FrozenInstanceError):
        fitted.macs = 0


def test_two_runs_write_the_same_file(chain, fitted):
    file = saved(chain)
    one, two = (
        saved(lowtide.fit(torch.export.load(io.BytesIO(file)), runtime="pytorch", prove=False).program)
        for _ in range(2)
    )
    assert one == two


@pytest.mark.parametrize("stored", [False, True])
def test_a_fitted_program_is_a_fixed_point(fitted, stored):
    program = fitted.program
    if stored:
        program = torch.export.load(io.BytesIO(saved(program)))
    again = lowtide.fit(program, runtime="pytorch")
    assert not again.changed
    assert again.program is program
    assert again.arena_bytes == fitted.arena_bytes
    assert (again.macs_before, again.macs) == (fitted.macs_before, fitted.macs)


def test_a_second_fit_has_no_new_budget_of_work(chain):
    first = lowtide.fit(chain, runtime="pytorch", max_macs=1.02, prove=False)
    second = lowtide.fit(first.program, runtime="pytorch", max_macs=1.10, prove=False)
    assert second.macs_before == first.macs_before
    assert second.work <= 1.10
    assert second.arena_bytes <= first.arena_bytes


def test_a_budget_that_planning_meets_changes_nothing(chain):
    found = lowtide.fit(chain, runtime="pytorch", max_arena=10**9)
    assert found.fits
    assert not found.changed
    assert found.program is chain
    assert found.steps == ()
    assert not found.allowed.in_place
    assert found.proof is None


def test_a_budget_ends_the_search_where_it_is_met(chain, fitted):
    budget = (fitted.steps[-1].arena_bytes + fitted.steps[-1].wins // 2) // 16 * 16
    found = lowtide.fit(chain, runtime="pytorch", max_arena=budget, prove=False)
    assert found.fits
    assert found.arena_bytes <= budget
    assert found.macs <= fitted.macs


def test_a_budget_that_cannot_be_met_gives_the_smallest(chain, fitted):
    budget = max(fitted.floor.interface_bytes, 16)
    found = lowtide.fit(chain, runtime="pytorch", max_arena=budget, prove=False)
    assert not found.fits
    assert found.arena_bytes <= fitted.arena_bytes


def test_a_budget_below_inputs_and_outputs_is_refused_by_figures(chain):
    with pytest.raises(InputError, match=r"max_arena 12,287: the inputs take 12,288 and the outputs 1,024"):
        lowtide.fit(chain, runtime="pytorch", max_arena=12_287)
    found = lowtide.fit(chain, runtime="pytorch", max_arena=12_287, plan_inputs=False, prove=False)
    assert found.floor.all_input_bytes == 0


@pytest.mark.parametrize(
    "limits", [{"max_arena": 0}, {"max_macs": 0.9}, {"timeout": -1}, {"fold_limit": -1}, {"runtime": "tvm"}]
)
def test_limits_that_mean_nothing_are_refused(chain, limits):
    with pytest.raises(InputError):
        lowtide.fit(chain, **{"runtime": "pytorch", **limits})


def test_dynamic_axes_are_named():
    batch = torch.export.Dim("batch", min=2, max=8)
    exported = torch.export.export(Chain(), (torch.randn(4, 3, 8, 8),), dynamic_shapes={"x": {0: batch}})
    with pytest.raises(UnsupportedError, match=r"axis 0 of x .*export without dynamic_shapes"):
        lowtide.fit(exported, runtime="pytorch")


def test_what_is_no_program_is_refused(tmp_path):
    table = tmp_path / "buffers.csv"
    table.write_text("id,lower,upper,size\na,0,3,4\n")
    with pytest.raises(InputError, match="is a csv file, whose operators cannot be changed"):
        lowtide.fit(table)
    with pytest.raises(InputError, match="a Chain"):
        lowtide.fit(Chain())


def test_an_interrupt_keeps_the_best_so_far(chain):
    def interrupt(what: str, best: int) -> None:
        if "2 tried" in what:
            raise KeyboardInterrupt

    found = lowtide.fit(chain, runtime="pytorch", progress=interrupt)
    assert found.interrupted
    assert not found.complete
    assert found.changed
    assert found.proof.largest < 1e-5
    again = lowtide.fit(found.program, runtime="pytorch", prove=False)  # its search was not finished
    assert again.arena_bytes <= found.arena_bytes


def test_an_interrupt_before_anything_was_won_gives_the_program_back(chain):
    def interrupt(what: str, best: int) -> None:
        raise KeyboardInterrupt

    found = lowtide.fit(chain, runtime="pytorch", progress=interrupt)
    assert found.interrupted
    assert found.program is chain
    assert found.arena_bytes == found.arena_before


def test_a_deadline_that_is_over_still_gives_a_right_answer(chain):
    found = lowtide.fit(chain, runtime="pytorch", timeout=0.0)
    assert found.arena_bytes <= found.arena_before
    assert not found.complete


def test_without_executorch_the_default_is_pytorch_and_says_so(chain, monkeypatch):
    def missing() -> None:
        raise UnsupportedError("executorch is not installed")

    monkeypatch.setattr("lowtide.executorch.version.require_supported", missing)
    found = lowtide.fit(chain, max_arena=10**9)
    assert found.runtime == "pytorch"
    assert any("executorch is not installed" in remark for remark in found.remarks)
    with pytest.raises(UnsupportedError, match="runtime executorch cannot be used"):
        lowtide.fit(chain, runtime="executorch")


def test_inputs_are_made_up_where_there_are_none(chain):
    bare = copy.copy(chain)
    bare._example_inputs = None
    (args, kwargs), source = proving.arguments_of(bare, None)
    assert source == "generated"
    assert [tuple(x.shape) for x in args] == [(1, 3, 32, 32)]
    assert kwargs == {}
    (given, _), source = proving.arguments_of(bare, (torch.ones(1, 3, 32, 32),))
    assert source == "given"
    assert torch.equal(given[0], torch.ones(1, 3, 32, 32))


def test_outputs_that_differ_by_more_than_rounding_are_an_error():
    one = torch.ones(3)
    assert proving._compare([one], [one.clone()]) == (True, 0.0)
    equal, largest = proving._compare([one], [one + 1e-6])
    assert not equal
    assert 0 < largest < 1e-5
    with pytest.raises(lowtide.ReplayError, match="output 0 of the fitted program"):
        proving._compare([one], [one + 1])


class Padded(nn.Module):
    """A pad that the convolution behind it can do by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.layer(nn.functional.pad(x, (1, 1, 1, 1)))


def test_rewrites_are_tried_and_told():
    torch.manual_seed(0)
    program = prepare(torch.export.export(Padded(), (torch.randn(1, 3, 16, 16),)))
    target, _ = target_of("pytorch")
    found = fit_program(program, target, Limits(max_macs=1.0))
    (step,) = [step for step in found.steps if step.kind == "rewrite"]
    assert step.remark == "absorb-pads"
    assert step.wins > 0
    none = fit_program(program, target, Limits(max_macs=1.0), rules=())
    assert all(step.kind != "rewrite" for step in none.steps)


def test_rewrites_that_won_nothing_themselves_belong_to_the_next():
    first = Change("absorb-pads", ("a",), "")
    second = Change("shrink-fills", ("b", "c"), "")
    wins = [Win("absorb-pads", True, 96, 96, (first,)), Win("shrink-fills", True, 96, 64, (second,))]
    (step,) = _rewrite_steps(wins)
    assert (step.wins, step.nodes, step.arena_bytes) == (32, ("a", "b", "c"), 64)
    assert step.remark == "absorb-pads and shrink-fills"
    (rounded,) = _rewrite_steps([Win("swap-product", False, 64, 32, ())])
    assert rounded.remark == "swap-product, which may round differently"


class Attention(nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(1, 2), -1) @ v


def test_the_floor_of_an_attention_is_its_interface_and_names_its_parts():
    size = 64 * 16 * 4
    q, k, v = (torch.randn(1, 64, 16) for _ in range(3))
    floor = floor_of(prepare(torch.export.export(Attention(), (q, k, v))))
    assert floor.all_input_bytes == 3 * size
    assert floor.all_output_bytes == size
    assert floor.bytes >= floor.interface_bytes == 3 * size


class Sorted(nn.Module):
    def forward(self, x):
        return torch.sort(x + 1, dim=0)[0][:1]


def test_the_floor_holds_what_an_operator_must_have_whole():
    floor = floor_of(prepare(torch.export.export(Sorted(), (torch.randn(64, 4),))))
    assert floor.step == "sort"
    assert floor.operator_bytes == 64 * 4 * 4  # the operand; the results hold what is returned
    assert floor.output_bytes == 64 * 4 * (4 + 8)
    assert floor.bytes == floor.input_bytes + floor.output_bytes + floor.operator_bytes


class Halves(nn.Module):
    """Its parameter is called input, as that of nn.Sequential is: a name that torch gives no node itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, input):
        return self.layers(input)


def test_names_of_builtins_survive():
    exported = torch.export.export(Halves(), (torch.randn(4, 8),))
    found = lowtide.fit(exported, runtime="pytorch")
    assert found.program.graph_signature.user_inputs == exported.graph_signature.user_inputs


@pytest.mark.slow
def test_a_mobile_net_fits():
    torch.manual_seed(0)
    model, inputs = mobilenet_v2(96, 10)
    found = lowtide.fit(torch.export.export(model, inputs), runtime="pytorch")
    assert found.arena_bytes <= 0.5 * found.arena_before
    assert found.proof.largest < 1e-4
