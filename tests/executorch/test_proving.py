"""verify_program: what was emitted is what was planned, and nothing else passes for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import fx, nn

from lowtide.base.errors import InputError, VerificationError
from lowtide.executorch import MemoryPlanningPass, audit, verify_program
from lowtide.executorch.specs import specs_of
from lowtide.frontends.pte import open_pte
from lowtide.frontends.pte.methods import Method, methods_of
from lowtide.frontends.pte.writing import rewrite
from runtime import edge_of, lower
from zoo import ZOO


@dataclass(frozen=True)
class Other:
    """A manager whose bytes are others than what was emitted."""

    manager: Any
    buffer: bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.manager, name)


@dataclass(frozen=True)
class Case:
    """A lowered program and the pass that planned it."""

    manager: Any
    planning: MemoryPlanningPass

    @property
    def method(self) -> Method:
        return methods_of(open_pte(self.manager.buffer).program, "test")[0]

    def with_places(self, offsets: Mapping[int, int], sizes: Mapping[int, int] | None = None) -> Other:
        """The same program with other offsets by tensor, and other sizes by arena."""
        file = open_pte(self.manager.buffer)
        spots = {value: (1, offset) for value, offset in offsets.items()}
        fresh = rewrite(file, {"forward": spots}, {"forward": dict(sizes)} if sizes else {})
        return Other(self.manager, fresh.data)


def case(model: nn.Module, example: tuple[Any, ...], **options: Any) -> Case:
    planning = MemoryPlanningPass(**options)
    return Case(lower(edge_of(model, example), planning).manager, planning)


class Weighed(nn.Module):
    """Two inputs of one size."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * 2 - y).relu() + 1


@pytest.fixture(scope="module")
def weighed() -> Case:
    return case(Weighed(), (torch.ones(4, 8), torch.ones(4, 8)))


def test_tells_what_the_audit_looked_at(weighed: Case) -> None:
    found = verify_program(weighed.manager, weighed.planning)
    assert found.safe
    assert found.methods == ("forward",)
    assert found.tensors >= len(weighed.planning.plan.offsets)


def test_equal_inputs_that_changed_places(weighed: Case) -> None:
    """A safe program, but not the one that was planned."""
    method = weighed.method
    first, second = (method.tensors[value].place for value in method.inputs)
    assert first is not None
    assert second is not None
    changed = {}
    for tensor in method.planned:
        assert tensor.place is not None
        if tensor.index in method.inputs:
            changed[tensor.index] = second.start if tensor.place == first else first.start
    other = weighed.with_places(changed)
    with pytest.raises(
        VerificationError, match=r"was planned at bytes .* and no tensor is there in its turn"
    ):
        verify_program(other, weighed.planning)


def test_arenas_of_another_size(weighed: Case) -> None:
    size = weighed.planning.plan.arena_bytes
    for other in (size + 16, size + 64, size - 16):
        with pytest.raises(VerificationError) as caught:
            verify_program(weighed.with_places({}, {1: other}), weighed.planning)
        said = [str(violation) for violation in caught.value.violations]
        assert f"forward: arena 1 was planned with {size} bytes, and has {other} in the program" in said


@pytest.mark.parametrize(
    "name", ["two_conds_added", pytest.param("mixture_of_experts", marks=pytest.mark.slow)]
)
def test_every_tensor_that_is_moved(name: str) -> None:
    """All are noticed but for safe moves of what a file does not tell apart: views and what a cond moves."""
    torch.manual_seed(0)
    model, calls = ZOO[name]()
    lowered = case(model, calls[0], in_place=True, elide_copies=True)
    plan = lowered.planning.plan
    room = {1: plan.arena_bytes + 4096}
    tensors = [tensor for tensor in lowered.method.planned if tensor.size]
    unnoticed = 0
    for tensor in tensors:
        assert tensor.place is not None
        start = tensor.place.start + 16
        other = lowered.with_places({tensor.index: start}, room)
        with pytest.raises(VerificationError) as caught:
            verify_program(other, lowered.planning)
        if {violation.kind for violation in caught.value.violations} == {"totals"}:
            unnoticed += 1
            assert start in plan.offsets
            assert audit(other.buffer).safe
    assert unnoticed <= len(tensors) - len(plan.offsets)
    assert unnoticed < len(tensors) / 4


def test_a_plan_that_says_otherwise(weighed: Case) -> None:
    """The program is as it was emitted; what is held against it is not."""
    plan = weighed.planning.plan
    for i in range(len(plan.offsets)):
        offsets = tuple(offset + 16 * (at == i) for at, offset in enumerate(plan.offsets))
        weighed.planning.plans[-1] = replace(plan, offsets=offsets)
        with pytest.raises(VerificationError) as caught:
            verify_program(weighed.manager, weighed.planning)
        named = [name for violation in caught.value.violations for name in violation.buffers]
        assert plan.problem.buffers[i].id in named
    weighed.planning.plans[-1] = plan
    verify_program(weighed.manager, weighed.planning)


class Meddler(MemoryPlanningPass):
    """Gives the last kernel's output the first input's place once all is planned."""

    def run(self, graph_module: fx.GraphModule, graph_signature: Any = None) -> Any:
        found = super().run(graph_module, graph_signature)
        nodes = list(graph_module.graph.nodes)
        (origin,) = specs_of(next(node for node in nodes if node.op == "placeholder"))
        (spec,) = specs_of([node for node in nodes if node.op == "call_function"][-1])
        assert spec.mem_offset != origin.mem_offset
        spec.mem_offset = origin.mem_offset
        return found


def test_specs_that_are_changed_behind_the_pass() -> None:
    x = torch.ones(4, 8)
    planning = Meddler()
    manager = lower(edge_of(Weighed(), (x, x)), planning).manager
    with pytest.raises(VerificationError, match="no tensor is there in its turn"):
        verify_program(manager, planning)


def test_a_program_that_is_unsafe_as_planned() -> None:
    """The audit has its own opinion, whatever the plan says: here both agree on a wrong place."""
    x = torch.ones(4, 8)
    honest = case(Weighed(), (x, x))
    method = honest.method
    first, second = (method.tensors[value].place for value in method.inputs)
    assert first is not None
    assert second is not None
    moved = {t.index: first.start for t in method.planned if t.place == second and t.index in method.inputs}
    other = honest.with_places(moved)
    assert not audit(other.buffer).safe
    plan = honest.planning.plan
    offsets = list(plan.offsets)
    offsets[plan.names["root/y"]] = first.start
    honest.planning.plans[-1] = replace(plan, offsets=tuple(offsets))
    with pytest.raises(VerificationError) as caught:
        verify_program(other, honest.planning)
    assert {violation.kind for violation in caught.value.violations} == {"lost"}


def test_another_pass_and_a_pass_that_has_moved_on(weighed: Case) -> None:
    with pytest.raises(InputError, match="'forward' was not planned by this pass"):
        verify_program(weighed.manager, MemoryPlanningPass())
    x = torch.ones(4, 8)
    used = case(Weighed(), (x, x))
    lower(edge_of(Weighed(), (x, x)), used.planning)
    with pytest.raises(InputError, match="has planned another program since"):
        verify_program(used.manager, used.planning)


def test_methods_that_are_not_named_are_audited_only(weighed: Case) -> None:
    assert verify_program(weighed.manager, {}).methods == ("forward",)
    method = weighed.method
    onto = dict.fromkeys(method.inputs, 0)
    with pytest.raises(VerificationError):
        verify_program(weighed.with_places(onto), {})
