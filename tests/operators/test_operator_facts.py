"""What Lowtide claims of operators' memory, tried on every operator that PyTorch tests itself with.

``pytest tests/operators/test_operator_facts.py -m slow --ops 'fft*'`` tries a slice. The fast test
tries one call of each operator of a fixed sample.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's table of operators needs it")

from lowtide.frontends.torch_export import effects  # noqa: E402
from lowtide.operators import aten as inplace  # noqa: E402
from lowtide.operators import moves  # noqa: E402
from lowtide.operators import schemas as operands  # noqa: E402
from operator_facts.cases import Case, cases_of, names_like  # noqa: E402
from operator_facts.exemptions import EXEMPT, without_need, without_reason  # noqa: E402
from operator_facts.sample import SAMPLE  # noqa: E402
from operator_facts.trying import try_case  # noqa: E402

PARTS = 16
"""The slow test's parts, for workers to share."""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def tried(name: str, *, thorough: bool) -> dict[str, list[str]]:
    """What is wrong with an operator, by kind."""
    found: dict[str, list[str]] = {}
    for case in cases_of(name, thorough=thorough):
        for fault in try_case(case):
            found.setdefault(fault.kind, []).append(f"{case}: {fault.kind}: {fault.text}")
    return found


def complaints(names: Iterable[str], *, thorough: bool) -> list[str]:
    """Faults without an exemption; with ``thorough`` exemptions without a fault too."""
    found: list[str] = []
    for name in names:
        faults = tried(name, thorough=thorough)
        for kind in sorted(without_reason(name, faults)):
            found += faults[kind]
        if thorough:
            found += [f"{name} needs no exemption for: {kind}" for kind in without_need(name, faults)]
    return found


@pytest.mark.parametrize("part", range(4))
def test_a_sample_of_operators(part: int) -> None:
    assert complaints(SAMPLE[part::4], thorough=False) == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_all_operators(part: int, request: pytest.FixtureRequest) -> None:
    names = names_like(request.config.getoption("--ops"))[part::PARTS]
    if not names:
        pytest.skip("no operator of this part is asked for")
    assert complaints(names, thorough=True) == []


@pytest.mark.slow
def test_exemptions_and_the_sample_name_operators() -> None:
    known = set(names_like("*"))
    assert {name for name, _ in EXEMPT} <= known
    assert set(SAMPLE) <= known
    assert all(why.strip() for why in EXEMPT.values())


# The trials themselves: a claim that is wrong is found, whichever kind it is of.


def case_of(function: Any, *leaves: Any) -> Case:
    """A call of a function of our own."""
    spec = torch.utils._pytree.tree_structure((leaves, {}))
    return Case("mine", torch.float32, "plain", True, function, leaves, spec)


def kinds(function: Any, *leaves: Any) -> set[str]:
    return {fault.kind for fault in try_case(case_of(function, *leaves))}


FOUR = torch.arange(4.0)
aten = torch.ops.aten


def test_what_is_right_has_no_fault() -> None:
    assert kinds(lambda x: aten.unsafe_split.Tensor(x, 2)[0].add_(1), FOUR) == set()


def test_a_view_that_is_not_declared_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "_may_decide_at_run", lambda operator: False)
    assert "sharing" in kinds(lambda x: aten.unsafe_split.Tensor(x, 2), FOUR)


def test_a_copy_that_is_taken_for_a_view_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects.EffectFinder, "_leaves", _leaves_that_view(effects.EffectFinder._leaves))
    assert "sharing" in kinds(lambda x: aten.sin.default(x), FOUR)


def _leaves_that_view(original: Any) -> Any:
    def leaves(self: Any, node: Any, fake: Any, fakes: Any, at: Any, by_set: Any) -> Any:
        if node.target is aten.sin.default:
            return [effects.Leaf(owns=False, aliases=(at[node.args[0]],))]
        return original(self, node, fake, fakes, at, by_set)

    return leaves


def test_a_write_that_is_not_declared_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "hidden_writes", lambda operator, given: frozenset())

    def normed(x: Any, mean: Any, variance: Any) -> Any:
        return aten.native_batch_norm.default(x, None, None, mean, variance, True, 0.1, 1e-5)[0]

    assert "writes" in kinds(normed, torch.randn(3, 2), torch.zeros(2), torch.ones(2))


def test_bytes_that_are_read_after_all_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "looks_at", lambda operator, argument: False)
    monkeypatch.setattr(operands, "_role", operands._role.__wrapped__)
    assert "unread" in kinds(lambda x: aten.sin.default(x), FOUR)


def test_a_kernel_that_may_not_overwrite_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = inplace._is_elementwise

    def elementwise(operator: Any) -> bool:
        return operator is aten.gather.default or allowed(operator)

    monkeypatch.setattr(inplace, "_is_elementwise", elementwise)
    inplace.may_overwrite.cache_clear()
    try:
        turned = torch.tensor([1, 2, 3, 0])
        assert "overwrites" in kinds(lambda x, i: aten.gather.default(x, 0, i), FOUR, turned)
    finally:
        inplace.may_overwrite.cache_clear()


def test_bytes_that_differ_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "bits_of", lambda tensor: (False, False))
    assert "matches" in kinds(lambda x: aten.clone.default(torch._neg_view(x)), FOUR)


def test_results_that_are_too_large_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowtide.operators.sizes import Bounds

    original = Bounds.bytes_of
    monkeypatch.setattr(Bounds, "bytes_of", lambda self, t, alignment: original(self, t, alignment) - 4)
    assert "sizes" in kinds(lambda x: aten.sin.default(x), FOUR)


RETURNED = {
    "_unsafe_view": lambda x: aten._unsafe_view.default(x, [2, 2]),
    "unsafe_split": lambda x: aten.unsafe_split.Tensor(x, 2)[1],
    "unsafe_split_with_sizes": lambda x: aten.unsafe_split_with_sizes.default(x, [1, 3])[1],
    "lift": lambda x: aten.lift.default(x),
    "set": lambda x: aten.set.source_Tensor(torch.empty(4), x),
}


def test_what_is_said_to_return_its_argument_does() -> None:
    assert RETURNED.keys() == operands._RETURN_ARGUMENTS
    for function in RETURNED.values():
        x = FOUR.clone()
        assert function(x).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
