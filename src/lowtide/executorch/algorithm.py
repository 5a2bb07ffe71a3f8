"""The algorithm: Lowtide's packers for a planning pass of somebody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

from executorch.exir.memory_planning import SpecAllocResult, _is_out_var_node
from torch import fx

from lowtide.base.errors import UnsupportedError
from lowtide.executorch.arenas import memory_id_of
from lowtide.executorch.spec_writing import object_ids
from lowtide.executorch.specs import size_of, spec_of
from lowtide.ir.problem import Arena, Buffer, Problem, merge_intervals
from lowtide.pack.planner import plan_problem
from lowtide.pack.registry import Options
from lowtide.verifier.checks import verify


class Result(Sequence[int]):
    """Bytes of each arena by memory id, and the places that go with them.

    Two callers take it in two ways. A ``MemoryPlanningAlgorithmSuite`` reads ``bufsizes`` and ``spec_dict``,
    as of a ``MemoryAlgoResult``, and writes the places to the specs itself if it picks this result. A pass
    takes it for a list of sizes and expects the places in the specs: reading a size writes them, once.

    Args:
        bufsizes: bytes by memory id.
        spec_dict: the place of every spec.
    """

    def __init__(self, bufsizes: list[int], spec_dict: dict[Any, SpecAllocResult]) -> None:
        self.bufsizes = bufsizes
        self.spec_dict = spec_dict
        self._written = False

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if not self._written:
            self._written = True
            for spec, place in self.spec_dict.items():
                spec.mem_id, spec.mem_offset, spec.mem_obj_id = (
                    place.mem_id,
                    place.mem_offset,
                    place.mem_obj_id,
                )
        return self.bufsizes[index]

    def __len__(self) -> int:
        return len(self.bufsizes)


Algorithm = Callable[..., Result]


def algorithm(
    *, packer: str = "auto", timeout: float | None = 5.0, seed: int = 0, threads: int = 0
) -> Algorithm:
    """An algorithm for ``MemoryPlanningPass(memory_planning_algo=…)``, alone or in an algorithm suite.

    It places the tensors of one graph at a time, with the lifetimes that the pass around it has worked out,
    in the memory ids that were assigned, above the bytes that the pass reserves for the graphs that it runs.

    A tensor that is to lie some bytes into another (``storage_base_offset``, since ExecuTorch 1.5) does.

    What the pass around it gets wrong, it cannot put right. ExecuTorch's own pass

    - takes the result of a cond and what its branches return for different tensors, so that results are
      overwritten by later calls, and views of them read bytes that nobody wrote;
    - gives bytes to placeholders that the emitter binds to the caller's tensors, so that views of these read
      bytes that nobody wrote;
    - plans the graphs of a call below the caller's own tensors, never in the holes between them;
    - verifies the root graph only, and that at debug level only.

    ``lowtide.executorch.MemoryPlanningPass`` has none of these faults: prefer it where you can.

    In a suite the stock algorithms have faults of their own. ``greedy`` forgets a memory id that only called
    graphs use: the suite then refuses results of different lengths, and is to be used without it. ``naive``
    adds its own bytes to those that are reserved for called graphs: put it last.

    Args:
        packer: name of the packing algorithm.
        timeout: seconds that the search may take a graph.
        seed: of every random choice.
        threads: workers; 0 for one a processor.

    Returns:
        A function of ``(alignment, specs, graph_module, graph_signature, extra_padding)``, which changes
        nothing and returns the bytes of each arena with the place of every spec. Its ``__name__``, by which a
        suite tells its members apart, has the options in it.
    """
    options = Options(timeout=timeout, seed=seed, threads=threads)

    def lowtide(
        alignment: int,
        specs: Iterable[Any],
        graph_module: fx.GraphModule,
        graph_signature: Any = None,
        extra_padding: int = 0,
    ) -> Result:
        blocks = _blocks(list(specs), graph_module)
        reserved = list(getattr(graph_module, "input_mem_buffer_sizes", None) or [])
        buffers = []
        for i, block in enumerate(blocks):
            _refuse_misaligned(block, alignment)
            size = max(distance + (size_of(spec, alignment) or 0) for spec, distance in block.items())
            lifetime = merge_intervals((spec.lifetime[0], spec.lifetime[1] + 1) for spec in block)
            arena = memory_id_of(next(iter(block)))
            buffers.append(Buffer(str(i), size, lifetime, alignment=alignment, arena=arena))
        used = {buffer.arena for buffer in buffers}
        ids = used | {id for id, size in enumerate(reserved) if size}
        arenas = [Arena(id, reserved=reserved[id] if id < len(reserved) else 0) for id in sorted(ids)]
        plan = plan_problem(Problem(tuple(buffers), tuple(arenas)), packer=packer, options=options)
        verify(plan)
        objects = object_ids(plan)
        places: dict[Any, SpecAllocResult] = {}
        for i, block in enumerate(blocks):
            for spec, distance in block.items():
                spec.realign(alignment)  # as every algorithm does, for whoever asks for the size
                places[spec] = SpecAllocResult(buffers[i].arena, objects[i], plan.offsets[i] + distance)
        bytes_of = plan.arenas
        last = max(1, *ids) if ids else 1
        padding = dict.fromkeys(used, extra_padding)
        return Result([bytes_of.get(id, 0) + padding.get(id, 0) for id in range(last + 1)], places)

    lowtide.__name__ = f"lowtide({packer=}, {timeout=}, {seed=}, {threads=})"
    return lowtide


def _blocks(specs: list[Any], graph_module: fx.GraphModule) -> list[dict[Any, int]]:
    """Specs that share bytes, each with its distance from the first byte of its block.

    ExecuTorch 1.5 lets a spec lie some bytes into its ``storage_base``: whoever says so means it, and reads
    the whole for what was written to the part. Without a distance it is a wish, that of in-place reuse, which
    is granted where the base dies at the operator.
    """
    block_of: dict[Any, dict[Any, int]] = {spec: {spec: 0} for spec in specs}
    parts = [spec for spec in specs if getattr(spec, "storage_base_offset", 0)]
    wishes = {spec for spec in set(specs).difference(parts) if spec.inplace_base is not None}
    for part in parts:
        base = part.storage_base
        if base not in block_of:
            raise UnsupportedError(
                f"{_called(part)} is to lie {part.storage_base_offset} bytes into one that is not planned"
            )
        if block_of[base] is block_of[part]:
            raise UnsupportedError(
                f"{_called(part)} is to lie within itself: its storage_base leads back to it"
            )
        start = block_of[base][base] + part.storage_base_offset
        for inner, distance in block_of[part].items():
            block_of[base][inner] = start + distance
            block_of[inner] = block_of[base]
    for tick, node in enumerate(graph_module.graph.nodes if wishes else ()):
        spec: Any = spec_of(node) if _is_out_var_node(node) else None
        if spec not in wishes:
            continue
        base = spec.inplace_base
        fits = base in block_of and base.lifetime[1] <= tick and memory_id_of(base) == memory_id_of(spec)
        alone = fits and len(block_of[spec]) == 1
        if alone and size_of(base, 1) == size_of(spec, 1):
            block_of[base][spec] = block_of[base][base]
            block_of[spec] = block_of[base]
    return list({id(block): block for block in block_of.values()}.values())


def _refuse_misaligned(block: dict[Any, int], alignment: int) -> None:
    for spec, distance in block.items():
        if distance % alignment:
            raise UnsupportedError(
                f"{_called(spec)} is to lie {distance} bytes into another, which is no multiple of the "
                f"alignment of {alignment}"
            )


def _called(spec: Any) -> str:
    return f"a tensor of type {spec.dtype} and shape {list(spec.shape)}"


__all__ = ["Algorithm", "Result", "algorithm"]
