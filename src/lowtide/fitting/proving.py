"""Original and fitted program run side by side: on the runtime that is meant, and replayed in the arena."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.utils import _pytree as pytree

from lowtide.base.errors import ReplayError
from lowtide.fitting.fitted import Proof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.export import ExportedProgram

    from lowtide.fitting.fitted import Fitted
    from lowtide.transforms.fit import Target

_CLOSE = 1e-3
"""Absolute and relative: what differs more is no rounding."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def prove(
    original: ExportedProgram, fitted: Fitted, target: Target, inputs: Sequence[Any] | None = None
) -> Proof:
    """Run both programs, and the fitted one in its planned arena.

    Args:
        original: what was fitted.
        fitted: what became of it.
        target: the runtime that is meant.
        inputs: arguments; by default the export's example inputs, or generated ones.

    Raises:
        ReplayError: the outputs differ by more than rounding, or a step read a byte that was spoilt.
    """
    arguments, source = arguments_of(original, inputs)
    replayed = _replay(fitted, arguments)
    runtime: Literal["executorch", "pytorch"] = "pytorch"
    remark = ""
    if target.name == "executorch":
        from lowtide.executorch.fit_target import RuntimeMissingError, lower_and_run

        try:
            pairs = [
                lower_and_run(program, arguments, fitted.allowed) for program in (original, fitted.program)
            ]
            runtime = "executorch"
        except RuntimeMissingError as error:
            remark = f"ExecuTorch's runtime is not there ({error}): PyTorch's kernels ran both programs."
    if runtime == "pytorch":
        pairs = [(_run(program, arguments), file_bytes(program)) for program in (original, fitted.program)]
    (expected, before), (found, after) = pairs
    equal, largest = _compare(expected, found)
    return Proof(runtime, source, len(expected), equal, largest, replayed, before, after, remark)


def arguments_of(
    program: ExportedProgram, inputs: Sequence[Any] | None
) -> tuple[Arguments, Literal["given", "example", "generated"]]:
    """What to run a program on, and where that is from."""
    if inputs is not None:
        return (tuple(inputs), {}), "given"
    if program.example_inputs is not None:
        args, kwargs = program.example_inputs
        return (tuple(args), dict(kwargs)), "example"
    generator = torch.Generator().manual_seed(0)
    kinds = {name for name in program.graph_signature.user_inputs if isinstance(name, str)}
    leaves = [
        _made_up(node.meta["val"], generator)
        for node in program.graph.find_nodes(op="placeholder")
        if node.name in kinds
    ]
    if program.call_spec.in_spec is None:
        return (tuple(leaves), {}), "generated"
    args, kwargs = pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    return (tuple(args), dict(kwargs)), "generated"


def _made_up(like: Any, generator: torch.Generator) -> Any:
    """Numbers of a tensor's shape and type; zeros for integers, which may be positions."""
    if not isinstance(like, torch.Tensor):
        return like
    shape = [int(size) for size in like.shape]
    if like.dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(like.dtype)
    return torch.zeros(shape, dtype=like.dtype)


def _replay(fitted: Fitted, arguments: Arguments) -> int:
    """Run the fitted program in an arena, every dead byte poisoned; how many program points that took."""
    from lowtide.api import plan
    from lowtide.replay import replay

    if arguments[1]:
        return 0
    request: dict[str, Any] = {
        "in_place": fitted.allowed.in_place,
        "elide_copies": fitted.allowed.elide_copies,
    }
    planned = plan(fitted.program, timeout=1.0, **request)
    report = replay(fitted.program, planned, [arguments[0]], times=1, eager=False, **request)
    return report.points


def _run(program: ExportedProgram, arguments: Arguments) -> list[Any]:
    args, kwargs = pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, arguments)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        leaves: list[Any] = pytree.tree_leaves(program.module(check_guards=False)(*args, **kwargs))
        return leaves


def _compare(expected: Sequence[Any], found: Sequence[Any]) -> tuple[bool, float]:
    """Whether all bits agree, and the largest absolute difference.

    Raises:
        ReplayError: they differ by more than rounding.
    """
    from lowtide.replay.compare import is_close, largest_difference, same_bits

    if len(expected) != len(found):
        raise ReplayError(f"the fitted program has {len(found)} outputs, the original {len(expected)}")
    largest, equal = 0.0, True
    for place, (one, other) in enumerate(zip(expected, found, strict=True)):
        if not isinstance(one, torch.Tensor):
            equal &= one == other
        elif not same_bits(one, other):
            equal = False
            if not is_close(one, other, _CLOSE):
                raise ReplayError(f"output {place} of the fitted program is not what the original computes")
            largest = max(largest, largest_difference(one, other))
    return equal, largest


def file_bytes(program: ExportedProgram) -> int:
    """Bytes of a program as torch.export.save writes it; nothing is written, or kept."""
    counter = _Counter()
    torch.export.save(program, counter)
    return counter.size


class _Counter(io.RawIOBase):
    """A file that only counts."""

    def __init__(self) -> None:
        super().__init__()
        self.size = self._position = 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self.size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        count = memoryview(data).nbytes
        self._position += count
        self.size = max(self.size, self._position)
        return count
