"""Conjugates and negatives that are not computed, and kernels that return views against their schemas."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import lowtide  # noqa: E402
from exports import Lambda, imported, storage, value  # noqa: E402
from lowtide.base.errors import UnsupportedError  # noqa: E402
from lowtide.replay import replay  # noqa: E402

WAVE = torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
EVERYTHING = {"in_place": True, "elide_copies": True}


def exported_of(function: Callable[..., Any], *inputs: torch.Tensor, decomposed: bool, saved: bool) -> Any:
    exported = torch.export.export(Lambda(function), inputs, strict=False)
    if decomposed:
        exported = exported.run_decompositions()
    if saved:
        file = io.BytesIO()
        torch.export.save(exported, file)
        file.seek(0)
        exported = torch.export.load(file)
    return exported


def clone_of_a_conjugate(x: torch.Tensor) -> Any:
    y = x * 2
    return y.conj().clone() + 1, y + 1


def clone_of_a_negative(x: torch.Tensor) -> Any:
    y = x * 2
    return y.conj().imag.clone() + 1, y + 1


def joined_conjugates(x: torch.Tensor) -> Any:
    y = x * 2
    z = x * 3
    return torch.cat([y.conj(), z]) * 2


def clone_of_a_view_of_a_conjugate(x: torch.Tensor) -> Any:
    y = x * 2
    return y.conj().reshape(2, 2).t().clone() + 1, y + 1


def resolved_and_base_changed(x: torch.Tensor) -> Any:
    y = x * 2
    z = y.conj().resolve_conj()
    y.zero_()
    return z + 1


def resolved_negative_and_base_changed(x: torch.Tensor) -> Any:
    y = x * 2
    z = y.conj().imag.resolve_neg()
    y.zero_()
    return z + 1


def written_over_a_conjugate(x: torch.Tensor) -> Any:
    y = x * 2
    return torch.sin(y.conj()) * 3


LAZY = (
    clone_of_a_conjugate,
    clone_of_a_negative,
    joined_conjugates,
    clone_of_a_view_of_a_conjugate,
    resolved_and_base_changed,
    resolved_negative_and_base_changed,
    written_over_a_conjugate,
)


@pytest.mark.parametrize("saved", [False, True], ids=["traced", "saved"])
@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("function", LAZY, ids=lambda f: f.__name__)
def test_bits_are_computed_where_they_are_copied(
    function: Callable[..., Any], decomposed: bool, saved: bool
) -> None:
    exported = exported_of(function, WAVE, decomposed=decomposed, saved=saved)
    plan = lowtide.plan(exported, **EVERYTHING)
    lowtide.verify(plan, exported, **EVERYTHING)
    report = replay(exported, plan, (WAVE,), **EVERYTHING)
    assert report.eager_differences == ()


def test_what_is_resolved_has_bytes_of_its_own() -> None:
    found = imported(resolved_and_base_changed, WAVE)
    assert storage(found, "root/resolve_conj").name == "root/resolve_conj"
    assert storage(found, "root/_conj").name == "root/mul"


def test_what_is_plain_already_is_not_copied_to_resolve_it() -> None:
    found = imported(lambda x: (x * 2).resolve_conj() + 1, WAVE)
    assert value(found, "root/resolve_conj").storage is None


def test_a_conjugate_of_a_conjugate_is_a_copy_of_its_base() -> None:
    found = imported(lambda x: (x * 2).conj().conj().clone() + 1, WAVE)
    clone = next(s for s in found.program.regions[0].steps if s.name == "clone")
    assert [match.distance for match in clone.matches] == [0]


def test_inputs_are_taken_as_they_are_given() -> None:
    def function(x: torch.Tensor) -> Any:
        return x.conj().clone() + 1, x.clone() * 2

    given = (WAVE.conj(),)
    exported = exported_of(function, *given, decomposed=False, saved=False)
    plan = lowtide.plan(exported, **EVERYTHING)
    assert replay(exported, plan, given, **EVERYTHING).eager_differences == ()


@pytest.mark.parametrize(
    "view",
    [
        lambda y: torch.unsafe_split(y, 2)[0],
        lambda y: torch.unsafe_split_with_sizes(y, [2, 2])[1],
        lambda y: torch.unsafe_chunk(y, 2)[0],
        lambda y: torch.ops.aten._unsafe_view.default(y, [2, 2]),
    ],
    ids=["unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "_unsafe_view"],
)
@pytest.mark.parametrize("saved", [False, True], ids=["traced", "saved"])
def test_views_against_their_schemas_see_what_is_written_to_their_base(
    view: Callable[..., Any], saved: bool
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        z = view(y)
        y.add_(1)
        return z + 1

    given = torch.arange(4.0)
    exported = exported_of(function, given, decomposed=False, saved=saved)
    plan = lowtide.plan(exported, **EVERYTHING)
    lowtide.verify(plan, exported, **EVERYTHING)
    assert replay(exported, plan, (given,), **EVERYTHING).eager_differences == ()
    assert not any("unsafe" in buffer.name for buffer in plan.problem.buffers)


def test_sparse_tensors_are_named_when_an_operator_makes_them() -> None:
    with pytest.raises(UnsupportedError, match=r"'root/to_sparse' is a torch\.sparse_coo") as caught:
        imported(lambda x: (x * 2).to_sparse().to_dense() + 1, torch.arange(4.0))
    assert "decompos" not in str(caught.value)
