"""Are the offsets in a model right? The interpreter asks nobody, and runs with wrong bits.

Everything is put where the interpreter would put it, and the ownership of every byte is followed through the
program, on every path. Lifetimes play no part: tensors may share bytes whenever the program allows it, in
place too, where the reference kernels were tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_ARENA
from lowtide.base.errors import Violation
from lowtide.frontends.tflite.interpreter import simulate
from lowtide.frontends.tflite.metadata import ONLINE
from lowtide.ir.plan import ArenaUse, Plan
from lowtide.ir.problem import Buffer, Problem
from lowtide.lifetimes.lowering import lower
from lowtide.verifier.ownership import check_ownership

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.frontends.tflite.interpreter import Allocation, Scratch, Simulation
    from lowtide.frontends.tflite.model import Model
    from lowtide.frontends.tflite.programs import Imported


def judge(
    model: Model,
    imported: Imported,
    offsets: Sequence[int] | None,
    scratch: Sequence[Scratch] = (),
    *,
    limit: int = 20,
) -> list[Violation]:
    """Faults of the arena that the interpreter makes of some offsets.

    Args:
        model: what it runs.
        imported: its program, with the same scratch.
        offsets: one a tensor of all subgraphs; None for those that the interpreter chooses by itself.
        scratch: what kernels ask for.
        limit: stop after so many faults.
    """
    arena = simulate(model, offsets, scratch)
    faults = [*_misplaced(model, arena, offsets or ()), *_crashes(model, offsets or ())]
    if not faults:
        faults += check_ownership(imported.program, _as_plan(imported, arena), limit=limit)
    return faults[:limit]


def must_stay_online(model: Model) -> frozenset[int]:
    """Tensors that may have no offset, or the interpreter crashes.

    It looks for the offset of a variable by its position in its own subgraph, in the offsets of all: what
    stands there must say that the variable has none.
    """
    return frozenset(
        i for graph in model.subgraphs for i, tensor in enumerate(graph.tensors) if tensor.variable
    )


def _crashes(model: Model, offsets: Sequence[int]) -> Iterator[Violation]:
    for i in sorted(must_stay_online(model)):
        if i < len(offsets) and offsets[i] != ONLINE:
            yield Violation(
                "crash", f"tensor {i} has an offset, which the interpreter takes for a variable's"
            )


def _misplaced(model: Model, arena: Simulation, offsets: Sequence[int]) -> Iterator[Violation]:
    """Offsets below the arena, and variables in it, which must share no byte with anything."""
    for i, found in arena.tensors.items():
        if found.offset < 0:
            yield Violation("misfit", f"tensor {i} starts {-found.offset} bytes before the arena")
    tensors = list(model.tensors)
    variables = [i for i in arena.tensors if tensors[i].variable]
    for i in variables:
        for j, other in arena.tensors.items():
            if i != j and _overlap(arena.tensors[i], other):
                yield Violation("overlap", f"the variable tensor {i} shares bytes with tensor {j}")


def _overlap(a: Allocation, b: Allocation) -> bool:
    return a.offset < b.offset + b.size and b.offset < a.offset + a.size


def _as_plan(imported: Imported, arena: Simulation) -> Plan:
    """The arena as a plan in which everything lives throughout, so that only the program decides."""
    always = ((0, len(lower(imported.program).points)),)
    places = {name: arena.tensors[tensor] for tensor, name in imported.tensors.items()}
    places |= {
        name: found for name, found in zip(imported.scratch, arena.scratch, strict=True) if name is not None
    }
    buffers = tuple(Buffer(name, found.size, always) for name, found in places.items())
    use = ArenaUse(DEFAULT_ARENA, arena.head, 0, 0)
    return Plan(Problem(buffers), tuple(found.offset for found in places.values()), (use,), "interpreter")
