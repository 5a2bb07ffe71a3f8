"""Whether PyTorch's kernels lay tensors out as its tracer says."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


class _Strides(fx.Interpreter):
    """Runs a graph, and notes the nodes whose results lie otherwise than their fakes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.others: list[str] = []

    def run_node(self, n: fx.Node) -> Any:
        found = super().run_node(n)
        fake = n.meta.get("val")
        if isinstance(found, torch.Tensor) and isinstance(fake, torch.Tensor):
            traced, real = (
                [stride for stride, size in zip(t.stride(), t.shape, strict=True) if size > 1]
                for t in (fake, found)
            )
            self.others += [n.name] if traced != real else []
        return found


def laid_out_otherwise(exported: torch.export.ExportedProgram, inputs: tuple[Any, ...]) -> list[str]:
    """Names of the nodes that eager PyTorch lays out in other strides than the trace has."""
    module = exported.module()
    assert isinstance(module, fx.GraphModule)
    with torch.no_grad():
        run = _Strides(module)
        run.run(*inputs)
    return run.others
