"""Replay: run a program in its planned arena, and compare it with separate storage bit for bit.

Every planned tensor lives at its planned offset in one real byte arena; dead bytes are poisoned. The
reference is the same interpreter with separate storage, and the two advance together, so that the
first step that reads a wrong byte is named. Eager PyTorch is compared too, and differences reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten

from lowtide.base.errors import (
    InputError,
    LowtideError,
    ProgramError,
    ReplayError,
    first_line,
)
from lowtide.frontends.front_end import Source
from lowtide.frontends.torch_export import Imported
from lowtide.lifetimes.lowering import lower
from lowtide.replay.arena_memory import ArenaMemory, SeparateMemory
from lowtide.replay.compare import require_same
from lowtide.replay.eager import Eager, EagerDifference
from lowtide.replay.inputs import require_apart
from lowtide.replay.interpreter import Interpreter
from lowtide.replay.undefined import undefined_outputs
from lowtide.sources import load, make_request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lowtide.ir.plan import Plan

__all__ = ["EagerDifference", "ReplayReport", "replay"]


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay did; it returns only if every bit agreed with separate storage.

    Args:
        runs: invocations, all in the same arena.
        points: program points executed, over all runs.
        outputs: tensors compared at the end of runs.
        eager_differences: where eager PyTorch computes other bits, such as a scan in another order.
        undefined: positions of outputs that the program makes with ``empty`` or its kind and never writes.
    """

    runs: int
    points: int
    outputs: int
    eager_differences: tuple[EagerDifference, ...] = ()
    undefined: tuple[int, ...] = ()


def replay(
    source: Any,
    plan: Plan,
    inputs: Sequence[Any] | None = None,
    *,
    times: int = 2,
    eager: bool = True,
    tolerance: float = 1e-3,
    progress: Callable[[int, int], None] | None = None,
    **request: Any,
) -> ReplayReport:
    """Run a program in its planned arena.

    Args:
        source: an ExportedProgram, an fx.GraphModule, the path of a ``.pt2``, or one of these as it was
            imported or loaded to be planned.
        plan: its plan.
        inputs: one tuple of arguments, or a list of such for several invocations in a row; by default the
            example inputs that the program was exported with.
        times: how often to go through the inputs, in the same arena, with state carried over.
        eager: compare with eager PyTorch as well.
        tolerance: difference from eager that is reported rather than raised, absolute and relative: of
            ``tolerance * (1 + |x|)``.
        progress: called with (invocations done, in all).
        request: the options that the plan was made with, as for ``lowtide.plan``.

    Raises:
        ReplayError: a step read a byte that its plan had spoilt, or eager PyTorch computes something else.
        ProgramError: the program itself raises on these inputs, or breaks the bounds that it states.
        InputError: the source is no program, or is imported already, with options of its own; or an input
            that the program changes shares memory with another.
    """
    imported = _imported(source, request)
    calls = _calls(imported, inputs) * times
    flow = lower(imported.program)
    reference = Interpreter(imported, flow, SeparateMemory())
    planned = Interpreter(imported, flow, ArenaMemory(imported.program, plan))
    beside = Eager(imported) if eager else None
    differences: list[EagerDifference] = []
    points = outputs = 0
    with torch.no_grad():
        for run, call in enumerate(calls):
            state = torch.random.get_rng_state()
            flat = tree_flatten(_arguments(call))[0]
            require_apart(imported, flow, flat)
            with torch.inference_mode():  # autograd's rules for views in place are no concern of a plan
                points += _lockstep(reference, planned, flat)
            changed = reference.kept()
            expected, found = reference.finish(), planned.finish()
            require_same("an output", expected, found)
            outputs += len(found)
            if beside is not None:
                torch.random.set_rng_state(state)
                differences += beside.differences(run, _arguments(call), expected, changed, tolerance)
            if progress is not None:
                progress(run + 1, len(calls))
    undefined = tuple(sorted(undefined_outputs(imported, flow)))
    return ReplayReport(len(calls), points, outputs, tuple(differences), undefined)


def _imported(source: Any, request: dict[str, Any]) -> Imported:
    """The program behind a source."""
    if isinstance(source, (Imported, Source)) and request:
        raise InputError(f"{next(iter(request))}: the program was imported before, with options of its own")
    if isinstance(source, Imported):
        return source
    found = source if isinstance(source, Source) else load(source, make_request(request))
    if not isinstance(found.origin, Imported):
        raise InputError("only a program that torch.export or torch.fx made can be run, not a problem")
    return found.origin


def _lockstep(reference: Interpreter, planned: Interpreter, arguments: Sequence[Any]) -> int:
    """One invocation of both; compares everything that is read, before it is."""
    reference.start(arguments)
    planned.start(arguments)
    count = 0
    while True:
        count += 1
        where = reference.flow.describe(reference.tick)
        if reference.tick != planned.tick:
            raise ReplayError(f"the planned run takes another path at {where}")
        planned.prepare()
        require_same(where, list(reference.reads()), list(planned.reads()))
        random = torch.random.get_rng_state()
        try:
            reference.perform()
        except LowtideError:
            raise
        except Exception as error:
            raise ProgramError(
                f"{where}: the program itself raises here, whatever its plan: {first_line(error)}"
            ) from error
        torch.random.set_rng_state(random)
        try:
            planned.perform()
        except LowtideError:
            raise
        except Exception as error:
            raise ReplayError(f"{where} fails in the planned arena: {first_line(error)}") from error
        expected, found = list(reference.written()), list(planned.written())
        require_same(f"{where}, reading back its results,", expected, found)
        planned.advance()
        if not reference.advance():
            break
    changed = planned.kept()
    for name, tensor in reference.kept().items():
        require_same(f"{name} after the run", [tensor], [changed[name]])
    return count


def _calls(imported: Imported, inputs: Sequence[Any] | None) -> list[Any]:
    if inputs is not None:
        return list(inputs) if isinstance(inputs, list) else [inputs]
    example = imported.exported.example_inputs if imported.exported is not None else None
    if example is None:
        raise ReplayError("the program carries no example inputs: pass inputs=")
    return [_Example(*example)]


@dataclass(frozen=True, slots=True)
class _Example:
    """Positional and keyword arguments, as an exported program keeps them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _arguments(call: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (call.args, call.kwargs) if isinstance(call, _Example) else (tuple(call), {})
