"""A finished Plan back into ExecuTorch's graphs: places of specs, sizes of arenas, calls to free."""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from executorch.exir import memory
from executorch.exir.memory_planning import _contains_xnnpack_delegate
from executorch.exir.tensor import TensorSpec
from torch import fx

from lowtide.base.errors import UnsupportedError
from lowtide.executorch.specs import placeholders_of, spec_of, view_base

if TYPE_CHECKING:
    from lowtide.executorch.programs import ImportedModules
    from lowtide.ir.memory_map import MemoryMap
    from lowtide.ir.plan import Plan

XNNPACK_PADDING = 64
"""Bytes behind an arena that XNNPACK's kernels may read (its ``XNN_EXTRA_BYTES``, and to spare)."""


def write_plan(imported: ImportedModules, plan: Plan) -> None:
    """Give every spec of the tree its place, every graph its sizes, and insert calls to free."""
    objects = object_ids(plan)
    placed: dict[int, tuple[int, int, int]] = {}
    for storage, specs in enumerate(imported.specs):
        info = imported.program.storages[storage]
        position = plan.names.get(info.name) if info.planned else None
        if position is not None:
            arena = plan.problem.buffers[position].arena
            placed[storage] = (arena, plan.offsets[position], objects[position])
        for spec in specs:
            if info.kind != "constant":
                _place(spec, placed.get(storage), info.alignment)
    _place_names(imported, placed)
    _write_sizes(imported, plan)
    insert_frees(imported, plan)


def object_ids(plan: Plan) -> list[int]:
    """A number for each buffer, equal wherever two share a byte, as ExecuTorch's verifier demands.

    Planned without shared objects, an arena is cut into runs of bytes that no buffer crosses.
    """
    spans = sorted(
        (buffer.arena, offset, offset + buffer.size, i)
        for i, (buffer, offset) in enumerate(zip(plan.problem.buffers, plan.offsets, strict=True))
    )
    found = [0] * len(spans)
    run = -1
    at: int | None = None
    end = 0
    for arena, start, stop, i in spans:
        if arena != at or start >= end:
            run, at, end = run + 1, arena, start
        end = max(end, stop)
        found[i] = run
    return found


def _place(spec: Any, place: tuple[int, int, int] | None, alignment: int) -> None:
    """Write one spec. One without a place keeps the memory id that a custom pass gave it."""
    if place is None:
        spec.mem_offset = spec.mem_obj_id = None
        return
    spec.realign(alignment)
    spec.mem_id, spec.mem_offset, spec.mem_obj_id = place


def _place_names(imported: ImportedModules, placed: dict[int, tuple[int, int, int]]) -> None:
    """Specs that are only names for other tensors: placeholders of branches, and bases of views.

    The emitter leaves out a view whose spec has a place, and takes that place for the view's. So the place
    must be the one where the bytes are at every call, or there must be none.
    """
    alignment = imported.program.storages[0].alignment if imported.program.storages else 1
    own = {spec for specs in imported.specs for spec in specs}
    for module in imported.modules:
        named = [(spec_of(node), spec_of(node)) for node in placeholders_of(module)]
        views = module.graph.find_nodes(op="call_function", target=memory.view)
        named += [(view_base(node), spec_of(node)) for node in views]
        for name, tensor in named:
            if name is None or name in own or name.const:
                continue
            storage = imported.storage_of(tensor)
            place = None if storage is None else placed.get(storage)
            if place is None:
                name.mem_id = None
            _place(name, place, alignment)


def _write_sizes(imported: ImportedModules, plan: Plan) -> None:
    """Bytes of each arena: of the whole tree at the root, of a graph and what it runs elsewhere."""
    padding = _padding(imported)
    last = max(plan.arenas, default=1)
    ends: dict[int, list[int]] = {}
    regions = imported.program.regions
    for storage in imported.program.storages:
        position = plan.names.get(storage.name)
        if position is None:
            continue
        buffer = plan.problem.buffers[position]
        region: int | None = storage.region
        while region is not None:
            sizes = ends.setdefault(region, [0] * (last + 1))
            sizes[buffer.arena] = max(sizes[buffer.arena], plan.offsets[position] + buffer.size)
            region = regions[region].parent
    for region, module in enumerate(imported.modules):
        sizes = ends.get(region, [0] * (last + 1))
        module.meta["non_const_buffer_sizes"] = [size + padding if size else size for size in sizes]
    devices = imported.arenas.devices()
    if devices is not None:
        imported.modules[0].meta["non_const_buffer_device"] = devices


def _padding(imported: ImportedModules) -> int:
    """Bytes that are added behind every arena."""
    return XNNPACK_PADDING if any(map(_contains_xnnpack_delegate, imported.modules)) else 0


def banks_of(imported: ImportedModules, memory: MemoryMap) -> MemoryMap:
    """A memory map without the bytes that will be added behind every arena.

    Raises:
        UnsupportedError: tensors are on devices with memory of their own, whose ids would be taken for banks.
        InputError: a bank has no more bytes than those.
    """
    if imported.arenas.by_pool:
        raise UnsupportedError("a memory map is of the CPU's memory: leave it out, or plan without devices")
    return memory.without(_padding(imported))


def insert_frees(imported: ImportedModules, plan: Plan) -> None:
    """Free each tensor of unbounded size behind its last use, in the graph that has it last."""
    if not plan.problem.frees:
        return
    storages = {storage.name: i for i, storage in enumerate(imported.program.storages)}
    regions = {region.name: i for i, region in enumerate(imported.program.regions)}
    behind: dict[tuple[int, str], list[Any]] = defaultdict(list)
    for free in plan.problem.frees:
        behind[(regions[free.region], free.after)].append(imported.specs[storages[free.buffer]][0])
    for (region, after), specs in behind.items():
        graph = imported.modules[region].graph
        node = next(node for node in graph.nodes if node.name == after)
        with graph.inserting_after(_last_name(node)):
            for spec in specs:
                spec.__class__ = _FreedSpec
                graph.call_function(memory.free, (spec,))
        imported.modules[region].recompile()


class _FreedSpec(TensorSpec):  # type: ignore[misc]
    """A spec that occurs in a graph as an argument, and so has to print as an expression.

    ExecuTorch's own does not: it prints its device as ``CPU:0``, and the graph can no longer be compiled.
    """

    def __repr__(self) -> str:
        return repr(f"{self.dtype} {self.shape}")


def _last_name(node: fx.Node) -> fx.Node:
    """The node itself, or the last of the nodes behind it that only pick its results."""
    last = node
    while last.next.target is operator.getitem and last.next.args[0] is node:
        last = last.next
    return last
