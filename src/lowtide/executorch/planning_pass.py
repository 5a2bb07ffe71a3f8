"""The pass: ExecuTorch's, with every graph of a method planned on one timeline."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from executorch.exir.passes import MemoryPlanningPass as StockPass
from executorch.exir.passes.memory_planning_pass import (
    _check_default_mem_ids,
    _insert_mutable_buffer_specs,
    _MemoryPlanningState,
)
from executorch.exir.tensor import ALIGNMENT
from torch import fx
from torch.fx.passes.infra.pass_base import PassResult

from lowtide.base.errors import InputError, LowtideError
from lowtide.executorch.copies import add_copies, declare_stacked, held_carries, refresh_outputs
from lowtide.executorch.inplace import find_requests, settle_requests
from lowtide.executorch.lifetimes import write_lifetimes
from lowtide.executorch.ordering import reorder_modules
from lowtide.executorch.programs import ImportedModules, PassRequest, import_modules
from lowtide.executorch.spec_writing import banks_of, write_plan
from lowtide.executorch.specs import Groups, mutable_buffers
from lowtide.ir.memory_map import MemoryMap
from lowtide.ir.plan import Applied
from lowtide.pack.registry import Options
from lowtide.pack.techniques import Techniques, plan_program
from lowtide.transforms import moved_steps
from lowtide.transforms.fit.stamp import stamp_of
from lowtide.verifier.checks import Report, verify

if TYPE_CHECKING:
    from lowtide.ir.plan import Plan
    from lowtide.pack.hierarchy import Hierarchy

log = logging.getLogger(__name__)

_PARTS_APART = (
    "the program runs in parts, which are joined in place: without in_place=True its arena may be larger "
    "than that of the program as it was"
)


class MemoryPlanningPass(StockPass):  # type: ignore[misc]
    """Drop-in for ``executorch.exir.passes.MemoryPlanningPass``: smaller arenas, correct control flow.

    After ``to_executorch`` the pass holds what it did:

    - ``plan``: the finished plan of the last method, ``plans`` those of all methods in order;
    - ``reports``: what the verifier looked at, one a method;
    - ``notes``: clones that it had to insert, those that it had to leave apart from what they copy,
      in-place reuse that it refused, with reasons, and a fitted program that comes without ``in_place``.

    The arguments of the stock pass come first, in its order; those that follow are the planner's own.

    Args:
        memory_planning_algo: must be None: this pass plans whole methods, which no algorithm can.
        allow_lifetime_and_storage_overlap: accepted and of no effect. It tells the stock verifier to let
            tensors overlap; this one follows the bytes themselves, and needs no leave for what is right.
        alloc_graph_input, alloc_graph_output, alloc_mutable_buffers: whether inputs, outputs and mutable
            buffers get a place in the arena. What is input and output at once is planned only if both are.
        share_mutable_buffers: whether buffers of the same name are one tensor in all methods; they then get
            an arena of their own, memory id 2.
        alignment: bytes; offsets are multiples of it, and sizes are rounded up to one.
        packer: name of the packing algorithm.
        hierarchy: which memory a graph and those that it calls may share.
        timeout: seconds that the search may take a method; it ends as soon as the plan is proved optimal.
        seed: of every random choice.
        threads: workers; 0 for one a processor.
        in_place: whether a kernel may write its output exactly over an input that dies there, if it is known
            to be right so (``kernels``).
        elide_copies: whether what a node copies may lie where the copy is, so that nothing moves.
        reorder: whether independent nodes may move, so that fewer bytes are alive at the peak.
        memory_map: the banks that tensors go to, by memory id, so that accesses cost the least: a MemoryMap,
            or an object shaped like ExecuTorch's ``TargetMemoryMap`` (``banks`` with name, size, mem_id and
            alignment). A memory id that a custom pass gave a tensor is kept, but for the default. The runner
            hands over one buffer for each memory id.

    Raises:
        InputError: an algorithm was given, or the memory map cannot be used.
        ValueError: ``share_mutable_buffers`` without ``alloc_mutable_buffers``.
    """

    def __init__(
        self,
        memory_planning_algo: None = None,
        allow_lifetime_and_storage_overlap: bool = False,
        alloc_graph_input: bool = True,
        alloc_graph_output: bool = True,
        alloc_mutable_buffers: bool = True,
        share_mutable_buffers: bool = False,
        alignment: int = ALIGNMENT,
        *,
        packer: str = "auto",
        hierarchy: Hierarchy = "joint",
        timeout: float | None = 5.0,
        seed: int = 0,
        threads: int = 0,
        in_place: bool = False,
        elide_copies: bool = False,
        reorder: bool = False,
        memory_map: Any = None,
    ) -> None:
        if memory_planning_algo is not None:
            raise InputError(
                "lowtide's MemoryPlanningPass takes no memory_planning_algo, because it plans whole methods: "
                "choose packer= instead, or give the algorithm to ExecuTorch's own pass"
            )
        super().__init__(
            memory_planning_algo=_no_algorithm,
            allow_lifetime_and_storage_overlap=allow_lifetime_and_storage_overlap,
            alloc_graph_input=alloc_graph_input,
            alloc_graph_output=alloc_graph_output,
            alloc_mutable_buffers=alloc_mutable_buffers,
            share_mutable_buffers=share_mutable_buffers,
            alignment=alignment,
        )
        self.packer = packer
        self.hierarchy: Hierarchy = hierarchy
        self.options = Options(timeout=timeout, seed=seed, threads=threads)
        self.techniques = Techniques(in_place, elide_copies)
        self.reorder = reorder
        self.memory = None if memory_map is None else MemoryMap.of(memory_map)
        if self.memory is not None and share_mutable_buffers:
            raise InputError(
                "share_mutable_buffers puts what methods share in memory id 2, outside of any memory map: "
                "leave out one of the two"
            )
        self.plans: list[Plan] = []
        self.reports: list[Report] = []
        self.notes: list[str] = []
        self._graphs: list[weakref.ref[fx.Graph]] = []  # of the methods that were planned, in order
        self._finished = False  # the next method belongs to another program

    @property
    def plan(self) -> Plan:
        """The plan of the last method.

        Raises:
            LowtideError: nothing was planned yet.
        """
        if not self.plans:
            raise LowtideError("nothing was planned yet: pass this to to_executorch first")
        return self.plans[-1]

    def plan_of(self, graph_module: fx.GraphModule) -> Plan | None:
        """The plan of a method by its graph module; None if this pass did not plan it, or has forgotten it.

        ExecuTorch hands the graph of the module that it gave to ``run`` to another one.
        """
        for graph, plan in zip(self._graphs, self.plans, strict=True):
            if graph() is graph_module.graph:
                return plan
        return None

    def run(self, graph_module: fx.GraphModule, graph_signature: Any = None) -> PassResult:
        """Plan a method: its graph module and every one that it runs.

        If that fails, the pass forgets the methods that it has planned for the same program.

        Raises:
            UnsupportedError: a node that ExecuTorch cannot emit.
            VerificationError: the plan is wrong; nothing was written to the graphs.
        """
        if self._finished:
            self._forget()
        try:
            with _collector_paused():
                self._plan(graph_module, graph_signature)
            if self.share_mutable_buffers and graph_signature is not None:
                self.state.graph_modules.append(graph_module)
                _check_default_mem_ids(graph_module)
                _insert_mutable_buffer_specs(self.state, graph_module, graph_signature)
        except BaseException:
            self._forget()
            raise
        return PassResult(graph_module, True)

    def _forget(self) -> None:
        """Be as new: what was planned belongs to another program, or to one that could not be lowered."""
        self.plans, self.reports, self.notes = [], [], []
        self._graphs = []
        self.state = _MemoryPlanningState()
        self._finished = False

    def _plan(self, graph_module: fx.GraphModule, signature: Any) -> None:
        self._set_alloc_node_spec(graph_module)
        stamp = stamp_of(graph_module)
        if stamp is not None and stamp.parts and not self.techniques.in_place:
            self.notes.append(_PARTS_APART)
        self.notes += add_copies(
            graph_module,
            signature,
            plan_inputs=self.alloc_graph_input,
            plan_outputs=self.alloc_graph_output,
        )
        declare_stacked(graph_module)
        imported, moved = self._import(graph_module, signature)
        if self.techniques.elide_copies:
            self.notes += held_carries(imported.program)
        plan = plan_program(
            imported.program,
            self.techniques,
            packer=self.packer,
            hierarchy=self.hierarchy,
            options=self.options,
            memory=None if self.memory is None else banks_of(imported, self.memory),
        )
        plan = replace(plan, applied=(*moved, *plan.applied))
        self.reports.append(verify(plan, imported.program))
        self.plans.append(plan)
        self._graphs.append(weakref.ref(graph_module.graph))
        write_plan(imported, plan)
        refresh_outputs(imported.modules)
        for module in imported.modules:
            # Placeholders of branches may go by the names of mutable buffers.
            write_lifetimes(module, mutable_buffers(signature) if module is graph_module else ())

    def run_multimethod(self) -> None:
        """Place what methods share; ExecuTorch calls this when every method is planned."""
        try:
            super().run_multimethod()
        except BaseException:
            self._forget()
            raise
        self.state = _MemoryPlanningState()
        self._finished = True

    def _import(self, graph_module: fx.GraphModule, signature: Any) -> tuple[ImportedModules, list[Applied]]:
        """The whole tree as a Program, in-place reuse settled and in its final order; and what was moved."""
        groups = Groups()
        requests = find_requests(graph_module)
        imported = self._read(graph_module, signature, groups)
        if requests:
            refused = settle_requests(requests, imported, groups)
            for reason in refused:
                log.info(reason)
            self.notes += refused
            imported = self._read(graph_module, signature, groups)
        if not self.reorder:
            return imported, []
        found = reorder_modules(
            imported,
            in_place=self.techniques.in_place,
            elide_copies=self.techniques.elide_copies,
            packer=self.packer,
            hierarchy=self.hierarchy,
            options=self.options,
        )
        if found.changed:
            imported = self._read(graph_module, signature, groups)
        return imported, [Applied(step, "reordered") for step in moved_steps(found)]

    def _read(self, graph_module: fx.GraphModule, signature: Any, groups: Groups) -> ImportedModules:
        request = PassRequest(
            alignment=self.alignment,
            signature=signature,
            plan_inputs=self.alloc_graph_input,
            plan_outputs=self.alloc_graph_output,
            # Shared ones are placed when all methods are known (run_multimethod).
            plan_state=self.alloc_mutable_buffers and not self.share_mutable_buffers,
            device_aware=self.enable_non_cpu_memory_planning,
            allowances=self.techniques != Techniques(),
        )
        return import_modules(graph_module, request, groups)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking torch's millions of objects, none of which is made here."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _no_algorithm(*_: Any) -> list[int]:
    raise LowtideError("this pass plans whole methods: choose a packer instead of an algorithm")
