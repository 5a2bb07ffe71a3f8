"""The operators that ship with the package, and what is read off their declarations, against PyTorch's."""

from __future__ import annotations

import itertools
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tools.known_operators import PATH, lines  # noqa: E402

from lowtide.operators.registry import operator_named, overload_named  # noqa: E402
from lowtide.operators.schemas import hidden_writes, roles, signature_of  # noqa: E402
from lowtide.operators.signatures import parse_signature  # noqa: E402
from lowtide.operators.table import _lines, shipped  # noqa: E402


def _overloads() -> list[tuple[str, Any]]:
    """Shipped operators that the installed PyTorch has too; other versions may lack some."""
    return [(name, found) for name in _lines() if (found := overload_named(name)) is not None]


def _agree(alias: frozenset[str], info: Any) -> bool:
    """Of lists PyTorch keeps that their elements are aliased, and not in which sets."""
    sets = frozenset() if info is None else info.before_set | info.after_set
    letters = {letter.rpartition("::")[2] for letter in sets}
    return letters == alias or (info is not None and not letters and bool(alias))


def test_every_declaration_is_read_as_pytorch_reads_it() -> None:
    seen = 0
    for name, overload in _overloads():
        ours, theirs = signature_of(overload), overload._schema
        assert f"{ours.namespace}::{ours.base}" == theirs.name, name
        assert ours.overload == theirs.overload_name, name
        assert ours.moves_memory == (torch.Tag.inplace_view in overload.tags)
        for mine, its in zip(ours.arguments, theirs.arguments, strict=True):
            assert mine.name == its.name, name
            assert _agree(mine.alias, its.alias_info), name
            assert mine.is_write == (its.alias_info is not None and its.alias_info.is_write), name
            assert mine.is_out == (its.is_out and mine.is_write), name
            assert mine.kwarg_only == its.kwarg_only, name
        for mine, its in zip(ours.returns, theirs.returns, strict=True):
            assert _agree(mine.alias, its.alias_info), name
            assert mine.is_write == (its.alias_info is not None and its.alias_info.is_write), name
        seen += 1
    assert seen > 3000


CHANGED = {"aten::_cudnn_attention_forward"}
"""Operators whose arguments are others in PyTorch 2.14 than in 2.13: one, of CUDA, that no ``.pte`` calls."""


def test_what_ships_gives_the_roles_that_the_installed_pytorch_gives() -> None:
    for name, overload in _overloads():
        if name in CHANGED:
            continue
        known, installed = shipped(name), signature_of(overload)
        assert known is not None
        # Another version may call an argument otherwise; what it does to it is the same.
        assert [replace(a, name="") for a in known.arguments] == [
            replace(a, name="") for a in installed.arguments
        ], name
        assert known.returns == installed.returns, name
        assert [role for *_, role in roles(known, ((a, None) for a in known.arguments))] == [
            role for *_, role in roles(overload, ((a, None) for a in installed.arguments))
        ], name


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the table is that of PyTorch 2.13")
def test_the_table_is_what_the_tool_makes() -> None:
    """As the newest tested ExecuTorch has it; an older one declares fewer operators, and none otherwise."""
    pytest.importorskip("executorch")
    shipped_lines, made = PATH.read_text(encoding="utf-8").splitlines(), lines()
    assert set(made) <= set(shipped_lines)
    if version("executorch").startswith("1.5."):
        assert made == shipped_lines


def test_undeclared_writes_are_those_that_pytorch_knows_of() -> None:
    """PyTorch knows them by declaration, and so not those of ``out`` variants, which write them as well."""
    seen = set()
    for name, overload in _overloads():
        schema = overload._schema
        truths = [a.name for a in schema.arguments if str(a.type) == "bool"]
        secret = not schema.is_mutable and torch._C._SchemaInfo(schema).is_mutable()
        for values in itertools.product((None, False, True), repeat=len(truths)) if secret else ():
            given = {truth: value for truth, value in zip(truths, values, strict=True) if value is not None}
            info = torch._C._SchemaInfo(schema)
            for truth, value in given.items():
                info.add_argument_value(truth, value)
            expected = {a.name for a in schema.arguments if info.is_mutable(a.name)}
            pairs = [(a, given.get(a.name)) for a in signature_of(overload).arguments]
            assert hidden_writes(overload, pairs) == expected, (name, given)
            seen.add(overload._schema.name)
        if not secret and hidden_writes(overload, ()):
            assert schema.overload_name == "out"
    assert len(seen) == 6


def test_batch_norm_with_an_output_writes_its_statistics() -> None:
    x, mean, var = torch.arange(6.0).reshape(3, 2), torch.zeros(2), torch.ones(2)
    out = [torch.empty(0) for _ in range(3)]
    torch.ops.aten.native_batch_norm.out(
        x, None, None, mean, var, True, 0.5, 1e-5, out=out[0], save_mean=out[1], save_invstd=out[2]
    )
    assert mean.tolist() == [1.0, 1.5]
    operator = operator_named("aten::native_batch_norm.out")
    assert operator is not None
    for training, role in ((True, "changed"), (False, "read")):
        given = [(a, training if a.name == "training" else None) for a in operator.arguments]
        found = {parameter.name: role for parameter, _, role in roles(operator, given)}
        assert found["running_mean"] == found["running_var"] == role
        assert found["input"] == "read"
        assert found["out"] == found["save_mean"] == "out"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::add.out", ["read", "read", "read", "out"]),
        ("aten::add_.Tensor", ["changed", "read", "read"]),
        ("aten::copy_", ["filled", "read", "read"]),
        ("aten::copy.out", ["shape", "read", "read", "out"]),
        ("aten::full_like.out", ["shape", "read", "read", "out"]),
        ("aten::view", ["viewed", "read"]),
        ("aten::squeeze_.dim", ["viewed", "read"]),
        ("aten::sym_size.int", ["shape", "shape"]),
    ],
)
def test_the_roles_of_well_known_operators(name: str, expected: list[str]) -> None:
    operator = operator_named(name)
    assert operator is not None
    assert [role for *_, role in roles(operator, ((a, None) for a in operator.arguments))] == expected


def test_declarations_with_all_that_the_language_has() -> None:
    text = (
        "my::op.two(Tensor(a -> *) x, Tensor(b!)[] y, str s='a, (b', int[2] n=[1, 2], *, Tensor(c0!)? z=None)"
    )
    found = parse_signature(f"{text} -> (Tensor(a)[] rest, Tensor)")
    assert (found.namespace, found.base, found.overload) == ("my", "op", "two")
    assert [a.name for a in found.arguments] == ["x", "y", "s", "n", "z"]
    assert [set(a.alias) for a in found.arguments] == [{"a", "*"}, {"b"}, set(), set(), {"c0"}]
    assert [a.is_write for a in found.arguments] == [False, True, False, False, True]
    assert [a.is_out for a in found.arguments] == [False, False, False, False, True]
    assert [set(r.alias) for r in found.returns] == [{"a"}, set()]
    for broken in ("", "x", "my::op(Tensor x", "my::op(Tensor x)"):
        with pytest.raises(ValueError, match=r"no operator is declared|are not closed"):
            parse_signature(broken)


def test_operators_that_the_table_lacks_come_from_pytorch() -> None:
    with torch.library._scoped_library("lowtide_table", "DEF") as library:
        library.define("mine(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
        found = operator_named("lowtide_table::mine")
        assert found is not None
        assert [a.is_out for a in found.arguments] == [False, True]
    for name in ("aten::no_such_operator", "nonsense", "a::b.c", "executorch_prim::none.default"):
        assert operator_named(name) is None
