"""Stock and Lowtide's files of the zoo, each made once a process; and files of other kinds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass as StockPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch import nn

from lowtide.executorch import MemoryPlanningPass
from models import REAL_MODELS
from runtime import Inputs, differences, eager, edge_of, lower, run_file
from zoo import ZOO

NOT_TOLD_BY_FILE = {"init_that_lives_on"}
"""Files of which two programs that compute different things have the very same bytes."""


@dataclass(frozen=True)
class Files:
    """One program of the zoo.

    Args:
        calls: inputs, several calls in a row.
        expected: flat outputs of the model itself.
        stock: the file under the stock planner; None if it does not lower.
        lowtide: the file under Lowtide's pass.
    """

    calls: list[Inputs]
    expected: list[list[Any]]
    stock: bytes | None
    lowtide: bytes

    def right(self, data: bytes) -> bool:
        """Whether a file computes what the model computes."""
        return not differences(self.expected, run_file(data, self.calls))


@cache
def files_of(name: str) -> Files:
    """The files of a program of the zoo."""
    torch.manual_seed(0)
    model, calls = ZOO[name]()
    calls = [*calls, *reversed(calls)]
    edge = edge_of(model, calls[0])
    try:
        stock = lower(edge, StockPass()).buffer
    except Exception:
        stock = None
    return Files(calls, eager(model, calls), stock, lower(edge, MemoryPlanningPass()).buffer)


@cache
def real_files(name: str) -> tuple[Inputs, bytes, bytes]:
    """Inputs of a real model, its stock file, and Lowtide's."""
    torch.manual_seed(0)
    model, inputs = REAL_MODELS[name]()
    edge = edge_of(model, inputs)
    return inputs, lower(edge, StockPass()).buffer, lower(edge, MemoryPlanningPass()).buffer


def stock_file(name: str) -> bytes:
    """The file of a program that the stock planner lowers."""
    data = files_of(name).stock
    assert data is not None
    return data


class Counter(nn.Module):
    """Two methods over the same state: one adds to it, one reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((4, 6), 3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).softmax(dim=1) + x.sum(dim=1, keepdim=True)
        self.total.add_(y.view(4, 6))
        return (y.exp() + self.total).view(24)


class Reader(nn.Module):
    """The second method, around a counter."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self.counter = counter

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.counter.total * x).sum(dim=0).exp().tanh() * 2


def methods_file(planning: Any, **config: Any) -> bytes:
    """A file with methods ``add`` and ``read`` and a constant method; state is initialised."""
    counter = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.rand(4, 6)
        programs = {
            "add": torch.export.export(counter, (x,)),
            "read": torch.export.export(Reader(counter), (x,)),
        }
        edge = to_edge(programs, constant_methods={"width": 6})
        return edge.to_executorch(
            ExecutorchBackendConfig(
                memory_planning_pass=planning,
                passes=[InitializedMutableBufferPass(["total", "counter.total"])],
                **config,
            )
        ).buffer
