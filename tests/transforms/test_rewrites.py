"""Rewrites of programs that are not lowered: what they change, what they leave, and eager bits."""

from __future__ import annotations

import math
import operator

import pytest
import torch
from torch import nn
from torch.export import export
from torch.nn import functional

from lowtide.base.errors import InputError
from lowtide.transforms.rewrites import EVERY, dialect_of, rewrite
from lowtide.transforms.rewrites.editing import modules_of, operator_name

RULES = {rule.name: rule for rule in EVERY}


class Of(nn.Module):
    """A module that computes a function, with weights."""

    def __init__(self, function, **weights):
        super().__init__()
        self.function = function
        for name, weight in weights.items():
            self.register_parameter(name, nn.Parameter(weight, requires_grad=False))

    def forward(self, *inputs):
        return self.function(self, *inputs)


def exported(function, *inputs, **weights):
    torch.manual_seed(0)
    return export(Of(function, **weights).eval(), inputs).run_decompositions()


def names(program):
    return [
        operator_name(n) for m in modules_of(program.graph_module) for n in m.graph.nodes if operator_name(n)
    ]


def apply(name, program, *inputs, exact=True, **options):
    """What a rule makes of a program, checked against it."""
    before = str(program.graph)
    found = RULES[name].apply(program, dialect_of(program), **options)
    assert str(program.graph) == before
    assert found.program.graph_signature == program.graph_signature
    assert found.program.state_dict.keys() == program.state_dict.keys()
    for change in found.changes:
        assert change.rule == name
        assert change.nodes
        assert change.note
    ends = [p.graph.output_node().args[0] for p in (program, found.program)]
    for old, new in zip(*ends, strict=True):
        assert old.name == new.name
        assert old.meta["val"].shape == new.meta["val"].shape
        assert old.meta["val"].dtype == new.meta["val"].dtype
    for node in found.program.graph.nodes:
        assert node.op != "call_function" or "val" in node.meta
    for old, new in zip(program.module()(*inputs), found.program.module()(*inputs), strict=True):
        close = torch.allclose(old, new, rtol=1e-5, atol=1e-5)
        assert torch.equal(old, new) if exact else close
    return found


def convolved(pad, *, size=9, value=0.0, finite=True, **options):
    weight = torch.randn(4, 3, 3, 3)
    if not finite:
        weight[0, 0, 0, 0] = math.inf

    def function(self, x):
        return (functional.conv2d(functional.pad(x, pad, value=value), self.weight, **options),)

    return exported(function, torch.randn(1, 3, size, size), weight=weight)


@pytest.mark.parametrize(
    ("pad", "size", "options"),
    [
        ((1, 1, 1, 1), 9, {}),
        ((2, 2, 1, 1), 9, {"stride": 2, "padding": 1}),
        ((0, 1, 0, 1), 9, {"stride": 2}),  # nobody reads the last zeros
        ((1, 0, 1, 0), 8, {"stride": 2}),  # the zeros behind are read by no further window
        ((2, 2, 2, 2), 9, {"dilation": 2}),
    ],
)
def test_a_pad_that_the_convolution_can_do_is_gone(pad, size, options):
    program = convolved(pad, size=size, **options)
    found = apply("absorb-pads", program, torch.randn(1, 3, size, size), exact=False)
    assert "constant_pad_nd" not in names(found.program)
    (before,), (after,) = (
        [n for n in p.graph.nodes if operator_name(n) == "convolution"] for p in (program, found.program)
    )
    assert after.name == before.name
    assert after.meta["stack_trace"] == before.meta["stack_trace"]
    assert after.meta["nn_module_stack"] == before.meta["nn_module_stack"]


def test_of_a_lopsided_pad_the_lopsided_part_stays():
    program = convolved((1, 2, 1, 2))
    found = apply("absorb-pads", program, torch.randn(1, 3, 9, 9), exact=False)
    (pad,) = (n for n in found.program.graph.nodes if operator_name(n) == "constant_pad_nd")
    assert list(pad.args[1]) == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "program",
    [
        lambda: convolved((0, 1, 0, 1), size=8, stride=2),  # would need another window
        lambda: convolved((1, 1, 1, 1), value=1.0),
        lambda: convolved((1, 1, 1, 1), finite=False),  # zero times infinity
        lambda: convolved((-1, 1, -1, 1)),
    ],
)
def test_pads_that_would_change_something_stay(program):
    program = program()
    assert not RULES["absorb-pads"].apply(program, dialect_of(program)).changes


def test_a_pad_that_others_read_stays_for_them():
    def function(self, x):
        padded = functional.pad(x, (1, 1, 1, 1))
        return functional.conv2d(padded, self.weight), padded

    x = torch.randn(1, 3, 5, 5)
    program = exported(function, x, weight=torch.randn(2, 3, 3, 3))
    found = apply("absorb-pads", program, x, exact=False)
    assert found.changes
    assert names(found.program).count("constant_pad_nd") == 1


def test_pools_take_pads_over_where_their_own_are_the_same():
    x = torch.randn(1, 3, 8, 8)

    def average(self, x):
        return (functional.avg_pool2d(functional.pad(x, (1, 1, 1, 1)), 3, 2, count_include_pad=False),)

    def maximum(value):
        return lambda self, x: (functional.max_pool2d(functional.pad(x, (1, 1, 1, 1), value=value), 3, 2),)

    assert "constant_pad_nd" not in names(apply("absorb-pads", exported(average, x), x, exact=False).program)
    assert "constant_pad_nd" not in names(apply("absorb-pads", exported(maximum(-math.inf), x), x).program)
    zeros = exported(maximum(0.0), x)
    assert not RULES["absorb-pads"].apply(zeros, dialect_of(zeros)).changes


def test_a_fill_that_is_broadcast_is_one_element():
    x = torch.randn(2, 5, 7)
    program = exported(lambda self, x: (torch.where(x > 0, torch.full_like(x, 0.5), x),), x)
    found = apply("shrink-fills", program, x)
    fills = [n for n in found.program.graph.nodes if operator_name(n).startswith("full")]
    assert [tuple(n.meta["val"].shape) for n in fills] == [(1, 1, 1)]


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: (torch.full_like(x, 2.0),),  # it is the output
        lambda self, x: (torch.full_like(x, 2.0) + x[:1, :1, :1],),  # it alone makes the shape
        lambda self, x: (torch.full_like(x, 2.0) @ x.transpose(1, 2),),
        lambda self, x: (x / torch.full_like(x, 3.0),),  # one divisor is divided by in another way
    ],
)
def test_fills_that_are_more_than_a_number_stay(function):
    x = torch.randn(2, 5, 7)
    program = exported(function, x)
    assert not RULES["shrink-fills"].apply(program, dialect_of(program)).changes


def test_equal_constants_are_computed_once():
    weight = torch.randn(4, 4)
    x = torch.randn(4, 8)
    program = exported(
        lambda self, x: ((self.a.t() @ x) * torch.zeros(4, 8), (self.b.t() @ x) + torch.zeros(4, 8)),
        x,
        a=weight,
        b=weight.clone(),
    )
    found = apply("merge-equal", program, x)
    kinds = names(found.program)
    assert kinds.count("full") == 1
    assert kinds.count("permute") == 1


def test_what_differs_is_not_merged():
    x = torch.randn(4)

    def function(self, x):
        a, b = torch.full((4,), 1.0), torch.full((4,), 1, dtype=torch.int64)
        return (
            x + a,
            x * b,
            x + torch.full((4,), 0.0),
            x * torch.full((4,), -0.0),
            torch.rand(4),
            torch.rand(4),
        )

    program = export(Of(function), (x,)).run_decompositions()
    assert not RULES["merge-equal"].apply(program, dialect_of(program)).changes


def test_outputs_are_not_merged():
    x = torch.randn(4)
    program = exported(lambda self, x: (torch.zeros(4), torch.zeros(4), x + 1), x)
    assert not RULES["merge-equal"].apply(program, dialect_of(program)).changes


def product(rows=3, inner=40, columns=80, bias=True):
    weights = {"weight": torch.randn(columns, inner)}
    if bias:
        weights["bias"] = torch.randn(columns)
    function = lambda self, x: (functional.linear(x, self.weight, self.bias if bias else None),)  # noqa: E731
    return exported(function, torch.randn(rows, inner), **weights)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    ("rule", "bias"),
    [("linear", False), ("biased-linear", True), ("swap-product", False), ("swap-biased-product", True),
     ("product-in-columns", False), ("product-in-columns", True)],
)  # fmt: skip
def test_a_weight_is_not_transposed_whole(rule, bias, rows):
    program = product(rows, bias=bias)
    if rule == "linear":
        assert not RULES[rule].apply(program, dialect_of(program)).changes  # too few rows to be right in 1.4
        rows, program = rows + 3, product(rows + 3, bias=bias)
    found = apply(rule, program, torch.randn(rows, 40), exact=False)
    assert found.changes
    turned = [n.meta["val"].numel() for n in found.program.graph.nodes if operator_name(n) == "permute"]
    assert max(turned, default=0) <= 40 * 16


def test_a_swap_that_would_transpose_more_is_none():
    program = product(rows=70)
    assert not RULES["swap-biased-product"].apply(program, dialect_of(program)).changes


def test_a_product_of_factors_stays():
    x = torch.randn(3, 4)
    program = exported(
        lambda self, x: (torch.addmm(self.bias, x, self.weight.t(), alpha=2.0),),
        x,
        weight=torch.randn(5, 4),
        bias=torch.randn(5),
    )
    for rule in ("biased-linear", "swap-biased-product", "product-in-columns"):
        assert not RULES[rule].apply(program, dialect_of(program)).changes


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("options", [{"stride": 2, "padding": 1}, {"stride": 3, "ceil_mode": True}])
def test_a_pooling_has_few_indices(batch, options):
    x = torch.randn(batch, 8, 10, 10)
    program = exported(lambda self, x: (functional.max_pool2d(x, 3, **options),), x)
    found = apply("pool-in-parts", program, x)
    pools = [n.meta["val"][1].numel() for n in found.program.graph.nodes if "max_pool" in operator_name(n)]
    assert len(pools) > 1
    (whole,) = (n.meta["val"].numel() for n in program.graph.nodes if n.target is operator.getitem)
    assert sum(pools) == whole


def test_a_pooling_whose_indices_are_read_stays():
    x = torch.randn(1, 8, 10, 10)
    program = exported(lambda self, x: functional.max_pool2d(x, 2, return_indices=True), x)
    assert not RULES["pool-in-parts"].apply(program, dialect_of(program)).changes


def test_a_mean_is_a_mean_of_means():
    x = torch.randn(1, 3, 8, 8)
    program = exported(lambda self, x: (x.mean([2, 3]), x.mean([-1, -2], keepdim=True)), x)
    found = apply("mean-in-parts", program, x, exact=False)
    assert len(found.changes) == 2


def test_graphs_that_write_in_place_are_left_alone():
    def function(self, x):
        first, second = torch.zeros(4), torch.zeros(4)
        first.view(2, 2).add_(1)
        return x + first, x + second

    program = export(Of(function), (torch.randn(4),))
    assert any("add_" in str(node.target) for node in program.graph.nodes)
    for rule in EVERY:
        assert not rule.apply(program, dialect_of(program)).changes


def test_branches_are_rewritten_too():
    x = torch.randn(2, 5)

    def function(self, x):
        def yes(x):
            return torch.where(x > 0, torch.full_like(x, 3.0), x)

        return (torch.cond(x.sum() > 0, yes, lambda x: x * 2, (x,)),)

    program = exported(function, x)
    found = RULES["shrink-fills"].apply(program, dialect_of(program))
    assert found.changes
    assert RULES["shrink-fills"].apply(found.program, dialect_of(found.program)).changes == ()
    for sign in (1, -1):
        inputs = (x.abs() * sign,)
        assert torch.equal(program.module()(*inputs)[0], found.program.module()(*inputs)[0])


def filled():
    def function(self, x):
        y = x * 2
        return (torch.where(y > 0, torch.full_like(y, 0.5), y),)

    return exported(function, torch.randn(64, 64))


def transposed_bytes(program):
    return sum(n.meta["val"].numel() for n in program.graph.nodes if operator_name(n) == "permute")


def test_rules_that_win_are_kept_and_nothing_else():
    program = filled()
    found = rewrite(program)
    assert found.arena_after < found.arena_before
    assert [win.rule for win in found.wins] == ["shrink-fills"]
    assert all(win.keeps_bits and win.after <= win.before for win in found.wins)
    assert found.changes == found.wins[0].changes
    again = rewrite(found.program)
    assert again.program is found.program
    assert not again.wins
    assert str(rewrite(program).program.graph) == str(found.program.graph)


def test_a_judge_that_wins_nothing_changes_nothing():
    program = product()
    found = rewrite(program, judge=lambda _: 100)
    assert found.program is program
    assert not found.wins


def test_rules_are_chosen_by_name_and_by_what_they_need():
    program = product(4, bias=False)
    options = {"judge": transposed_bytes}
    assert [win.rule for win in rewrite(program, kernels=("linear",), **options).wins] == ["linear"]
    assert not rewrite(program, **options).wins  # parts are transposed, which are as much in all
    found = rewrite(program, allow_rounding=True, rules=("swap-product",), **options)
    assert [win.rule for win in found.wins] == ["swap-product"]
    assert not found.wins[0].keeps_bits
    assert not rewrite(program, rules=("shrink-fills",), **options).wins
    with pytest.raises(InputError, match="rule 'nonsense': no rewrite has this name"):
        rewrite(program, rules=("nonsense",))
    with pytest.raises(InputError, match="may round differently"):
        rewrite(program, rules=("swap-product",))
    with pytest.raises(InputError, match="needs a kernel for linear"):
        rewrite(program, rules=("linear",))
