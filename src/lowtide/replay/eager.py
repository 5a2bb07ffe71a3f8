"""Eager PyTorch beside the replay: the same program as torch itself runs it, on copies of everything."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten

from lowtide.base.errors import ProgramError, ReplayError, first_line
from lowtide.replay.compare import in_words, is_close, largest_difference, same_bits
from lowtide.replay.undefined import DefineEmpty

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lowtide.frontends.torch_export import Imported


@dataclass(frozen=True, slots=True)
class EagerDifference:
    """A tensor whose bits differ from eager PyTorch's.

    Args:
        run: which invocation, from 0.
        output: which output, from 0; or the name of a mutated input or state.
        largest: the largest absolute difference.
    """

    run: int
    output: int | str
    largest: float

    def __str__(self) -> str:
        what = f"output {self.output}" if isinstance(self.output, int) else self.output
        far = f"by at most {self.largest:.3g}" if self.largest > 0 else in_words(self.largest)
        return f"run {self.run}, {what}: differs from eager {far}"


class Eager:
    """A copy of the program, run by torch; its state is carried over unless it is reset.

    Args:
        imported: the program; neither it nor the arguments are changed.
    """

    def __init__(self, imported: Imported) -> None:
        self._imported = imported
        self._load()

    def _load(self) -> None:
        copies: dict[int, Any] = {}
        exported = self._imported.exported
        self._run = (
            copy.deepcopy(exported, copies).module(check_guards=False)
            if exported is not None
            else fx.Interpreter(copy.deepcopy(self._imported.graph_module, copies)).run
        )
        self._tensors = {
            value: copies[id(tensor)]
            for value, tensor in self._imported.tensors.items()
            if id(tensor) in copies
        }

    def differences(
        self,
        run: int,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        outputs: Sequence[Any],
        changed: Mapping[str, torch.Tensor],
        tolerance: float,
    ) -> Iterator[EagerDifference]:
        """Run once, and say where outputs, mutated inputs and state differ from the replay's.

        Args:
            run: which invocation, from 0.
            call: positional and keyword arguments.
            outputs: what the replay returned, flat.
            changed: what the replay left in state and written inputs, by the value's name.
            tolerance: how far a difference may go, absolute and relative.

        Raises:
            ReplayError: a tensor differs by more, or is of another shape or type.
            ProgramError: eager PyTorch raises.
        """
        if run and self._imported.options.reset_state:
            self._load()
        args, kwargs = copy.deepcopy(call)
        given = tree_flatten((args, kwargs))[0]
        try:
            with DefineEmpty():
                found = tree_flatten(self._run(*args, **kwargs))[0]
        except Exception as error:
            raise ProgramError(
                f"run {run}: eager PyTorch raises, whatever the plan: {first_line(error)}"
            ) from error
        pairs: list[tuple[int | str, Any, Any]] = list(zip(range(len(found)), found, outputs, strict=True))
        pairs += [(name, tensor, changed[name]) for name, tensor in self._kept(given) if name in changed]
        for output, want, have in pairs:
            if not isinstance(want, torch.Tensor) or same_bits(want, have):
                continue
            what = f"run {run}, {f'output {output}' if isinstance(output, int) else output}"
            if want.shape != have.shape or want.dtype != have.dtype:
                raise ReplayError(
                    f"{what}: eager PyTorch has {want.dtype} {tuple(want.shape)}, "
                    f"the replay {have.dtype} {tuple(have.shape)}"
                )
            largest = largest_difference(want, have)
            if not is_close(want, have, tolerance):
                raise ReplayError(f"{what}: eager PyTorch differs {in_words(largest)}")
            yield EagerDifference(run, output, largest)

    def _kept(self, given: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """Names and tensors of the arguments and of the state, as eager PyTorch has left them."""
        values = self._imported.program.values
        arguments = iter(given)
        for entry in self._imported.inputs:
            argument = next(arguments) if entry.kind == "user" else None
            if entry.kind == "user" and entry.value is not None:
                yield values[entry.value].name, argument
        for value, tensor in self._tensors.items():
            yield values[value].name, tensor
