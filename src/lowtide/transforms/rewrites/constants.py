"""The tensors of a program's parameters and constants, by the nodes that stand for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.export.graph_signature import InputKind

if TYPE_CHECKING:
    from torch import fx
    from torch.export import ExportedProgram

_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def values_of_constants(program: ExportedProgram) -> dict[fx.Node, torch.Tensor]:
    """What is the same in every run; state that a run changes is not among it."""
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values()) | set(
        getattr(signature, "parameters_to_mutate", {}).values()
    )
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found: dict[fx.Node, torch.Tensor] = {}
    for spec in signature.input_specs:
        if spec.kind not in _CONSTANTS or spec.target is None or spec.target in changed:
            continue
        tensor = program.constants.get(spec.target)
        tensor = program.state_dict.get(spec.target) if tensor is None else tensor
        if isinstance(tensor, torch.Tensor):
            found[nodes[spec.arg.name]] = tensor.detach()
    return found
