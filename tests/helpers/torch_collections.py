"""Programs that PyTorch keeps for its own tests: ExportDB's examples, and the samples of ``hop_db``."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._export.db.examples import all_examples
from torch.testing._internal.hop_db import hop_db
from torch.utils._pytree import tree_flatten, tree_unflatten

import lowtide
from lowtide.replay import replay

OFF: dict[str, Any] = {}
ON: dict[str, Any] = {"in_place": True, "elide_copies": True, "fold_constants": True, "reorder": True}


@dataclass(frozen=True)
class Case:
    """A program that is still to be exported.

    Args:
        name: for people and for lists of exemptions.
        make: builds the module, and its positional and keyword arguments, from a fixed seed.
        dynamic_shapes: as ``torch.export.export`` takes them.
    """

    name: str
    make: Callable[[], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]
    dynamic_shapes: Any = None


class _Bound(nn.Module):
    """A function with everything bound that is no tensor; it takes the tensors, flat."""

    def __init__(self, function: Callable[..., Any], given: Any) -> None:
        super().__init__()
        self.function = function
        self.leaves, self.spec = tree_flatten(given)

    def forward(self, *tensors: torch.Tensor) -> Any:
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = tree_unflatten(leaves, self.spec)
        return self.function(*args, **kwargs)


def export_db() -> Iterator[Case]:
    """Every example of ExportDB."""
    for name, found in sorted(all_examples().items()):
        yield Case(
            name,
            lambda found=found: (found.model, found.example_args, dict(found.example_kwargs)),  # type: ignore[misc]
            found.dynamic_shapes,
        )


def higher_order() -> Iterator[Case]:
    """Every sample of every higher-order operator, in each type that it takes; float32 if it names none."""
    for entry in hop_db:
        for dtype in sorted(entry.dtypes or {torch.float32}, key=str):
            name = f"{entry.name}-{entry.variant_test_name}-{str(dtype).removeprefix('torch.')}"
            yield Case(name, lambda entry=entry, dtype=dtype: _sample(entry, dtype))  # type: ignore[misc]


def _sample(entry: Any, dtype: torch.dtype) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(0)
    (sample,) = entry.sample_inputs("cpu", dtype)
    given = ((sample.input, *sample.args), dict(sample.kwargs))
    tensors = [leaf for leaf in tree_flatten(given)[0] if isinstance(leaf, torch.Tensor)]
    return _Bound(entry.op, given), tuple(tensors), {}


def exported(case: Case) -> torch.export.ExportedProgram:
    """Export a case; with TorchDynamo if tracing alone does not do, as for operators that need it."""
    torch._dynamo.reset()
    model, args, kwargs = case.make()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        trace = functools.partial(
            torch.export.export, model, args, kwargs, dynamic_shapes=case.dynamic_shapes
        )
        try:
            return trace(strict=False)
        except Exception:  # whatever tracing raises: TorchDynamo has its own word
            return trace(strict=True)


def hold(case: Case) -> None:
    """Export, and decompose as well; plan with everything off and with everything on, verify, replay.

    Raises:
        Exception: whatever torch or Lowtide has to say against it.
        AssertionError: eager PyTorch computes other bits, or an output is undefined.
    """
    program = exported(case)
    for form in (program, program.run_decompositions()):
        for options in (OFF, ON):
            plan = lowtide.plan(form, packer="first-fit", **options)
            assert lowtide.verify(plan, form, **options).followed
            report = replay(form, plan, **options)
            assert report.eager_differences == ()
            assert report.undefined == ()
