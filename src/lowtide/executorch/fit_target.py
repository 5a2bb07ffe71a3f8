"""ExecuTorch as a target of a fit: an export lowered as a copy, and packed by the planning pass itself."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass as StockPass
from torch import fx
from torch.fx.passes.infra.pass_base import PassResult
from torch.utils import _pytree as pytree

from lowtide.base.errors import first_line
from lowtide.executorch.planning_pass import MemoryPlanningPass
from lowtide.transforms.copying import copy_program
from lowtide.transforms.fit.values import Allowed, Packed
from lowtide.transforms.reorder.fx import move_nodes
from lowtide.transforms.split import Dialect

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_PLACE = "lowtide_place"
"""Where a node stood before it was lowered, in metadata that lowering carries along."""


class ExecutorchTarget:
    """Packs what ``to_edge`` and ``to_executorch`` would make of an export, without writing weights.

    Args:
        seconds: that a packing may take; a search that has longer finds an arena that is no larger.
        plan_inputs, plan_outputs, plan_state: whether they get a place in the arena.
    """

    name = "executorch"
    has_views = False
    kernels: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        seconds: float = 1.0,
        plan_inputs: bool = True,
        plan_outputs: bool = True,
        plan_state: bool = True,
    ) -> None:
        aten = torch.ops.aten
        self.dialect = Dialect(
            aten.slice.Tensor, aten.constant_pad_nd.default, aten.slice_scatter.default, aten.cat.default
        )
        self._seconds = seconds
        self._planned: dict[str, Any] = {
            "alloc_graph_input": plan_inputs,
            "alloc_graph_output": plan_outputs,
            "alloc_mutable_buffers": plan_state,
        }
        self._edge: tuple[ExportedProgram, ExportedProgram] | None = None  # the last that was lowered

    def before(self, program: ExportedProgram) -> Packed:
        """The arena of ExecuTorch's own pass."""
        planning = _Stock(**self._planned)
        self._plan(program, planning)
        return Packed(planning.arena_bytes, 0)

    def pack(self, program: ExportedProgram, allowed: Allowed) -> Packed:
        """The arena of Lowtide's pass."""
        planning = self.planning(allowed)
        self._plan(program, planning)
        return Packed(planning.plan.arena_bytes, planning.plan.lower_bound_bytes, planning.plan)

    def planning(self, allowed: Allowed) -> _Planning:
        """The pass that packs."""
        return _Planning(
            in_place=allowed.in_place,
            elide_copies=allowed.elide_copies,
            reorder=allowed.reorder,
            timeout=self._seconds,
            **self._planned,
        )

    def ordered(self, program: ExportedProgram) -> ExportedProgram | None:
        """The export in the order in which the pass would run it; what it lowers to keeps that order."""
        planning = self.planning(Allowed(reorder=True))
        self._plan(program, planning)
        copy = copy_program(program)
        nodes = list(copy.graph.nodes)
        last: dict[int, int] = {}
        last.update((place, position) for position, place in enumerate(planning.places))
        steps = sorted(last, key=last.__getitem__)
        if steps == sorted(steps):
            return None
        move_nodes(copy.graph_module, [nodes[place] for place in steps])
        return copy

    def _plan(self, program: ExportedProgram, planning: Any) -> None:
        """Lower an export as far as to a plan."""
        manager = EdgeProgramManager({"forward": copy_program(self.edge(program))}, compile_config=_UNCHECKED)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                manager.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
        except _PlannedError:
            return
        raise AssertionError("ExecuTorch lowered a program without planning it")

    def edge(self, program: ExportedProgram) -> ExportedProgram:
        """The edge program of an export, whose nodes know which of the export's they come from."""
        if self._edge is None or self._edge[0] is not program:
            copy = copy_program(program)
            for place, node in enumerate(copy.graph.nodes):
                if node.op == "call_function":
                    node.meta["custom"] = {**node.meta.get("custom", {}), _PLACE: place}
            self._edge = program, self._lowered(copy)
        return self._edge[1]

    def _lowered(self, program: ExportedProgram) -> ExportedProgram:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            edge: ExportedProgram = to_edge(program, compile_config=_UNCHECKED).exported_program()
        return edge


class EdgeTarget(ExecutorchTarget):
    """Packs an edge program, partitioned or not, as ``to_executorch`` will see it."""

    def __init__(self, dialect: Dialect, **choices: Any) -> None:
        super().__init__(**choices)
        self.dialect = dialect

    def _lowered(self, program: ExportedProgram) -> ExportedProgram:
        return program


_UNCHECKED = EdgeCompileConfig(_check_ir_validity=False)


class _PlannedError(Exception):
    """The plan is there, and nobody wants the rest of the lowering."""


class _Planning(MemoryPlanningPass):
    """Plans, notes the order of the nodes, and ends the lowering there."""

    places: tuple[int, ...] = ()

    def run(self, graph_module: fx.GraphModule, graph_signature: object = None) -> PassResult:
        super().run(graph_module, graph_signature)
        found = [node.meta.get("custom", {}).get(_PLACE) for node in graph_module.graph.nodes]
        self.places = tuple(place for place in found if place is not None)
        raise _PlannedError


class _Stock(StockPass):  # type: ignore[misc]
    """ExecuTorch's own plan, and no more."""

    arena_bytes = 0

    def run(self, graph_module: fx.GraphModule, graph_signature: object = None) -> PassResult:
        super().run(graph_module, graph_signature)
        self.arena_bytes = sum(graph_module.meta["non_const_buffer_sizes"])
        raise _PlannedError


class RuntimeMissingError(Exception):
    """ExecuTorch's runtime cannot be loaded, or lacks an operator."""


def lower_and_run(
    program: ExportedProgram, arguments: tuple[tuple[Any, ...], dict[str, Any]], allowed: Allowed
) -> tuple[list[Any], int]:
    """Outputs of an export on the real runtime, and the bytes of its ``.pte``.

    Args:
        program: it is left as it is.
        arguments: positional and keyword arguments.
        allowed: what the planner may do.

    Raises:
        RuntimeMissingError: there is no runtime here that can run it.
    """
    try:
        from executorch.runtime import Runtime
    except ImportError as error:
        raise RuntimeMissingError(str(error)) from error
    planning = MemoryPlanningPass(
        in_place=allowed.in_place, elide_copies=allowed.elide_copies, reorder=allowed.reorder, timeout=1.0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge = to_edge(copy_program(program), compile_config=_UNCHECKED)
        data = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning)).buffer
    leaves = [x.clone() if isinstance(x, torch.Tensor) else x for x in pytree.tree_leaves(arguments)]
    try:
        method = Runtime.get().load_program(data).load_method("forward")
        outputs = method.execute(leaves)
    except RuntimeError as error:
        raise RuntimeMissingError(first_line(error)) from error
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in outputs], len(data)
