"""How a Program maps back to the graph that it was made of: Imported.

A Program knows positions only. To run one, an interpreter needs the node behind each step, the
values behind each node and the real tensors behind constants and state: that is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Union

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.export import ExportedProgram

    from lowtide.frontends.torch_export.calls import CallSignature
    from lowtide.ir.program import Program
    from lowtide.ir.request import Request

Position = Union[int, None, "tuple[Position, ...]", "dict[str, Position]"]
"""Where a node's result is: a value's position; None if it holds no tensor; a tuple or dict of
positions, shaped as the result, for an operator with several results."""

InputKind = Literal["user", "parameter", "buffer", "constant", "token", "object"]


@dataclass(frozen=True, slots=True)
class RegionBinding:
    """How one region maps to its graph; ``Imported.regions[r]`` belongs to ``Program.regions[r]``.

    Args:
        module: the graph module; None for the pseudo region of a delegate.
        nodes: the node that each step executes, in the order of the region's steps.
        params: its placeholders in graph order.
        values: position of every node's result, placeholders, ``getitem`` and ``get_attr`` included.
        outputs: what it returns, flat: nodes, or constants such as ``None`` and ``3``.
        calls: what each node that runs graphs passes to them.
    """

    module: fx.GraphModule | None
    nodes: tuple[fx.Node, ...]
    params: tuple[fx.Node, ...]
    values: Mapping[fx.Node, Position]
    outputs: tuple[Any, ...]
    calls: Mapping[fx.Node, CallSignature] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Input:
    """A placeholder of the root.

    Args:
        node: the placeholder.
        kind: ``user`` for what the caller passes, anything else comes with the program.
        value: position of its value; None if it is not a tensor.
        target: its name in ``state_dict`` or ``constants``.
        tensor: the tensor or script object that comes with the program; None for a user input.
    """

    node: fx.Node
    kind: InputKind
    value: int | None
    target: str | None = None
    tensor: Any = None


@dataclass(frozen=True)
class Imported:
    """A Program and its way back to the graph.

    Args:
        program: what runs.
        regions: one entry a region, in the order of ``program.regions``.
        inputs: placeholders of the root in graph order; the ``user`` ones are the flattened arguments.
        tensors: the real tensor behind each constant and state value, in whichever region.
        fakes: the fake tensor of each value that has a storage of its own: how it lies in it.
        outputs: user outputs in the order of the root's outputs: nodes, or constants.
        graph_module: the root's graph.
        options: what was asked.
        exported: the program it came from; None for a bare graph module.
    """

    program: Program
    regions: tuple[RegionBinding, ...]
    inputs: tuple[Input, ...]
    tensors: Mapping[int, torch.Tensor]
    fakes: Mapping[int, torch.Tensor]
    outputs: tuple[Any, ...]
    graph_module: fx.GraphModule
    options: Request
    exported: ExportedProgram | None = None
