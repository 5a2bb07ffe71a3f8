"""A Model from the bytes of a ``.tflite``.

Read with care (``flatbuffer``) and checked: whatever has an index into something has one that exists. What
the interpreter of TensorFlow Lite Micro cannot run, or keeps where no plan reaches, is refused by name.
"""

from __future__ import annotations

import math
import struct
from enum import IntEnum
from typing import TYPE_CHECKING

from lowtide.base.errors import InputError, UnsupportedError
from lowtide.frontends.flatbuffer.tables import DamagedError, Extent, FlatBuffer, Table
from lowtide.frontends.tflite.codes import BUILTINS, CUSTOM, OPTIONS, TYPES
from lowtide.frontends.tflite.model import Metadata, Model, Operator, Subgraph, Tensor
from lowtide.frontends.tflite.resizing import made_elements

if TYPE_CHECKING:
    from collections.abc import Iterable

IDENTIFIER = b"TFL3"
"""At byte 4 of a model."""

_LIMIT = 2**31
"""Bytes of a file, and of a tensor: the interpreter counts in signed 32-bit integers."""

_COMPRESSION = "COMPRESSION_METADATA"
_DECODE = "TFLM_DECODE"


class ModelField(IntEnum):
    """Positions of a model's fields."""

    VERSION = 0
    OPERATOR_CODES = 1
    SUBGRAPHS = 2
    DESCRIPTION = 3
    BUFFERS = 4
    METADATA_BUFFER = 5
    METADATA = 6
    SIGNATURE_DEFS = 7
    EXTERNAL_BUFFER_GROUPS = 8
    EXTERNAL_BUFFERS = 9


_CARRIED = {ModelField.DESCRIPTION: 1, ModelField.METADATA_BUFFER: 4, ModelField.SIGNATURE_DEFS: 4}
"""Vectors that are of no interest here, but must be there for a new root to refer to; bytes of an element."""


class MetadataField(IntEnum):
    """Positions of the fields of an entry of the metadata."""

    NAME = 0
    BUFFER = 1


class BufferField(IntEnum):
    """Positions of a buffer's fields."""

    DATA = 0
    OFFSET = 1
    SIZE = 2


class _CodeField(IntEnum):
    DEPRECATED_BUILTIN_CODE = 0
    CUSTOM_CODE = 1
    BUILTIN_CODE = 3


class _SubgraphField(IntEnum):
    TENSORS = 0
    INPUTS = 1
    OUTPUTS = 2
    OPERATORS = 3
    NAME = 4


class _TensorField(IntEnum):
    SHAPE = 0
    TYPE = 1
    BUFFER = 2
    NAME = 3
    QUANTIZATION = 4
    IS_VARIABLE = 5
    EXTERNAL_BUFFER = 10


class _QuantizationField(IntEnum):
    SCALE = 2
    ZERO_POINT = 3


class _HandleField(IntEnum):
    CONTAINER = 0
    SHARED_NAME = 1


class _OperatorField(IntEnum):
    OPCODE_INDEX = 0
    INPUTS = 1
    OUTPUTS = 2
    BUILTIN_OPTIONS_TYPE = 3
    BUILTIN_OPTIONS = 4
    INTERMEDIATES = 8
    LARGE_CUSTOM_OPTIONS_OFFSET = 9


_CALLS = {"IF": (92, 2), "WHILE": (93, 2), "CALL_ONCE": (103, 1)}
"""Operators that run subgraphs: the number of their options' type, and how many subgraphs these name."""

_HANDLE = ("VAR_HANDLE", 111)
"""The operator that makes the handle of a resource, and the number of its options' type."""


def read_model(data: bytes, name: str = "model") -> Model:
    """Read a ``.tflite``.

    Args:
        data: the whole file.
        name: of the file, for messages.

    Raises:
        InputError: it is damaged, or no model at all.
        UnsupportedError: it holds something that cannot be planned, or that the interpreter cannot run.
    """
    _check_head(data, name)
    try:
        return _Reader(FlatBuffer(data), name).read()
    except DamagedError as error:
        raise InputError(f"{name}: is damaged or cut short: {error}: convert it again") from None


def _check_head(data: bytes, name: str) -> None:
    if len(data) >= _LIMIT:
        raise UnsupportedError(
            f"{name}: has 2 GiB or more: no interpreter of TensorFlow Lite Micro reads that"
        )
    if data[8:12] == IDENTIFIER and data[4:8] != IDENTIFIER:
        raise UnsupportedError(f"{name}: has its size in front of it: remove the first four bytes")
    if data[4:8] != IDENTIFIER or len(data) < 12:
        raise InputError(f"{name}: is no TensorFlow Lite model, or cut short: convert it again")
    little, big = (struct.unpack_from(order + "I", data)[0] for order in "<>")
    if little > len(data) - 4 >= big:
        raise UnsupportedError(f"{name}: is big-endian: convert it for a little-endian target")


class _Reader:
    def __init__(self, buffer: FlatBuffer, name: str) -> None:
        self.buffer, self.name = buffer, name
        self.codes: list[
            tuple[int, int, str]
        ] = []  # number, number that lifetimes go by, name of a custom one
        self.buffers: list[Extent | None] = []

    def refuse(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self.name}: {what}")

    def read(self) -> Model:
        root = self.buffer.root("model")
        for external in (ModelField.EXTERNAL_BUFFER_GROUPS, ModelField.EXTERNAL_BUFFERS):
            if root.tables(external):
                raise self.refuse("has buffers in other files: put the weights into the model")
        root.integer(ModelField.VERSION, "I")  # what a new root would refer to must be where it says
        for carried, width in _CARRIED.items():
            root.extent(carried, width)
        self.buffers = [self.content(table) for table in root.tables(ModelField.BUFFERS)]
        self.codes = [self.code(table) for table in root.tables(ModelField.OPERATOR_CODES)]
        metadata = tuple(self.entry(table) for table in root.tables(ModelField.METADATA))
        graphs = root.tables(ModelField.SUBGRAPHS)
        if not graphs:
            raise InputError(f"{self.name}: has no subgraph: convert it again")
        subgraphs = tuple(self.subgraph(table, i, len(graphs)) for i, table in enumerate(graphs))
        return Model(self.name, bytes(self.buffer.data), subgraphs, tuple(self.buffers), metadata)

    def content(self, table: Table) -> Extent | None:
        if table.integer(BufferField.OFFSET, "Q") > 1:
            raise self.refuse(f"{table.path} lies behind the model: convert it without large weights")
        found = table.extent(BufferField.DATA)
        return found if found is not None and found.size else None

    def code(self, table: Table) -> tuple[int, int, str]:
        old = table.integer(_CodeField.DEPRECATED_BUILTIN_CODE, "b")
        new = table.integer(_CodeField.BUILTIN_CODE, "i")
        if old < 0 or not 0 <= max(old, new) < len(BUILTINS):
            raise self.refuse(
                f"{table.path} is operator {max(old, new)}, which is not known: use a newer Lowtide"
            )
        custom = table.string(_CodeField.CUSTOM_CODE) or ""
        return max(old, new), new, custom if custom.isprintable() else ascii(custom)

    def entry(self, table: Table) -> Metadata:
        name = table.string(MetadataField.NAME) or ""
        buffer = self.index(table, table.integer(MetadataField.BUFFER, "I"), len(self.buffers), "buffer")
        if name == _COMPRESSION:
            raise self.refuse("has compressed tensors, which the interpreter unpacks where no plan reaches")
        return Metadata(name, buffer)

    def subgraph(self, table: Table, position: int, count: int) -> Subgraph:
        tensors = tuple(map(self.tensor, table.tables(_SubgraphField.TENSORS)))
        name = table.string(_SubgraphField.NAME) or ("main" if position == 0 else f"subgraph{position}")
        inputs, outputs = (
            self.indices(table, table.numbers(field), tensors)
            for field in (_SubgraphField.INPUTS, _SubgraphField.OUTPUTS)
        )
        operators = tuple(
            self.operator(found, tensors, count) for found in table.tables(_SubgraphField.OPERATORS)
        )
        return Subgraph(name, tensors, inputs, outputs, operators)

    def tensor(self, table: Table) -> Tensor:
        name = table.string(_TensorField.NAME) or ""
        called = f"{table.path} ({_short(name)})" if name else table.path
        shape = table.numbers(_TensorField.SHAPE)
        code = table.integer(_TensorField.TYPE, "b")
        if not 0 <= code < len(TYPES):
            raise self.refuse(f"{called} is of type {code}, which is not known: use a newer Lowtide")
        type, width = TYPES[code]
        if width is None:
            raise self.refuse(f"{called} is of type {type}, which TensorFlow Lite Micro cannot hold")
        if any(length < 0 for length in shape):
            raise self.refuse(f"{called} has a shape that is not known: convert it with fixed shapes")
        size = math.prod(shape) * width
        if size >= _LIMIT:
            raise self.refuse(
                f"{called} has 2 GiB or more: no interpreter of TensorFlow Lite Micro holds that"
            )
        if table.integer(_TensorField.EXTERNAL_BUFFER, "I"):
            raise self.refuse(f"{called} lies in another file: put the weights into the model")
        buffer = self.index(table, table.integer(_TensorField.BUFFER, "I"), len(self.buffers), "buffer")
        variable = table.integer(_TensorField.IS_VARIABLE, "B") != 0
        constant = self.buffers[buffer] is not None
        return Tensor(name, type, shape, size, buffer, constant, variable, _scales(table))

    def operator(self, table: Table, tensors: tuple[Tensor, ...], subgraphs: int) -> Operator:
        position = self.index(table, table.integer(_OperatorField.OPCODE_INDEX, "I"), len(self.codes), "code")
        number, seen, custom = self.codes[position]
        name = BUILTINS[number]
        if custom == _DECODE:
            raise self.refuse(f"{table.path} is a {_DECODE}, whose output may lie in other memory")
        if table.integer(_OperatorField.LARGE_CUSTOM_OPTIONS_OFFSET, "Q") > 1:
            raise self.refuse(f"{table.path} has options behind the model: convert it without large options")
        inputs = self.indices(table, table.numbers(_OperatorField.INPUTS), tensors, optional=True)
        outputs = self.indices(table, table.numbers(_OperatorField.OUTPUTS), tensors)
        for tensor in self.indices(table, table.numbers(_OperatorField.INTERMEDIATES), tensors):
            if tensors[tensor].size:
                raise self.refuse(f"{table.path} has intermediate tensors, which the interpreter refuses")
        values = self.values(table, name)
        self.check_size(
            table, name, values, [tensors[i].shape for i in inputs if i >= 0], [tensors[i] for i in outputs]
        )
        calls: tuple[int, ...] = ()
        if name in _CALLS:
            kind, count = _CALLS[name]
            options = self.options(table, kind)
            if options is None:
                raise DamagedError(f"{table.path} at byte {table.at} is a {name} without options")
            calls = tuple(
                self.index(options, options.integer(i), subgraphs, "subgraph") for i in range(count)
            )
        return Operator(
            (custom or name) if number == CUSTOM else name,
            inputs,
            outputs,
            calls,
            seen=seen == number,
            custom=number == CUSTOM,
            options=values,
            resource=self.resource(table, name),
        )

    def options(self, table: Table, kind: int) -> Table | None:
        """An operator's options, if they are of this type."""
        found = table.integer(_OperatorField.BUILTIN_OPTIONS_TYPE, "B")
        return table.table(_OperatorField.BUILTIN_OPTIONS) if found == kind else None

    def values(self, table: Table, name: str) -> tuple[int, ...]:
        """Values of the options that OPTIONS names."""
        kind, forms = OPTIONS.get(name, (0, ()))
        options = self.options(table, kind) if forms else None
        return tuple(0 if options is None else options.integer(i, form) for i, form in enumerate(forms))

    def resource(self, table: Table, name: str) -> tuple[str, str] | None:
        """Container and name of the resource that an operator makes the handle of."""
        options = self.options(table, _HANDLE[1]) if name == _HANDLE[0] else None
        if options is None:
            return None
        container, shared = map(options.string, (_HandleField.CONTAINER, _HandleField.SHARED_NAME))
        return container or "", shared or ""

    def check_size(
        self,
        table: Table,
        name: str,
        values: tuple[int, ...],
        inputs: list[tuple[int, ...]],
        outputs: list[Tensor],
    ) -> None:
        """Refuse an output that is not as large as its kernel will make it."""
        elements = made_elements(name, inputs, values)
        if elements is not None and [math.prod(tensor.shape) for tensor in outputs] != [elements]:
            raise self.refuse(
                f"{table.path} ({name}) makes {elements} elements for an output of another size: "
                "convert it again"
            )

    def index(self, table: Table, position: int, count: int, what: str) -> int:
        if not 0 <= position < count:
            raise DamagedError(f"{table.path} at byte {table.at} names {what} {position} of {count}")
        return position

    def indices(
        self, table: Table, found: Iterable[int], tensors: tuple[Tensor, ...], *, optional: bool = False
    ) -> tuple[int, ...]:
        positions = tuple(found)
        for position in positions:
            if not (optional and position == -1):
                self.index(table, position, len(tensors), "tensor")
        return positions


def _scales(table: Table) -> int:
    """How many scales a tensor has, as the interpreter counts them: none without zero points."""
    found = table.table(_TensorField.QUANTIZATION)
    if found is None:
        return 0
    scales, points = found.extent(_QuantizationField.SCALE, 4), found.extent(_QuantizationField.ZERO_POINT, 8)
    return scales.size // 4 if scales is not None and points is not None and points.size else 0


def _short(name: str) -> str:
    """A name from the file as a message shows it."""
    shown = name if len(name) <= 60 else f"{name[:60]}…"
    return shown if shown.isprintable() else ascii(shown)
