"""Exporting small functions and looking things up in what the front end makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from lowtide.frontends.torch_export import Imported, import_program
from lowtide.ir.program import Region, Step, Storage, Value
from lowtide.ir.request import Request

FOUR = torch.ones(4, 4)


class Lambda(nn.Module):
    """A function as a module, so that it can be exported."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def imported(function: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> Imported:
    """Export a function and read it."""
    return import_program(torch.export.export(Lambda(function), inputs), Request(**options))


def value(result: Imported, name: str) -> Value:
    """The value of this name."""
    return result.program.values[result.program.value(name)]


def storage(result: Imported, name: str) -> Storage:
    """The one storage that holds a value, whatever views lie between."""
    found = value(result, name)
    while found.storage is None:
        (base,) = found.aliases
        found = result.program.values[base]
    return result.program.storages[found.storage]


def storages(result: Imported, kind: str) -> list[str]:
    """Names of the storages of a kind."""
    return [s.name for s in result.program.storages if s.kind == kind]


def region(result: Imported, name: str) -> Region:
    """The region of this name."""
    return next(r for r in result.program.regions if r.name == name)


def step(result: Imported, name: str, of: str = "root") -> Step:
    """The step of this name in a region."""
    return next(s for s in region(result, of).steps if s.name == name)


def names(result: Imported, positions: Any) -> list[str | None]:
    """Names of values by position."""
    return [None if p is None else result.program.values[p].name for p in positions]
