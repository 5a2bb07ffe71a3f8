"""Graphs as a planning pass sees them, without the rest of the lowering."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from executorch.exir import to_edge
from executorch.exir.pass_manager import PassManager
from executorch.exir.passes import SpecPropPass, ToOutVarPass
from executorch.exir.passes.replace_view_copy_with_view_pass import ReplaceViewCopyWithViewPass
from torch import nn

from lowtide.executorch.specs import specs_of


def graph_of(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.fx.GraphModule, Any]:
    """The graph module of a model, with its signature."""
    program = to_edge(torch.export.export(model.eval(), inputs)).exported_program()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        passes = PassManager(passes=[SpecPropPass(), ReplaceViewCopyWithViewPass(), ToOutVarPass()])
        return passes(program.graph_module).graph_module, program.graph_signature


def planned_specs(module: torch.fx.GraphModule) -> list[Any]:
    """Specs of what the operators and inputs of one graph make."""
    nodes = [n for n in module.graph.nodes if n.op in ("placeholder", "call_function")]
    return list(dict.fromkeys(spec for node in nodes for spec in specs_of(node) if spec is not None))


class Layers(nn.Module):
    """Widths that rise and fall, with a sum past several of them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = x.sin()
        b = torch.cat([a, x, a])
        return (b * b.cos()).sum(0) + a + x


class Toy(nn.Module):
    """Four times a multiplication, an addition and a relu."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        total = a
        for _ in range(4):
            total = (total * a + b).relu()
        return total


def toy_graph() -> tuple[torch.fx.GraphModule, Any]:
    """The graph of a Toy."""
    return graph_of(Toy(), (torch.ones(10), torch.ones(10)))
