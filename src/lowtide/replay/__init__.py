"""Replay: run a program in its planned arena, and compare it with separate storage bit for bit.

Every planned tensor lives at its planned offset in one real byte arena; dead bytes are poisoned. The
reference is the same interpreter with separate storage, and the two advance together, so that the
first step that reads a wrong byte is named. Eager PyTorch is compared too, and differences reported.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten

from lowtide.errors import LowtideError, ReplayError
from lowtide.frontends.torch_export import Imported, import_program
from lowtide.lowering import lower
from lowtide.replay.interpreter import Interpreter
from lowtide.replay.memory import ArenaMemory, SeparateMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lowtide.problem import Plan

__all__ = ["EagerDifference", "ReplayReport", "replay"]


@dataclass(frozen=True, slots=True)
class EagerDifference:
    """An output whose bits differ from eager PyTorch's.

    Args:
        run: which invocation, from 0.
        output: which output, from 0; or the name of a mutated tensor.
        largest: the largest absolute difference.
    """

    run: int
    output: int | str
    largest: float

    def __str__(self) -> str:
        return f"run {self.run}, output {self.output}: differs from eager by at most {self.largest:.3g}"


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay did; it returns only if every bit agreed with separate storage.

    Args:
        runs: invocations, all in the same arena.
        points: program points executed, over all runs.
        outputs: tensors compared at the end of runs.
        eager_differences: where eager PyTorch computes other bits, such as a scan in another order.
    """

    runs: int
    points: int
    outputs: int
    eager_differences: tuple[EagerDifference, ...] = ()


def replay(
    source: Any,
    plan: Plan,
    inputs: Sequence[Any] | None = None,
    *,
    times: int = 2,
    eager: bool = True,
    tolerance: float = 1e-3,
    progress: Callable[[int, int], None] | None = None,
) -> ReplayReport:
    """Run a program in its planned arena.

    Args:
        source: an ExportedProgram, an fx.GraphModule, the path of a ``.pt2``, or an Imported.
        plan: its plan; must be of the program as imported (same options).
        inputs: one tuple of arguments, or a list of such for several invocations in a row; by default the
            example inputs that the program was exported with.
        times: how often to go through the inputs, in the same arena, with state carried over.
        eager: compare with eager PyTorch as well.
        tolerance: largest relative difference from eager that is reported rather than raised.
        progress: called with (invocations done, in all).

    Raises:
        ReplayError: a step read a byte that its plan had spoilt, or eager PyTorch computes something else.
    """
    imported = source if isinstance(source, Imported) else import_program(source)
    calls = _calls(imported, inputs) * times
    flow = lower(imported.program)
    reference = Interpreter(imported, flow, SeparateMemory())
    planned = Interpreter(imported, flow, ArenaMemory(imported.program, plan))
    module = _eager_module(imported) if eager else None
    differences: list[EagerDifference] = []
    points = outputs = 0
    with torch.no_grad():
        for run, call in enumerate(calls):
            state = torch.random.get_rng_state()
            flat = tree_flatten(_arguments(call))[0]
            points += _lockstep(reference, planned, flat)
            changed = reference.kept()
            expected, found = reference.finish(), planned.finish()
            _compare("an output", expected, found)
            outputs += len(found)
            if module is not None:
                torch.random.set_rng_state(state)
                differences += _against_eager(run, module, call, expected, changed, tolerance)
            if progress is not None:
                progress(run + 1, len(calls))
    return ReplayReport(len(calls), points, outputs, tuple(differences))


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
        _compare(where, list(reference.reads()), list(planned.reads()))
        random = torch.random.get_rng_state()
        reference.perform()
        torch.random.set_rng_state(random)
        try:
            planned.perform()
        except LowtideError:
            raise
        except Exception as error:
            raise ReplayError(f"{where} fails in the planned arena: {error}") from error
        _compare(f"{where}, reading back its results,", list(reference.written()), list(planned.written()))
        planned.advance()
        if not reference.advance():
            break
    changed, expected = planned.kept(), reference.kept()
    for name, tensor in expected.items():
        _compare(f"{name} after the run", [tensor], [changed[name]])
    return count


def _compare(where: str, expected: Sequence[Any], found: Sequence[Any]) -> None:
    for k, (want, have) in enumerate(zip(expected, found, strict=True)):
        if want is have or _same_bits(want, have):
            continue
        raise ReplayError(
            f"{where} (operand {k}) finds other bytes in the planned arena than were written to it"
        )


def _same_bits(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor):
        return bool(a == b) or (a != a and b != b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(torch.equal(_raw(a), _raw(b)))


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single element may keep whatever stride it had, which a view of another type does not take.
    return plain.as_strided(plain.shape, (1,)).view(torch.uint8) if plain.numel() else plain


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


def _eager_module(imported: Imported) -> Any:
    if imported.exported is not None:
        return copy.deepcopy(imported.exported).module(check_guards=False)
    return torch.fx.Interpreter(copy.deepcopy(imported.graph_module)).run


def _against_eager(
    run: int, module: Any, call: Any, expected: Sequence[Any], changed: dict[str, Any], tolerance: float
) -> list[EagerDifference]:
    args, kwargs = copy.deepcopy(_arguments(call))
    found = tree_flatten(module(*args, **kwargs))[0]
    pairs: list[tuple[int | str, Any, Any]] = [
        (k, want, have)
        for k, (want, have) in enumerate(zip(found, expected, strict=True))
        if isinstance(want, torch.Tensor)
    ]
    differences = []
    for output, want, have in pairs:
        if _same_bits(want, have):
            continue
        if want.shape != have.shape or want.dtype != have.dtype:
            raise ReplayError(f"run {run}, output {output}: eager returns {want.dtype} {tuple(want.shape)}")
        gap = (want.double() - have.double()).abs()
        largest = float(gap.nan_to_num(0.0).max()) if gap.numel() else 0.0
        close = torch.allclose(want.double(), have.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
        if not close:
            raise ReplayError(f"run {run}, output {output}: eager PyTorch differs by {largest:.3g}")
        differences.append(EagerDifference(run, output, largest))
    return differences
