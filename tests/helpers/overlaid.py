"""Programs of many small cases, each one operator, whose result is put exactly where a test wants it.

Nothing of the planner decides: the test names the argument whose bytes the result is to take, and how far
above its start; everything else lies apart. Whether the emitted program says so is checked on its
instructions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.schema import KernelCall, Tensor, TensorList
from torch import nn
from torch.utils import _pytree as pytree

from lowtide.executorch import MemoryPlanningPass
from lowtide.executorch.copies import refresh_outputs
from lowtide.executorch.lifetimes import write_lifetimes
from lowtide.executorch.node_effects import effect_of
from lowtide.executorch.node_overwrites import operator_name
from lowtide.executorch.programs import PassRequest, import_modules
from lowtide.executorch.spec_writing import write_plan
from lowtide.executorch.specs import Groups, nodes_in, spec_of, specs_of
from lowtide.ir.plan import ArenaUse, Plan
from lowtide.lifetimes.timeline import build_problem
from runtime import Lowered, lower


@dataclass(frozen=True)
class Case:
    """One call of an operator.

    Args:
        target: an overload of ``torch.ops.aten``.
        args: what it is given; tensors become inputs of the program.
        over: pairs (result, tensor argument, bytes): where that result lies, counted from the argument's
            start. Negative where the result starts first. Without any, all lies apart.
    """

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    over: tuple[tuple[int, int, int], ...] = ()

    @property
    def tensors(self) -> list[torch.Tensor]:
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    @property
    def results(self) -> int:
        """How many tensors the operator returns."""
        return len(pytree.tree_leaves(self.target(*self.args, **self.kwargs)))


class Cases(nn.Module):
    """Runs every case; takes the tensors of all of them, returns all results."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = iter(tensors)
        found: list[torch.Tensor] = []
        for case in self.cases:
            met: dict[int, torch.Tensor] = {}

            def bind(leaf: Any, met: dict[int, torch.Tensor] = met) -> Any:
                if not isinstance(leaf, torch.Tensor):
                    return leaf
                if id(leaf) not in met:  # one tensor passed twice is one input
                    met[id(leaf)] = next(given)
                return met[id(leaf)]

            args, kwargs = pytree.tree_map(bind, (case.args, case.kwargs))
            found += pytree.tree_leaves(case.target(*args, **kwargs))
        return tuple(found)


Permits = Callable[[torch.fx.Node], Iterable[tuple[Any, Any, int]]]
"""Of a node, what may lie where: (result, argument, bytes)."""


class Overlay(MemoryPlanningPass):
    """Puts results where the cases say, and all else apart.

    Args:
        cases: of the program.
        permits: if given, only what it allows is so placed.
    """

    def __init__(self, cases: Sequence[Case], permits: Permits | None = None) -> None:
        super().__init__()
        self.cases, self.permits = cases, permits
        self.placed: list[tuple[tuple[int, int, int], ...]] = []

    def _plan(self, graph_module: torch.fx.GraphModule, signature: Any) -> None:
        self._set_alloc_node_spec(graph_module)
        request = PassRequest(self.alignment, signature, True, True, True, device_aware=False)
        imported = import_modules(graph_module, request, Groups())
        problem = build_problem(imported.program)
        offsets = []
        end = 0
        for buffer in problem.buffers:
            offsets.append(end)
            end += buffer.size
        position = Plan(problem, tuple(offsets), (), "test").names
        storages = imported.program.storages
        names = {operator_name_of(case.target) for case in self.cases}
        nodes = [n for n in graph_module.graph.nodes if operator_name(n) in names and effect_of(n)]
        wanted = [operator_name_of(case.target) for case in self.cases]
        assert [operator_name(n) for n in nodes] == wanted, "an operator was decomposed, or others inserted"
        for node, case in zip(nodes, self.cases, strict=True):
            passed = nodes_in((node.args, {k: v for k, v in node.kwargs.items() if k != "out"}))
            allowed = None if self.permits is None else list(self.permits(node))
            self.placed.append(())
            for result, argument, distance in case.over:
                written, read = specs_of(node)[result], spec_of(passed[argument])
                if allowed is not None and (written, read, distance) not in allowed:
                    continue
                self.placed[-1] += ((result, argument, distance),)
                a, b = (position[storages[imported.storage_of(s)].name] for s in (written, read))
                if distance >= 0:
                    offsets[a] = offsets[b] + distance
                else:  # the smaller one moves
                    offsets[b] = offsets[a] - distance
        plan = Plan(problem, tuple(offsets), (ArenaUse(1, end, end, 0),), "test")
        self.plans.append(plan)
        write_plan(imported, plan)
        refresh_outputs(imported.modules)
        write_lifetimes(graph_module, ())


_ON_EDGE = {"clone": "_clone_dim_order", "_to_copy": "_to_dim_order_copy"}
"""What ExecuTorch's edge dialect makes of an operator that knows of memory formats."""


def operator_name_of(target: Any) -> str:
    """The name that an operator goes by in the emitted program."""
    name = str(target._schema.name.split("::")[1])
    return _ON_EDGE.get(name, name)


def edge_of_cases(cases: Sequence[Case]) -> Any:
    """The edge program, in which every operator is what the case says, not decomposed."""
    targets = list(dict.fromkeys(case.target for case in cases))
    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=targets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Cases(cases).eval(), inputs_of(cases))
        return to_edge(program, compile_config=config)


def inputs_of(cases: Sequence[Case]) -> tuple[torch.Tensor, ...]:
    """The inputs of all cases; no two are one object, which export would take for one input."""
    found: list[torch.Tensor] = []
    for case in cases:
        found += [t.clone() for t in {id(t): t for t in case.tensors}.values()]
    return tuple(found)


@dataclass(frozen=True)
class Outcome:
    """How one case went.

    Args:
        case: what ran.
        placed: which of ``case.over`` was put where it says.
        right: whether every result has the bits that it has when all lies apart.
    """

    case: Case
    placed: tuple[tuple[int, int, int], ...]
    right: bool


def outcomes(cases: Sequence[Case], permits: Permits | None = None) -> list[Outcome]:
    """Run cases on the runtime with results apart, and with results where they are to be.

    Raises:
        RuntimeError: the runtime has no such kernel.
    """
    edge = edge_of_cases(cases)
    apart = [Case(case.target, case.args, case.kwargs) for case in cases]
    inputs = inputs_of(cases)
    (expected,) = lower(edge, Overlay(apart)).run([inputs])
    planning = Overlay(cases, permits)
    lowered = lower(edge, planning)
    check_emitted(lowered, planning)
    (found,) = lowered.run([inputs])
    results = iter(zip(expected, found, strict=True))
    return [
        Outcome(case, placed, sum(same(*next(results)) for _ in range(case.results)) == case.results)
        for case, placed in zip(cases, planning.placed, strict=True)
    ]


def check_emitted(lowered: Lowered, planning: Overlay) -> None:
    """The offsets of the instructions' arguments are those that were asked for."""
    method = lowered.manager.executorch_program.execution_plan[0]
    names = {operator_name_of(case.target) for case in planning.cases}
    calls = [
        i.instr_args
        for chain in method.chains
        for i in chain.instructions
        if isinstance(i.instr_args, KernelCall)
        and method.operators[i.instr_args.op_index].name.split("::")[1] in names
    ]
    for call, case, placed in zip(calls, planning.cases, planning.placed, strict=True):
        places: list[int] = []
        for index in call.args:
            value = method.values[index].val
            items = value.items if isinstance(value, TensorList) else [index]
            for item in items:
                tensor = method.values[item].val
                if isinstance(tensor, Tensor) and tensor.allocation_info is not None:
                    info = tensor.allocation_info
                    places.append(info.memory_offset_low + (info.memory_offset_high << 32))
        written = places[-case.results :]  # a call names its outcome last
        for result, argument, distance in placed:
            assert written[result] - places[argument] == distance


def same(a: Any, b: Any) -> bool:
    """Whether two tensors have the same bits, NaNs included."""
    if a.shape != b.shape or a.dtype != b.dtype or a.dim_order() != b.dim_order():
        return False
    return bool((_bits(a) == _bits(b)).all())


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.view(integer) if tensor.dim() else tensor.reshape(1).view(integer)
