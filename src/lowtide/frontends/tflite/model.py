"""What is in a ``.tflite``: subgraphs, tensors, operators, buffers, metadata. ``reading`` makes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lowtide.frontends.flatbuffer.tables import Extent


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a subgraph.

    Args:
        name: for people; may be empty, or that of another.
        type: of its elements, such as ``INT8``.
        shape: elements along each axis.
        size: bytes that the interpreter keeps it in, before rounding up.
        buffer: position of its buffer in the model.
        constant: whether that buffer has its content.
        variable: whether it keeps its content from run to run.
        scales: how many scales it is quantized with; 0 if it is not.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    size: int
    buffer: int
    constant: bool
    variable: bool
    scales: int = 0


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a subgraph.

    Args:
        name: of the built-in operator, or its own if it is a custom one.
        inputs: positions of tensors in the subgraph; -1 for an optional one that is not there.
        outputs: positions of tensors in the subgraph.
        calls: positions of the subgraphs that it runs, in the order that the interpreter looks at them.
        seen: whether the interpreter sees these calls when it works out lifetimes; it reads one of two fields
            that may name the operator, and old files have only the other.
        custom: whether it is no built-in operator.
        options: values of the options that ``codes.OPTIONS`` names.
        resource: container and name of the resource that it is the handle of.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    calls: tuple[int, ...] = ()
    seen: bool = True
    custom: bool = False
    options: tuple[int, ...] = ()
    resource: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A list of operators, and the tensors that they work on."""

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    """A named buffer."""

    name: str
    buffer: int


@dataclass(frozen=True)
class Model:
    """A ``.tflite`` that was read.

    Args:
        name: of the file, for messages.
        data: all of its bytes.
        subgraphs: the first is the one that runs.
        buffers: where the content of each buffer lies in ``data``; None where there is none.
        metadata: in the order of the file.
    """

    name: str
    data: bytes = field(repr=False)
    subgraphs: tuple[Subgraph, ...]
    buffers: tuple[Extent | None, ...]
    metadata: tuple[Metadata, ...]

    @cached_property
    def bases(self) -> tuple[int, ...]:
        """For each subgraph the number of its first tensor, where the tensors of all are numbered through."""
        found, count = [], 0
        for subgraph in self.subgraphs:
            found.append(count)
            count += len(subgraph.tensors)
        return tuple(found)

    @property
    def tensors(self) -> Iterator[Tensor]:
        """The tensors of all subgraphs, numbered through."""
        for subgraph in self.subgraphs:
            yield from subgraph.tensors

    @cached_property
    def tensor_count(self) -> int:
        """How many tensors all subgraphs have."""
        return sum(len(subgraph.tensors) for subgraph in self.subgraphs)

    @cached_property
    def arena_tensors(self) -> frozenset[int]:
        """Numbers of the tensors that the interpreter gives a place in the arena.

        Not constants, nor what has no bytes, nor variables, which lie beside its own structures, nor the
        handles of resources, which are made when the operators are prepared.
        """
        handles = {
            base + output
            for base, subgraph in zip(self.bases, self.subgraphs, strict=True)
            for operator in subgraph.operators
            if operator.name == "VAR_HANDLE"
            for output in operator.outputs
        }
        return frozenset(
            i
            for i, tensor in enumerate(self.tensors)
            if tensor.size and not tensor.constant and not tensor.variable and i not in handles
        )

    def content(self, buffer: int) -> bytes:
        """The bytes of a buffer."""
        found = self.buffers[buffer]
        return b"" if found is None else self.data[found.start : found.stop]
