"""ATen's CPU kernels with ``out`` exactly over an input: the table of the front end against the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from lowtide.operators.aten import FIRST, out_variant, overwrites_of  # noqa: E402
from lowtide.operators.moves import laid_out  # noqa: E402

aten = torch.ops.aten

SHAPES = ((), (1,), (17,), (33, 65), (2, 3, 5), (2, 3, 4, 7), (1, 2, 3, 2, 5), (40007,))
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
DTYPES = (*FLOATS, torch.complex64, torch.int64, torch.uint8, torch.bool)


def operators() -> Iterator[Any]:
    """Every overload that the table may allow."""
    # ``dir`` would show only what something in this process has looked up.
    schemas = torch._C._jit_get_all_schemas()
    for name in sorted({s.name.removeprefix("aten::") for s in schemas if s.name.startswith("aten::")}):
        packet = getattr(aten, name, None)
        if isinstance(packet, torch._ops.OpOverloadPacket):
            for overload in packet.overloads():
                operator = getattr(packet, overload)
                listed = torch.Tag.pointwise in operator.tags or name in FIRST
                if listed and not operator._schema.is_mutable:
                    yield operator


class Maker:
    """Tensors with all kinds of values, laid out like one another."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, order: str) -> None:
        self.shape, self.dtype, self.order = shape, dtype, order
        self.generator = torch.Generator().manual_seed(len(shape))

    def make(self, small: bool = False) -> Any:
        shape = self.shape[1:] if small else self.shape
        if self.dtype.is_floating_point or self.dtype.is_complex:
            kind = self.dtype if self.dtype.is_complex else torch.float32
            found = (torch.randn(shape, generator=self.generator, dtype=kind) * 2).to(self.dtype)
        else:
            high = 2 if self.dtype == torch.bool else 9
            found = torch.randint(0 if high == 2 else 1, high, shape, generator=self.generator).to(self.dtype)
        if self.order == "permuted" and not small:
            turned = tuple(reversed(range(found.dim())))
            found = found.permute(turned).contiguous().permute(turned)
        if self.order == "gaps" and not small:
            found = torch.stack([found, found], -1)[..., 0]
        return found


def argument(kind: str, name: str, maker: Maker, small: bool) -> Any:
    """A value for one argument of a schema; small tensors are broadcast."""
    if kind in ("Tensor", "Optional[Tensor]"):
        found = maker.make(small)
        return found.to(torch.bool) if name in ("condition", "mask") else found
    numbers = {"number": 2, "int": 1, "float": 0.5, "bool": False, "List[int]": list(maker.shape[-1:])}
    if name == "dim":
        return -1
    if name == "n":
        return 1
    return numbers.get(kind)


def calls(operator: Any, maker: Maker) -> Iterator[list[Any]]:
    """Arguments: all tensors of one shape, one tensor throughout, and all but one of a smaller shape."""
    declared = [
        (str(a.type), a.name, a.has_default_value(), a.default_value) for a in operator._schema.arguments
    ]
    tensors = [i for i, (kind, *_) in enumerate(declared) if kind in ("Tensor", "Optional[Tensor]")]

    def built(small: frozenset[int] = frozenset(), one: Any = None) -> list[Any]:
        found = []
        for i, (kind, name, has_default, default) in enumerate(declared):
            if has_default and i not in tensors:
                found.append(default)
            elif one is not None and i in tensors and name not in ("condition", "mask"):
                found.append(one)
            else:
                found.append(argument(kind, name, maker, i in small))
        return found

    yield built()
    if len(tensors) > 1:
        yield built(one=maker.make())
        if maker.shape:
            for i in tensors:
                yield built(frozenset(tensors) - {i})


def positional(operator: Any, values: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Split values into what is passed by position and what by keyword only."""
    args, kwargs = [], {}
    for declared, value in zip(operator._schema.arguments, values, strict=True):
        if declared.kwarg_only:
            kwargs[declared.name] = value
        else:
            args.append(value)
    return args, kwargs


def normalised(operator: Any, maker: Maker) -> list[Any]:
    """The two whose arguments have to fit together."""
    x = maker.make()
    if "layer" in str(operator):
        return [x, list(maker.shape[-1:]), None, None, 1e-5]
    n, c, *rest = maker.shape
    return [x, None, None, n, c, torch.Size(rest).numel(), 1, 1e-5]


def attempts(operator: Any, maker: Maker) -> Iterator[tuple[list[Any], int]]:
    """Calls that the operator takes, each with the position of an argument that it may write over."""
    norm = "native_" in str(operator) and "norm" in str(operator)
    if norm and len(maker.shape) < 3:
        return
    for values in [normalised(operator, maker)] if norm else calls(operator, maker):
        args, kwargs = positional(operator, values)
        try:
            results = operator(*args, **kwargs)
        except (RuntimeError, NotImplementedError, IndexError, ValueError):
            continue  # not of this type, or not of these shapes
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        if not all(isinstance(result, torch.Tensor) for result in results):
            continue
        stand_in = {id(v): laid_out(v, {}) for v in values if isinstance(v, torch.Tensor)}
        metas = [stand_in.get(id(v), v) for v in values]
        meta_args, meta_kwargs = positional(operator, metas)
        for _, over in overwrites_of(operator, meta_args, meta_kwargs, [laid_out(r, {}) for r in results]):
            yield values, next(i for i, meta in enumerate(metas) if meta is over)


def same_bits(a: Any, b: Any) -> bool:
    if a.is_complex() and b.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    return (
        a.dtype == b.dtype
        and torch.equal(torch.isnan(a), torch.isnan(b))
        and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
    )


def check(operator: Any, values: list[Any], over: int) -> None:
    """The ``out`` variant, writing over one argument, computes what the operator does."""
    args, kwargs = positional(operator, values)
    expected = operator(*args, **kwargs)
    found = out_variant(operator)
    assert found is not None
    variant, names = found
    several = not isinstance(expected, torch.Tensor)
    outs = [values[over], *(map(torch.empty_like, expected[1:]) if several else ())]
    place = values[over].data_ptr()
    variant(*args, **kwargs, **dict(zip(names, outs, strict=True)))
    assert values[over].data_ptr() == place
    for a, b in zip(expected if several else [expected], outs, strict=True):
        assert same_bits(a, b), f"{operator} over argument {over}"


def check_all(
    shapes: tuple[tuple[int, ...], ...], dtypes: tuple[Any, ...], orders: tuple[str, ...]
) -> set[str]:
    """Everything that the table allows; names of operators that were tried."""
    tried = set()
    faults = []
    for operator in operators():
        for shape in shapes:
            for dtype in dtypes:
                for order in orders:
                    for values, over in attempts(operator, Maker(shape, dtype, order)):
                        try:
                            check(operator, values, over)
                        except (RuntimeError, AssertionError) as error:
                            faults.append(f"{operator} {shape} {dtype} {order} {over}: {str(error)[:90]}")
                        tried.add(str(operator))
    assert faults == []
    return tried


def test_out_over_arguments() -> None:
    dtypes = (torch.float32, torch.complex64, torch.int64, torch.bool)
    tried = check_all(((2, 3, 5),), dtypes, ("plain", "permuted"))
    assert len(tried) > 150
    assert {
        "aten.add.Tensor",
        "aten._softmax.default",
        "aten.where.self",
        "aten.native_layer_norm.default",
    } < tried


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_out_over_arguments_of_all_kinds(dtype: Any) -> None:
    check_all(SHAPES, (dtype,), ("plain", "permuted", "gaps"))


def allowed(operator: Any, *args: Any) -> list[int]:
    """Positions of the arguments that a result like the first of them may lie over."""
    pairs = overwrites_of(operator, args, {}, [laid_out(torch.empty_like(args[0]), {})])
    return [i for _, argument in pairs for i, given in enumerate(args) if given is argument]


def test_what_is_not_in_the_table() -> None:
    x, row = torch.empty(4, 4, device="meta"), torch.empty(4, device="meta")
    turned = x.t()
    assert allowed(aten.add.Tensor, x, x + 1) == [0, 1]
    assert allowed(aten.add.Tensor, x, turned) == [0]
    assert allowed(aten.add.Tensor, x, row) == [0]
    assert allowed(aten.mm.default, x, x + 1) == []
    assert allowed(aten.flip.default, x, [0]) == []
    assert allowed(aten.relu_.default, x) == []
    # What two complex numbers make is rounded by the loop that the compiler made.
    wave = torch.empty(4, 4, dtype=torch.complex64, device="meta")
    assert allowed(aten.sin.default, wave) == [0]
    assert allowed(aten.mul.Tensor, wave, wave + 1) == []
    assert allowed(aten.mul.Tensor, wave, wave) == []
    # What is the weight too is read again for every row.
    assert allowed(aten.native_layer_norm.default, row, [4], row + 1, None, 1e-5) == [0]
    assert allowed(aten.native_layer_norm.default, row, [4], row, None, 1e-5) == []


def test_out_variants() -> None:
    assert out_variant(aten.relu.default) == (aten.relu.out, ("out",))
    assert out_variant(aten.sub.Scalar) == (aten.sub.Scalar_out, ("out",))
    assert out_variant(aten.native_layer_norm.default) == (
        aten.native_layer_norm.out,
        ("out0", "out1", "out2"),
    )
    assert out_variant(aten.view.default) is None
