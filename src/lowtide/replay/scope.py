"""What names stand for while a program runs: nodes, parameters, results of calls under way, state."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.fx.node import map_arg

from lowtide.base.errors import ReplayError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lowtide.frontends.torch_export import CallSignature, Imported
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.program import Step


@dataclass
class Frame:
    """One call under way: what its regions' parameters stand for, and its results so far."""

    sign: CallSignature
    operands: list[Any]
    slices: list[Any]
    carries: list[Any]
    results: list[Any]
    index: int = 0

    @property
    def trips(self) -> int:
        """How often a scan runs."""
        return int(self.slices[0].shape[0])

    def argument(self, k: int) -> Any:
        """What the k-th parameter of the regions stands for now; see ``Call`` for their order."""
        if self.sign.kind == "associative_scan":
            if k < len(self.results):
                return self.results[k][self.index - 1]
            k -= len(self.results)
        if k < len(self.carries):
            return self.carries[k]
        k -= len(self.carries)
        if k < len(self.slices):
            return self.slices[k][self.index]
        return self.operands[k - len(self.slices)]


class Scope:
    """The names of one invocation, and the state that outlives it.

    Args:
        imported: the program and its graph.
        flow: its program points.
    """

    def __init__(self, imported: Imported, flow: FlowGraph) -> None:
        self.imported, self.flow = imported, flow
        self.program = imported.program
        self.objects: dict[tuple[int, fx.Node], Any] = {}
        self.frames: dict[tuple[int, int], Frame] = {}
        self.state: dict[int, torch.Tensor] = {}

    def clear(self) -> None:
        """Forget everything but the state."""
        self.objects.clear()
        self.frames.clear()

    # What runs.

    def step_at(self, activation: int, step: int) -> Step:
        return self.program.regions[self.flow.activations[activation].region].steps[step]

    def node_of(self, activation: int, step: int) -> fx.Node:
        return self.imported.regions[self.flow.activations[activation].region].nodes[step]

    def sign_of(self, activation: int, step: int) -> CallSignature:
        """How the node of a step that runs graphs calls them."""
        region = self.imported.regions[self.flow.activations[activation].region]
        return region.calls[region.nodes[step]]

    def module_of(self, activation: int) -> Any:
        """The graph module that an activation runs."""
        return self.imported.regions[self.flow.activations[activation].region].module

    def outputs_of(self, activation: int) -> tuple[Any, ...]:
        """What the graph that an activation runs returns: nodes, or constants."""
        return self.imported.regions[self.flow.activations[activation].region].outputs

    # Calls under way.

    def enter(self, parent: int, step: int) -> Frame:
        """Begin a call: bind its arguments by reference."""
        sign = self.sign_of(parent, step)
        call = self.step_at(parent, step).call
        assert call is not None
        frame = Frame(
            sign,
            operands=[self.lookup(parent, operand) for operand in sign.operands],
            slices=[self.lookup(parent, source) for source in sign.slices],
            carries=[None] * len(call.carries),
            results=[None] * len(call.results),
        )
        self.frames[parent, step] = frame
        return frame

    def frame(self, parent: int, step: int) -> Frame:
        """The call under way at a step."""
        found = self.frames.get((parent, step))
        return self.enter(parent, step) if found is None else found

    def publish(self, parent: int, step: int, frame: Frame) -> None:
        """Make a call's results what its node stands for."""
        node = self.node_of(parent, step)
        position = self.imported.regions[self.flow.activations[parent].region].values.get(node)
        self.objects[parent, node] = _shaped(position, iter([*frame.carries, *frame.results]))
        if frame.sign.kind == "call":  # it has no point at its start: the next call begins a new frame
            del self.frames[parent, step]

    def modes(self, activation: int) -> Iterator[Any]:
        """Context managers of the calls around an activation, outermost first."""
        info = self.flow.activations[activation]
        if info.parent is None:
            return
        yield from self.modes(info.parent)
        mode = self.sign_of(info.parent, info.call_step).mode
        if mode is not None and mode[0] == "autocast":
            device, dtype, enabled, cache = mode[1]
            yield torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cache)

    # Names to things.

    def arguments(self, activation: int, node: fx.Node) -> tuple[Any, Any]:
        """Positional and keyword arguments of a node."""
        args = map_arg(node.args, lambda n: self.lookup(activation, n))
        kwargs = map_arg(node.kwargs, lambda n: self.lookup(activation, n))
        return args, kwargs

    def lookup(self, activation: int, argument: Any) -> Any:
        """What an argument of a graph stands for: a node's result, or the constant itself."""
        if not isinstance(argument, fx.Node):
            return argument
        key = (activation, argument)
        if key in self.objects:
            return self.objects[key]
        region = self.imported.regions[self.flow.activations[activation].region]
        if argument.op == "placeholder":
            info = self.flow.activations[activation]
            assert info.parent is not None
            return self.frame(info.parent, info.call_step).argument(region.params.index(argument))
        if argument.op == "get_attr":
            value = region.values.get(argument)
            if isinstance(value, int):
                return self.state[value]
            return operator.attrgetter(str(argument.target))(region.module)
        if argument.target is operator.getitem:
            whole, which = argument.args
            return self.lookup(activation, whole)[which]
        raise ReplayError(f"node {argument.name!r} is used before it is computed")

    def by_value(self, value: int) -> Any:
        """What a value of the root stands for."""
        for node, position in self.imported.regions[0].values.items():
            if position == value:
                return self.state[value] if value in self.state else self.lookup(0, node)
        raise ReplayError(f"no node of the root makes {self.program.values[value].name}")


def _shaped(position: Any, leaves: Iterator[Any]) -> Any:
    """Results, in order, in the shape of the positions of the node that they belong to."""
    if isinstance(position, tuple):
        return tuple(_shaped(item, leaves) for item in position)
    if isinstance(position, dict):
        return {key: _shaped(item, leaves) for key, item in position.items()}
    return next(leaves, None)
