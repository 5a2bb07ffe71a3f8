"""Whose kernels and whose planner are meant."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args

from lowtide.base.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.export import ExportedProgram

    from lowtide.transforms.fit import Allowed, Packed, Target

Runtime = Literal["executorch", "pytorch"]

_SECONDS = 1.0
"""Time to pack a candidate."""


def target_of(
    runtime: str | None, *, plan_inputs: bool = True, plan_outputs: bool = True
) -> tuple[Target, tuple[str, ...]]:
    """The target of a name, and what there is to say of the choice.

    Args:
        runtime: its name; None for ExecuTorch where it is installed, and else PyTorch.
        plan_inputs, plan_outputs: whether they lie in the arena.

    Raises:
        InputError: there is no such runtime.
        UnsupportedError: it is not installed, or too old.
    """
    if runtime is not None and runtime not in get_args(Runtime):
        raise InputError(f"runtime {runtime!r}: choose executorch or pytorch")
    remarks: tuple[str, ...] = ()
    if runtime != "pytorch":
        try:
            with _silent():
                from lowtide.executorch.fit_target import ExecutorchTarget
                from lowtide.executorch.version import require_supported

            require_supported()
        except (ImportError, UnsupportedError) as error:
            if runtime is not None:
                raise UnsupportedError(f"runtime executorch cannot be used: {error}") from error
            remarks = (f"PyTorch's own arena is meant, as with --runtime pytorch: {error}",)
        else:
            return ExecutorchTarget(
                seconds=_SECONDS, plan_inputs=plan_inputs, plan_outputs=plan_outputs
            ), remarks
    return PytorchTarget(plan_inputs=plan_inputs, plan_outputs=plan_outputs), remarks


@contextmanager
def _silent() -> Iterator[None]:
    """Without the warnings that other libraries log when they are imported."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


class PytorchTarget:
    """Packs an export as ``lowtide plan`` does."""

    name = "pytorch"
    has_views = True
    kernels: tuple[str, ...] = ("linear",)

    def __init__(self, *, plan_inputs: bool = True, plan_outputs: bool = True) -> None:
        import torch

        from lowtide.transforms.split import Dialect

        aten = torch.ops.aten
        self.dialect = Dialect(
            aten.slice.Tensor, aten.constant_pad_nd.default, aten.slice_scatter.default, aten.cat.default
        )
        self._planned: dict[str, Any] = {"plan_inputs": plan_inputs, "plan_outputs": plan_outputs}

    def before(self, program: ExportedProgram) -> Packed:
        """The plan without any technique."""
        from lowtide.transforms.fit import Allowed

        return self.pack(program, Allowed(in_place=False, elide_copies=False))

    def pack(self, program: ExportedProgram, allowed: Allowed) -> Packed:
        """The plan with what is allowed."""
        from lowtide.api import plan
        from lowtide.transforms.fit import Packed

        found = plan(
            program,
            timeout=_SECONDS,
            in_place=allowed.in_place,
            elide_copies=allowed.elide_copies,
            reorder=allowed.reorder,
            **self._planned,
        )
        return Packed(found.arena_bytes, found.lower_bound_bytes, found)

    def ordered(self, program: ExportedProgram) -> ExportedProgram | None:
        """The program in the order that reordering finds."""
        from lowtide.sources import make_request
        from lowtide.transforms import transform

        request = make_request({"in_place": True, "elide_copies": True, **self._planned})
        found = transform(program, reorder=True, options=request).program
        return None if found is program else found
