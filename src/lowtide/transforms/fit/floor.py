"""The floor: what no execution in parts avoids, so that a user knows when to stop.

Inputs that are still to be read and outputs that are made already lie in the arena at every step. Beside them
a step holds what it must have whole: all operands and results if it cannot be run in parts, and otherwise
those operands that every part reads whole, such as the keys of an attention. Overlaps, parts themselves and
packing come on top, so a floor is a guide and no proof: computing a value a second time could go below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.export.graph_signature import InputKind

from lowtide.operators.executorch import ELEMENTWISE, FIRST
from lowtide.transforms.split.live import Lives
from lowtide.transforms.split.rules import is_barrier, is_plain, operator_name, part_of, shape_of, value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import fx
    from torch.export import ExportedProgram

_IN_PLACE = ELEMENTWISE | FIRST


@dataclass(frozen=True, slots=True)
class Floor:
    """What no execution in parts avoids.

    Args:
        bytes: all of it.
        input_bytes, output_bytes: of the inputs and outputs that lie in the arena at that step.
        operator_bytes: what the step holds whole beside them.
        step: its name; empty if there is none.
        all_input_bytes, all_output_bytes: of all inputs before the first step, and all outputs behind it all.
    """

    bytes: int
    input_bytes: int
    output_bytes: int
    operator_bytes: int
    step: str
    all_input_bytes: int
    all_output_bytes: int

    @property
    def interface_bytes(self) -> int:
        """What inputs and outputs take, whatever runs between them."""
        return max(self.all_input_bytes, self.all_output_bytes)


def floor_of(program: ExportedProgram, *, plan_inputs: bool = True, plan_outputs: bool = True) -> Floor:
    """The floor of a program, and the step that sets it.

    Args:
        program: an export whose nodes carry fake tensors, in the operators that parts are known of.
        plan_inputs, plan_outputs: whether they lie in the arena.
    """
    lives = Lives(program)
    inputs, outputs = _interface(program)
    starting, ending = _blocks(lives, inputs), _blocks(lives, outputs)
    outside = set() if plan_inputs else set(starting)
    outside |= set() if plan_outputs else set(ending)
    starting = {node: 0 if node in outside else size for node, size in starting.items()}
    ending = {node: 0 if node in outside else size for node, size in ending.items()}
    before, behind = sum(starting.values()), sum(ending.values())
    ends = (before, 0) if before >= behind else (0, behind)
    best = Floor(max(before, behind), *ends, 0, "", before, behind)
    spans = {node: lives.block_of(node) for node in (*starting, *ending)}
    for place, step in enumerate(lives.steps):
        taken = sum(
            size for node, size in starting.items() if (span := spans[node]) is not None and span[2] >= place
        )
        made = sum(
            size
            for node, size in ending.items()
            if node not in starting and (span := spans[node]) is not None and span[1] <= place
        )
        held = _held(lives, step, {*starting, *(n for n in ending if (s := spans[n]) and s[1] <= place)})
        if taken + made + held > best.bytes:
            best = Floor(taken + made + held, taken, made, held, step.name, before, behind)
    return best


def _interface(program: ExportedProgram) -> tuple[list[fx.Node], list[fx.Node]]:
    """The user's inputs, and all outputs."""
    kinds = {spec.arg.name: spec.kind for spec in program.graph_signature.input_specs}
    placeholders = program.graph.find_nodes(op="placeholder")
    inputs = [node for node in placeholders if kinds.get(node.name) is InputKind.USER_INPUT]
    return inputs, list(program.graph.output_node().all_input_nodes)


def _blocks(lives: Lives, nodes: Iterable[fx.Node]) -> dict[fx.Node, int]:
    """Blocks of bytes that some nodes lie in, with their sizes."""
    found: dict[fx.Node, int] = {}
    for node in nodes:
        block = lives.block_of(node)
        if block is not None and block[3]:
            found[block[0]] = block[3]
    return found


def _held(lives: Lives, step: fx.Node, counted: set[fx.Node]) -> int:
    """Bytes that a step must have whole, beside blocks that are counted already."""
    own = lives.block_of(step)
    if own is None or own[0] is not step:
        return 0  # it shows bytes that are there
    ways = [_sum(lives, wholes, counted) for wholes in _ways(step)]
    if ways:
        return min(ways)
    operands = _blocks(lives, step.all_input_nodes)
    read = {node: size for node, size in operands.items() if node not in counted}
    result = 0 if step in counted else own[3]
    if operator_name(step) in _IN_PLACE and result in read.values():
        result = 0
    return sum(read.values()) + result


def _ways(step: fx.Node) -> Iterable[Sequence[fx.Node]]:
    """For each axis along which a step can run in parts, the operands that every part reads whole."""
    if value_of(step) is None or is_barrier(step) or not is_plain(step):
        return
    for axis, size in enumerate(shape_of(step)):
        part = part_of(step, axis, 0, (size + 1) // 2) if size > 1 else None
        if part is not None:
            yield part.wholes()


def _sum(lives: Lives, nodes: Iterable[fx.Node], counted: set[fx.Node]) -> int:
    return sum(size for node, size in _blocks(lives, nodes).items() if node not in counted)
