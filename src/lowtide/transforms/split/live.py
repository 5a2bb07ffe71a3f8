"""A quick judge: the bytes alive along the steps of a graph, and along a tape that stands for some of them.

It knows what may be written over what it reads (in place), which views cost nothing, and which copies lie
where what they copy lies; it packs nothing. The packed arena has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from lowtide.ir.problem import align_up
from lowtide.operators.executorch import ELEMENTWISE, FIRST
from lowtide.operators.schemas import is_view, schema_holder
from lowtide.transforms.split.rules import operator_name, shape_of
from lowtide.transforms.split.tape import Entry, Ref, Tape, is_run_of_bytes

ALIGNMENT = 16
_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_OVER = ELEMENTWISE | FIRST | {"clone", "_clone_dim_order"}


@dataclass(slots=True)
class _Life:
    """A block of bytes: where it begins, where it is last used, and how large it is."""

    start: int
    stop: int
    size: int


class Lives:
    """When the bytes of a graph's values are alive.

    Args:
        program: an export whose nodes carry fake tensors.
    """

    def __init__(self, program: ExportedProgram) -> None:
        graph = program.graph
        self.steps: list[fx.Node] = [node for node in graph.nodes if node.op == "call_function"]
        self.position = {node: place for place, node in enumerate(self.steps)}
        self._root: dict[fx.Node, fx.Node] = {}
        self._lives: dict[fx.Node, _Life] = {}
        self._constants: set[fx.Node] = set()
        signature = program.graph_signature
        end = len(self.steps)
        kinds = {spec.arg.name: spec for spec in signature.input_specs}
        state = set(signature.buffers_to_mutate.values())
        for node in graph.nodes:
            if node.op == "placeholder":
                spec = kinds[node.name]
                constant = spec.kind in _CONSTANTS and spec.target not in state
                stays = end if spec.kind in _CONSTANTS else -1
                self._begin(node, -1, stays, 0 if constant else size_of(node))
                self._constants |= {node} if constant else set()
            elif node.op == "call_function":
                place = self.position[node]
                for operand in node.all_input_nodes:
                    if operand in self._root:
                        life = self._lives[self._root[operand]]
                        life.stop = max(life.stop, place)
                owner = _shows(node)
                if owner is not None and owner in self._root:
                    self._root[node] = self._root[owner]
                else:
                    self._begin(node, place, place, size_of(node))
            elif node.op == "output":
                for operand in node.all_input_nodes:
                    self._lives[self._root[operand]].stop = end
        self._crossing = self._count_crossing()

    def _begin(self, node: fx.Node, start: int, stop: int, size: int) -> None:
        self._root[node] = node
        self._lives[node] = _Life(start, stop, size)

    def _count_crossing(self) -> list[int]:
        change = [0] * (len(self.steps) + 2)
        for life in self._lives.values():
            if life.stop > life.start:
                change[life.start + 1] += life.size
                change[life.stop + 1] -= life.size
        found, now = [], 0
        for step in change[:-1]:
            now += step
            found.append(now)
        return found

    def block_of(self, node: fx.Node) -> tuple[fx.Node, int, int, int] | None:
        """The block that holds what a node computes: whose it is, when it begins, its last use, its bytes."""
        root = self._root.get(node)
        if root is None:
            return None
        life = self._lives[root]
        return root, life.start, life.stop, life.size

    def crossing(self, place: int) -> int:
        """Bytes alive between the step before a position and the step at it."""
        return self._crossing[place]

    def whole_peak(self, place: int) -> int:
        """Bytes alive while a step runs whole."""
        return self.peak(place, place, None)

    def ends_peak(self, first: int, last: int) -> int:
        """What the range of a segment cannot be below: what is alive across it, and on either side."""
        return max(self.crossing(first), self.crossing(last + 1))

    def peak(self, first: int, last: int, tape: Tape | None) -> int:
        """Most bytes alive while a range of steps runs, its segment replaced by a tape."""
        if tape is None:
            lines = [self._line_of(node) for node in self.steps[first : last + 1]]
        else:
            segment = tape.segment
            lines = [self._line_of(node) for node in segment.before]
            lines += self._lines_of(tape)
            lines += [self._line_of(node) for node in segment.after]
        return self._sweep(first, last, lines)

    def _line_of(self, node: fx.Node) -> _Line:
        root = self._root[node]
        reads = [self._root[operand] for operand in node.all_input_nodes if operand in self._root]
        size = self._lives[root].size if root is node else 0
        over = reads if operator_name(node) in _OVER else []
        return _Line(root, size, reads, over)

    def _lines_of(self, tape: Tape) -> list[_Line]:
        """The calls of a tape; a join takes the name of what it stands for."""
        keys: list[Any] = []
        lines = []
        final = {ref.place: node for node, ref in tape.joined.items()}
        for place, entry in enumerate(tape.entries):
            reads = [self._key(leaf, keys) for leaf in entry.reads]
            reads = [key for key in reads if key is not None]
            key: Any = (id(tape), place)
            size, over = _size_of_entry(entry), []
            if _shows_entry(entry) and not (entry.kind == "slice" and reads[0] in self._constants):
                key, size = reads[0], 0
            elif entry.kind == "run" and operator_name(entry.node) in _OVER:
                over = reads
            elif entry.kind == "scatter":
                over = reads[:1]
            elif entry.kind == "join":
                over = reads
            keys.append(key)
            lines.append(_Line(key, size, reads, over, joins=entry.kind == "join"))
            if place in final:
                lines.append(_Line(self._root[final[place]], 0, [key], [], renames=key))
        return lines

    def _key(self, leaf: Any, keys: Sequence[Any]) -> Any:
        if isinstance(leaf, Ref):
            return keys[leaf.place]
        return self._root.get(leaf) if isinstance(leaf, fx.Node) else None

    def _sweep(self, first: int, last: int, lines: Sequence[_Line]) -> int:
        last_use: dict[Any, int] = {}
        for place, line in enumerate(lines):
            for key in (*line.reads, line.key):
                last_use[key] = place
        touched = {
            key: self._lives[key] for key in last_use if isinstance(key, fx.Node) and key in self._lives
        }
        now = self.crossing(first)
        sizes = {key: life.size for key, life in touched.items() if life.start < first <= life.stop}
        kept = {key for key, life in touched.items() if life.stop > last}
        peak = now
        for place, line in enumerate(lines):
            gone = [
                key
                for key in dict.fromkeys((*line.reads, line.key))
                if last_use[key] == place and key not in kept and key in sizes
            ]
            if line.renames is not None:
                sizes[line.key] = sizes.pop(line.renames, 0)
                continue
            if line.joins:
                freed = sum(sizes.pop(key) for key in gone)
                now += line.size - freed
                sizes[line.key] = line.size
                peak = max(peak, now)
                continue
            if line.key not in sizes:
                saved = any(key in line.over and sizes[key] == line.size for key in gone)
                now += line.size
                sizes[line.key] = line.size
                peak = max(peak, now - (line.size if saved else 0))
                if last_use[line.key] == place and line.key not in kept and line.key not in gone:
                    gone.append(line.key)
            else:
                peak = max(peak, now)
            now -= sum(sizes.pop(key) for key in gone)
        return peak


@dataclass(frozen=True, slots=True)
class _Line:
    """A call as far as bytes go: what it makes, of which size, what it reads, and may be written over."""

    key: Any
    size: int
    reads: Sequence[Any]
    over: Sequence[Any]
    joins: bool = False
    renames: Any = None


def size_of(node: fx.Node) -> int:
    """Bytes of all that a node computes."""
    return _bytes(pytree.tree_leaves(node.meta.get("val")))


def _bytes(values: Iterable[Any]) -> int:
    sizes = [v.numel() * v.element_size() for v in values if isinstance(v, torch.Tensor)]
    return sum(align_up(int(size), ALIGNMENT) for size in sizes)


def _size_of_entry(entry: Entry) -> int:
    node = entry.node
    value = node.meta["val"]
    values = (
        [v for v in value if isinstance(v, torch.Tensor)] if isinstance(value, (tuple, list)) else [value]
    )
    first = align_up(prod(entry.shape) * values[0].element_size(), ALIGNMENT)
    if len(values) == 1 or entry.kind != "run":
        return first
    whole = max(prod(shape_of(node)), 1)
    return first + sum(align_up(_bytes([v]) * prod(entry.shape) // whole, ALIGNMENT) for v in values[1:])


def _shows(node: fx.Node) -> fx.Node | None:
    """The operand whose bytes a node only shows."""
    holder = schema_holder(node.target)
    operand = node.args[0] if node.args else None
    if not isinstance(operand, fx.Node):
        return None
    if getattr(node.target, "__name__", "") == "getitem":
        return operand
    if holder is None:
        return None
    return operand if is_view(holder) or operator_name(node) in ("view", "unsqueeze", "squeeze") else None


def _shows_entry(entry: Entry) -> bool:
    if entry.kind == "run":
        return _shows(entry.node) is not None
    if entry.kind != "slice":
        return False
    return is_run_of_bytes(entry.shape, entry.args[1])
