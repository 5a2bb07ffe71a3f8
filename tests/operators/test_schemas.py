"""Which operands are read: the table against the operators themselves, and what follows for lifetimes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.passes.fake_tensor_prop import FakeTensorProp  # noqa: E402

from exports import FOUR, imported, names, step  # noqa: E402
from lowtide.frontends.torch_export import import_program  # noqa: E402
from lowtide.lifetimes.timeline import build_problem  # noqa: E402
from lowtide.operators.schemas import (  # noqa: E402
    leaves_bytes_undefined,
    looks_at,
    overwrites,
    schema_arguments,
)

aten = torch.ops.aten

EXTRA: dict[str, tuple[Any, ...]] = {
    "fill": (0.5,),
    "full_like": (0.5,),
    "new_full": ([4], 0.5),
    "randint_like": (9,),
    "geometric": (0.5,),
    "new_zeros": ([4],),
    "new_ones": ([4],),
    "copy": (torch.ones(4),),
    "is_same_size": (torch.ones(4),),
    "expand_as": (torch.ones(4),),
    "view_as": (torch.ones(4),),
    "reshape_as": (torch.ones(4),),
    "type_as": (torch.ones(4),),
}
"""Arguments beside ``self`` that an operator needs."""


def _overloads() -> list[Any]:
    """Every functional or in-place operator of PyTorch's own that takes a tensor called ``self``."""
    found = []
    for schema in torch._C._jit_get_all_schemas():
        takes_self = any(a.name == "self" and str(a.type) == "Tensor" for a in schema.arguments)
        if schema.name.startswith("aten::") and takes_self and not any(a.is_out for a in schema.arguments):
            packet = getattr(aten, schema.name[6:], None)
            overload = getattr(packet, schema.overload_name or "default", None)
            if isinstance(overload, torch._ops.OpOverload):
                found.append(overload)
    return found


def _name(operator: Any) -> str:
    return str(operator._schema.name[6:])


UNSEEN = sorted((op for op in _overloads() if not looks_at(op, "self")), key=str)


def test_the_table_names_what_it_should_and_nothing_else() -> None:
    fills = ("copy", "fill", "zero", "uniform", "random", "exponential", "geometric", "cauchy", "log_normal")
    like = ("empty", "zeros", "ones", "full", "rand", "randn", "randint")
    new = ("empty", "empty_strided", "zeros", "ones", "full")
    expected = {*fills, *(f"{name}_" for name in fills), "normal_", "normal_functional", "bernoulli_"}
    expected |= {f"{name}_like" for name in like} | {f"new_{name}" for name in new}
    sizes = {"size", "stride", "numel", "dim", "is_same_size", "device", "layout", "dtype"}
    found = {_name(op) for op in UNSEEN}
    assert {name for name in found - sizes if not name.startswith("sym_")} == expected
    assert {_name(op) for op in _overloads() if overwrites(op)} == {n for n in expected if n.endswith("_")}
    empty = {"empty_like", "new_empty", "new_empty_strided", "empty_quantized"}
    assert {_name(op) for op in _overloads() if leaves_bytes_undefined(op)} <= empty
    assert leaves_bytes_undefined(aten.empty.memory_format)
    assert not leaves_bytes_undefined(aten.empty.out)


def _outcome(operator: Any, old: torch.Tensor) -> Any:
    name = _name(operator).removesuffix("_")
    torch.manual_seed(0)
    return operator(old.clone(), *EXTRA.get(name, ()))


@pytest.mark.parametrize("operator", UNSEEN, ids=str)
def test_what_is_not_looked_at_makes_no_difference(operator: Any) -> None:
    """The same outcome from any bytes: of every operator whose arguments this test can make up."""
    if leaves_bytes_undefined(operator):
        assert operator._schema.returns[0].alias_info is None
        return
    olds = [torch.full((4,), value) for value in (0.0, -1e30, float("nan"))]
    try:
        outcomes = [_outcome(operator, old) for old in olds]
    except (RuntimeError, TypeError):  # it wants more: another overload of the name has to do
        assert _name(operator) in {_name(op) for op in UNSEEN if _runs(op)}
        return
    first = outcomes[0]
    for other in outcomes[1:]:
        assert torch.equal(first, other) if isinstance(first, torch.Tensor) else first == other


def _runs(operator: Any) -> bool:
    try:
        _outcome(operator, torch.zeros(4))
    except (RuntimeError, TypeError):
        return False
    return True


@pytest.mark.parametrize("name", ["expand_as", "view_as", "reshape_as", "type_as"])
def test_of_other_only_shape_and_type_matter(name: str) -> None:
    operator = getattr(aten, name).default
    assert looks_at(operator, "self")
    assert not looks_at(operator, "other")
    x = torch.arange(4.0)
    nan = torch.full((4,), float("nan"))
    assert torch.equal(operator(x, torch.zeros(4)), operator(x, nan))


def test_arguments_are_paired_by_position_and_by_name() -> None:
    pairs = schema_arguments(aten.add.Tensor, (1, 2), {"alpha": 3})
    assert [(argument.name, value) for argument, value in pairs] == [("self", 1), ("other", 2), ("alpha", 3)]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: torch.zeros_like(x.sin()), "zeros_like"),
        (lambda x: torch.rand_like(x.sin()), "rand_like"),
        (lambda x: x.sin().new_full((2,), 1.0), "new_full"),
        (lambda x: torch.ops.aten.fill.Scalar(x.sin(), 2), "fill"),
    ],
)
def test_who_wants_a_shape_reads_no_byte(function: Callable[..., Any], name: str) -> None:
    result = imported(function, FOUR)
    assert step(result, name).reads == ()
    lifetimes = {buffer.id: buffer.lifetime for buffer in build_problem(result.program).buffers}
    ((start, stop),) = lifetimes["root/sin"]
    assert stop == start + 1, "it is dead as soon as it is made"


def test_fills_are_full_writes_that_read_nothing() -> None:
    def function(x: torch.Tensor) -> Any:
        a = x.sin()
        a.fill_(2.0)
        b = x.cos()
        b[1:].zero_()
        return a, b

    result = imported(function, FOUR)
    fill, zero = step(result, "fill_"), step(result, "zero_")
    assert (fill.reads, names(result, fill.writes), fill.partial) == ((), ["root/sin"], ())
    assert (zero.reads, zero.writes, names(result, zero.partial)) == ((), (), ["root/slice_1"])


def test_functions_without_a_schema_are_watched_for_what_they_read() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            made = torch.zeros_like(x) + y
            made.view(16).fill_(1)
            return torch.add(made, made.t()), torch.nn.functional.layer_norm(x, (4,))

    graph = torch.fx.symbolic_trace(Model())
    FakeTensorProp(graph, FakeTensorMode(allow_non_fake_inputs=True)).propagate(FOUR, FOUR)
    result = import_program(graph)
    assert step(result, "zeros_like").reads == ()
    assert step(result, "view").reads == step(result, "t").reads == ()
    assert step(result, "fill_").reads == ()
    assert names(result, step(result, "fill_").partial) == ["root/view"]
    assert names(result, step(result, "add").reads) == ["root/zeros_like", "root/y"]
    assert names(result, step(result, "layer_norm").reads) == ["root/x"]


def test_batch_norm_as_a_function_writes_its_statistics() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
            return nn.functional.batch_norm(x, mean, var, training=True)

    graph = torch.fx.symbolic_trace(Model())
    FakeTensorProp(graph, FakeTensorMode(allow_non_fake_inputs=True)).propagate(FOUR, FOUR[0], FOUR[1])
    result = import_program(graph)
    assert names(result, step(result, "batch_norm").partial) == ["root/mean", "root/var"]
