"""Runs an imported program point by point, taking the control flow for real.

Where tensors live is the memory's business; everything else is the same for the reference and the
planned run, so that the two can be compared bit for bit.
"""

from __future__ import annotations

import contextlib
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from lowtide.base.errors import ReplayError
from lowtide.operators.aten import out_variant
from lowtide.operators.schemas import schema_holder
from lowtide.replay.layout import Layouts, fill
from lowtide.replay.scope import Frame, Scope
from lowtide.replay.undefined import DefineEmpty

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import fx

    from lowtide.frontends.torch_export import Imported
    from lowtide.ir.flow import Copy, FlowGraph, Point
    from lowtide.ir.program import Call
    from lowtide.replay.arena_memory import Memory


class Interpreter:
    """A program under way: ``start``; then at each point ``prepare``, ``perform`` and ``advance``.

    Args:
        imported: the program and its graph.
        flow: its program points.
        memory: where tensors live; kept from one invocation to the next, as the state is.
    """

    def __init__(self, imported: Imported, flow: FlowGraph, memory: Memory) -> None:
        self.imported, self.flow, self.memory = imported, flow, memory
        self.program = imported.program
        self.scope = Scope(imported, flow)
        self.layouts = Layouts(imported.fakes)
        self.tick = 0

    # One invocation.

    def start(self, arguments: Sequence[Any]) -> None:
        """Begin an invocation with flattened user inputs; state is as the last one left it.

        Raises:
            ReplayError: the number of inputs is wrong.
        """
        self.tick = 0
        self.scope.clear()
        given = list(arguments)
        wanted = sum(entry.kind == "user" for entry in self.imported.inputs)
        if len(given) != wanted:
            raise ReplayError(f"the program takes {wanted} inputs and was given {len(given)}")
        for value, tensor in self.imported.tensors.items():
            self.bind_tensor(value, tensor)
        for entry in self.imported.inputs:
            found = given.pop(0) if entry.kind == "user" else entry.tensor
            if entry.value is not None:
                bound = self.scope.state.get(entry.value)
                found = self.own(entry.value, found) if bound is None else bound
                self.scope.state.setdefault(entry.value, found)
            self.scope.objects[0, entry.node] = found

    def bind_tensor(self, value: int, tensor: torch.Tensor) -> None:
        """Give a constant or state value its tensor; persistent state only once.

        Only a constant is the program's own tensor. State is a copy, and a second name for a tensor is bound
        to what the first one is: it comes later, and is the very same elements.
        """
        state, found = self.scope.state, self.program.values[value]
        if found.storage is None:
            (owner,) = found.aliases
            state[value] = state[owner]
        elif self.program.storages[found.storage].kind == "constant":
            state[value] = tensor
        elif value not in state or not self.program.storages[found.storage].persistent:
            state[value] = self.own(value, tensor)

    def finish(self) -> list[Any]:
        """What the invocation returns, flat; forgets its inputs."""
        results = [self.detached(self.scope.lookup(0, output)) for output in self.imported.outputs]
        for entry in self.imported.inputs:
            if entry.kind == "user" and entry.value is not None:
                self.scope.state.pop(entry.value, None)
        return results

    def kept(self) -> dict[str, torch.Tensor]:
        """Copies of what an invocation changed and others see when it is done: state, and written inputs."""
        survivors = set(self.flow.points[-1].reads)
        return {
            self.program.values[value].name: tensor.detach().clone()
            for value, tensor in self.scope.state.items()
            if (s := self.program.values[value].storage) in survivors
            and self.program.storages[s].kind in ("state", "input")
        }

    def prepare(self) -> None:
        """Spoil what a step writes from end to end, as a kernel may that writes before it reads.

        Bytes that it reads are spared where it may write over them, or would write what is there already.
        """
        point = self.flow.points[self.tick]
        if point.kind == "step":
            for storage in point.writes:
                if storage not in point.reads:
                    self.memory.spoil(storage, self.untouched(point, storage))

    def untouched(self, point: Point, written: int) -> Iterator[int]:
        """What a step reads and may find intact although it writes this storage, where both are."""
        for over, read in point.overwrites:
            if over == written and self.memory.coincide(written, read):
                yield read
        for same in point.matches:
            if written in (same.inner, same.outer) and self.memory.lies_in(*astuple(same)):
                yield same.outer if written == same.inner else same.inner

    def perform(self) -> None:
        """Execute the point at ``tick``, and stay there."""
        point = self.flow.points[self.tick]
        if point.kind == "step":
            self.run_step(point)
        elif point.kind == "copy":
            self.run_copies(point)
        elif point.kind == "select":
            self.scope.enter(point.activation, point.step)

    def advance(self) -> bool:
        """Go on to the next point; False after the last."""
        point = self.flow.points[self.tick]
        if not point.successors:
            return False
        target = self.next_of(point)
        self.memory.move(self.tick, target, (*point.full_writes, *point.partial_writes))
        self.tick = target
        return True

    def reads(self) -> Iterator[Any]:
        """Every tensor or number that the point at ``tick`` reads; at the entry, all that the caller gave."""
        point = self.flow.points[self.tick]
        activation = point.activation
        if point.kind == "entry":
            yield from self.scope.state.values()
        elif point.kind == "step":
            yield from self.operands(activation, point.step, self.scope.step_at(activation, point.step).reads)
        elif point.kind == "copy":
            yield from self.sources(point)
        elif point.kind in ("select", "test"):
            yield self.verdict(point)
        elif point.kind == "exit":
            for output in self.imported.outputs:
                yield self.scope.lookup(0, output)

    def written(self) -> Iterator[Any]:
        """Every tensor that the step at ``tick`` has written, where it could have written over itself."""
        point = self.flow.points[self.tick]
        if point.kind == "step" and len(point.writes) + len(point.partial) > 1:
            step = self.scope.step_at(point.activation, point.step)
            yield from self.operands(point.activation, point.step, (*step.writes, *step.partial))

    def operands(self, activation: int, step: int, wanted: Sequence[int]) -> Iterator[Any]:
        """Those of a step's arguments and results that are among some values.

        A view of dead bytes, or their shape alone, is not among what it reads: it looks at no byte.
        """
        region = self.imported.regions[self.flow.activations[activation].region]
        node = self.scope.node_of(activation, step)
        done = (node,) if (activation, node) in self.scope.objects else ()
        for operand in (*node.all_input_nodes, *done):
            position = region.values.get(operand)
            leaves = tree_leaves(position)
            found = tree_leaves(self.scope.lookup(activation, operand)) if leaves else []
            if isinstance(position, int) and position in wanted:
                yield from found
            elif len(leaves) == len(found):
                yield from (leaf for value, leaf in zip(leaves, found, strict=True) if value in wanted)

    # Points.

    def next_of(self, point: Point) -> int:
        if len(point.successors) == 1:
            return point.successors[0]
        if point.kind == "next":
            frame = self.scope.frame(point.activation, point.step)
            return point.successors[0 if frame.index < frame.trips else 1]
        return point.successors[0 if bool(self.verdict(point)) else 1]

    def verdict(self, point: Point) -> Any:
        """The value that a branch or a loop decides by."""
        if point.kind == "select":
            return self.scope.lookup(
                point.activation, self.scope.sign_of(point.activation, point.step).selector
            )
        region = self.flow.activations[point.activation].region
        return self.scope.lookup(point.activation, self.imported.regions[region].outputs[0])

    def run_step(self, point: Point) -> None:
        node = self.scope.node_of(point.activation, point.step)
        args, kwargs = self.scope.arguments(point.activation, node)
        region = self.flow.activations[point.activation].region
        position = self.imported.regions[region].values.get(node)
        with contextlib.ExitStack() as stack:
            for mode in self.scope.modes(point.activation):
                stack.enter_context(mode)
            plain = not any(True for _ in self.scope.modes(point.activation))
            stack.enter_context(DefineEmpty())
            found = self.call(point.activation, node, args, kwargs)
            over = self.overwritten(point) if plain else None
            if over is not None:
                found = self.call_over(over, node, args, kwargs, found, position)
        self.scope.objects[point.activation, node] = self.settle(position, found, tree_leaves((args, kwargs)))

    def call(self, activation: int, node: fx.Node, args: Any, kwargs: Any) -> Any:
        if node.op == "call_function":
            assert callable(node.target)
            return node.target(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        if node.op == "call_module":
            return self.scope.module_of(activation).get_submodule(str(node.target))(*args, **kwargs)
        raise ReplayError(f"node {node.name!r} cannot be replayed: it is a {node.op}")

    def overwritten(self, point: Point) -> int | None:
        """The storage that a step writes over what it reads, in exactly the same bytes; None if none is."""
        for written, read in point.overwrites:
            if self.memory.coincide(written, read):
                return written
        return None

    def call_over(
        self, storage: int, node: fx.Node, args: Any, kwargs: Any, found: Any, position: Any
    ) -> Any:
        """Run the variant of an operator that writes into memory given to it: here, over what it reads.

        Args:
            storage: where the first result lies.
            args, kwargs: what the operator is given.
            found: what it returned before.
            position: positions of the results' values, whose layouts count.
        """
        operator = schema_holder(node.target)
        variant = None if operator is None else out_variant(operator)
        if variant is None:
            return found
        first, *others = tree_leaves(found)
        like = self.layouts.like(tree_leaves(position)[0], first)
        outs = [self.memory.place(storage, like), *map(torch.empty_like, others)]
        places = [out.data_ptr() for out in outs]
        target, names = variant
        target(*args, **kwargs, **dict(zip(names, outs, strict=True)))
        if [out.data_ptr() for out in outs] != places:
            raise ReplayError(f"node {node.name!r}: {target} does not write where it is told to")
        return type(found)(outs) if isinstance(found, (tuple, list)) else outs[0]

    def settle(self, position: Any, found: Any, inputs: list[Any]) -> Any:
        """Move what a step returned to the storages of its values; views stay as they are."""
        if isinstance(position, tuple) and isinstance(found, (tuple, list)):
            return tuple(self.settle(p, f, inputs) for p, f in zip(position, found, strict=True))
        if isinstance(position, dict) and isinstance(found, dict):
            return {key: self.settle(position[key], found[key], inputs) for key in found}
        if not isinstance(position, int) or not isinstance(found, torch.Tensor):
            return found
        value = self.program.values[position]
        if value.storage is None or (value.aliases and _shares_memory(found, inputs)):
            return found
        return self.own(position, found)

    def own(self, value: int, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of a tensor in the storage that belongs to a value."""
        storage = self.program.values[value].storage
        assert storage is not None
        placed = self.memory.place(storage, self.layouts.like(value, tensor))
        fill(placed, tensor.detach())
        return placed

    # Copies: at a call's start, a region's end, a back edge, and the writebacks at the very end.

    def run_copies(self, point: Point) -> None:
        sources = [self.detached(source) for source in self.sources(point)]
        for storage in point.writes:
            self.memory.spoil(storage)
        parent, step, call = self.call_at(point)
        if call is None:
            for copy, source in zip(point.copies, sources, strict=True):
                assert copy.target is not None
                self.scope.state[copy.target.value].copy_(source)
            return
        frame = self.scope.frame(parent, step)
        targets = [self.filled(copy, source) for copy, source in zip(point.copies, sources, strict=True)]
        carried = len(frame.carries)
        if point.activation == parent:  # the call begins
            frame.carries = targets[: len(call.carries)]
            if call.kind == "associative_scan":
                frame.index = 1
                for k, (copy, source) in enumerate(zip(point.copies, sources, strict=True)):
                    self.store(frame, k, copy, source[0], 0)
        elif call.kind in ("call", "cond"):
            frame.results = targets
        else:
            frame.carries = targets[:carried]
            for k, copy in enumerate(point.copies[carried:]):
                self.store(frame, k, copy, sources[carried + k], frame.index)
            frame.index += 1
        self.scope.publish(parent, step, frame)

    def filled(self, copy: Copy, source: Any) -> Any:
        if copy.target is None or copy.target_storage is None or copy.part is not None:
            return source
        return self.own(copy.target.value, source)

    def store(self, frame: Frame, k: int, copy: Copy, part: Any, index: int) -> None:
        """Write one slice of a stacked result."""
        if copy.target_storage is None:
            raise ReplayError("a loop stacks a result that is no tensor")
        assert copy.target is not None
        if frame.results[k] is None:
            stacked = torch.empty((frame.trips, *part.shape), dtype=part.dtype, device="meta")
            like = self.layouts.like(copy.target.value, stacked)
            frame.results[k] = self.memory.place(copy.target_storage, like)
        frame.results[k][index].copy_(part)

    def sources(self, point: Point) -> list[Any]:
        """What a point's copies copy, in their order."""
        parent, step, call = self.call_at(point)
        if call is None:
            sources = [copy.source for copy in point.copies if copy.source is not None]
            return [self.scope.by_value(source.value) for source in sources]
        if point.activation == parent:
            frame = self.scope.enter(parent, step)
            inits = [self.scope.lookup(parent, init) for init in frame.sign.inits]
            return frame.slices if call.kind == "associative_scan" else inits
        outputs = self.scope.outputs_of(point.activation)
        return [self.scope.lookup(point.activation, output) for output in outputs]

    def call_at(self, point: Point) -> tuple[int, int, Call | None]:
        """The call that a copy point belongs to: caller's activation, its step, and the call itself."""
        if point.step >= 0:
            return point.activation, point.step, self.scope.step_at(point.activation, point.step).call
        activation = self.flow.activations[point.activation]
        if activation.parent is None:
            return point.activation, -1, None
        step = self.scope.step_at(activation.parent, activation.call_step)
        return activation.parent, activation.call_step, step.call

    @staticmethod
    def detached(found: Any) -> Any:
        return found.detach().clone() if isinstance(found, torch.Tensor) else found


def _shares_memory(found: torch.Tensor, inputs: list[Any]) -> bool:
    start = found.untyped_storage().data_ptr()
    return any(isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() == start for t in inputs)
