"""What the front end was asked, and how its Program maps back to the graph: Options and Imported.

A Program knows positions only. To run one, an interpreter needs the node behind each step, the
values behind each node and the real tensors behind constants and state: that is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Union

from lowtide.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.export import ExportedProgram

    from lowtide.program import Program

Position = Union[int, None, "tuple[Position, ...]", "dict[str, Position]"]
"""Where a node's result is: a value's position; None if it holds no tensor; a tuple or dict of
positions, shaped as the result, for an operator with several results."""

InputKind = Literal["user", "parameter", "buffer", "constant", "token", "object"]


@dataclass(frozen=True, slots=True)
class Options:
    """What is planned, and how.

    Args:
        alignment: bytes; sizes are rounded up to a multiple of it.
        plan_inputs: whether user inputs get a place in the arena, or stay where the caller has them.
        plan_outputs: the same for outputs. What is both is planned only if both are.
        plan_state: the same for mutable buffers.
        reset_state: whether state starts afresh at every invocation, so that its bytes may be reused.
        scratch: bytes that a node's kernel or delegate needs while it runs, by node name.

    Raises:
        InputError: an amount of bytes is not a whole number, or the alignment is not above 0.
    """

    alignment: int = 16
    plan_inputs: bool = True
    plan_outputs: bool = True
    plan_state: bool = True
    reset_state: bool = False
    scratch: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if type(self.alignment) is not int or self.alignment < 1:
            raise InputError(f"alignment {self.alignment!r} is not a whole number of bytes above 0")
        for name, size in self.scratch.items():
            if type(size) is not int or size < 0:
                raise InputError(f"scratch of node {name!r}: {size!r} is not a whole number of bytes")


@dataclass(frozen=True, slots=True)
class RegionBinding:
    """How one region maps to its graph; ``Imported.regions[r]`` belongs to ``Program.regions[r]``.

    Args:
        module: the graph module; None for the pseudo region of a delegate.
        nodes: the node that each step executes, in the order of the region's steps.
        params: its placeholders in graph order.
        values: position of every node's result, placeholders, ``getitem`` and ``get_attr`` included.
        outputs: what it returns, flat: nodes, or constants such as ``None`` and ``3``.
    """

    module: fx.GraphModule | None
    nodes: tuple[fx.Node, ...]
    params: tuple[fx.Node, ...]
    values: Mapping[fx.Node, Position]
    outputs: tuple[Any, ...]


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
        outputs: user outputs in the order of the root's outputs: nodes, or constants.
        graph_module: the root's graph.
        options: what was asked.
        exported: the program it came from; None for a bare graph module.
    """

    program: Program
    regions: tuple[RegionBinding, ...]
    inputs: tuple[Input, ...]
    tensors: Mapping[int, torch.Tensor]
    outputs: tuple[Any, ...]
    graph_module: fx.GraphModule
    options: Options
    exported: ExportedProgram | None = None
