"""Fit: make a program fit its memory, and prove that it still computes the same.

    >>> fitted = lowtide.fit(exported, max_arena=256 * 1024)
    >>> fitted.fits, fitted.arena_bytes, fitted.work
    >>> torch.export.save(fitted.program, "fitted.pt2")

targets    whose kernels and whose planner are meant
proving    original and fitted program, run side by side
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lowtide.fitting.fitted import Fitted, Proof
from lowtide.fitting.targets import target_of
from lowtide.transforms.fit.preparing import prepare, refuse_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Fitted", "Proof", "fit"]


def fit(
    source: Any,
    *,
    max_arena: int | None = None,
    max_macs: float = 1.10,
    timeout: float | None = 60,
    runtime: str | None = None,
    plan_inputs: bool = True,
    plan_outputs: bool = True,
    fold_limit: int | None = 64 * 1024,
    allow_rounding: bool = False,
    inputs: Sequence[Any] | None = None,
    prove: bool = True,
    trade: bool = False,
    progress: Callable[[str, int], None] | None = None,
) -> Fitted:
    """Find the cheapest way to make a program fit its memory.

    What costs nothing comes first: packing, outputs over inputs that die, copies left out, constants folded,
    another order. Then chains of operators are run part by part, which may compute some values twice.

    Args:
        source: a ``torch.export.ExportedProgram``, or the path of a ``.pt2``; it is left as it is.
        max_arena: bytes to fit into; the search ends as soon as the program does. None for the smallest arena
            that ``max_macs`` allows.
        max_macs: multiply-adds allowed, over those of the program.
        timeout: seconds that the search may take; None for as long as it takes.
        runtime: ``executorch`` or ``pytorch``: whose kernels, and whose arena; None for ExecuTorch where it
            is installed.
        plan_inputs, plan_outputs: whether inputs and outputs lie in the arena.
        fold_limit: bytes by which constants may grow; None for as much as it takes.
        allow_rounding: whether changes that may round differently are allowed.
        inputs: what original and fitted program are run on, a tuple of arguments; by default the example
            inputs of the export, or generated ones where it has none.
        prove: whether a changed program is replayed, run beside the original, and compared.
        trade: whether ``front`` is looked for from end to end, which takes longer, and not only on the way.
        progress: called with what is tried now and the smallest arena so far.

    Raises:
        InputError: the source or a limit cannot be used, such as an arena that cannot hold the inputs.
        UnsupportedError: the program cannot be planned, or has dynamic axes; the message names them.
        ReplayError: a changed program does not compute what the original does.
    """
    from lowtide.transforms.fit import Limits, fit_program, floor_of

    began = time.monotonic()
    limits = Limits(max_arena, max_macs, timeout, fold_limit, allow_rounding)
    exported = _exported(source)
    target, remarks = target_of(runtime, plan_inputs=plan_inputs, plan_outputs=plan_outputs)
    prepared = prepare(exported)
    floor = floor_of(prepared, plan_inputs=plan_inputs, plan_outputs=plan_outputs)
    refuse_budget(floor, max_arena)
    left = limits
    if timeout is not None:
        left = replace(limits, timeout=max(timeout - (time.monotonic() - began), 0.0))
    found = fit_program(prepared, target, left, progress=progress, trade=trade)
    program = found.program if found.changed else exported
    if found.changed and prepared is not exported:
        remarks = (*remarks, "The program was decomposed to core ATen operators, as lowering does.")
    fitted = Fitted(
        program=program,
        plan=found.packed.plan,
        steps=found.steps,
        macs=found.macs_after,
        front=found.front,
        runtime=target.name,
        macs_before=found.macs_before,
        arena_before=found.before.arena_bytes,
        floor=floor,
        limits=limits,
        allowed=found.allowed,
        fits=found.fits,
        changed=found.changed,
        complete=found.complete,
        interrupted=found.interrupted,
        barriers=found.barriers,
        remarks=remarks,
    )
    if prove and found.changed:
        from lowtide.fitting.proving import prove as run

        if progress is not None:
            progress("running original and fitted program", fitted.arena_bytes)
        fitted = replace(fitted, proof=run(exported, fitted, target, inputs))
    return fitted


def _exported(source: Any) -> Any:
    """The exported program that a user has.

    Raises:
        InputError: it is none.
    """
    from lowtide.base.errors import InputError
    from lowtide.sources import open_source

    value = source
    if isinstance(source, (str, os.PathLike)):
        value, front_end = open_source(source)
        if front_end.name != "pt2":
            raise InputError(
                f"{os.fspath(source)}: is a {front_end.name} file, whose operators cannot be changed: fit "
                "takes a .pt2 that torch.export.save wrote"
            )
    if type(value).__name__ != "ExportedProgram":
        raise InputError(f"a {type(value).__name__} has no weights to run: fit the ExportedProgram")
    return value
