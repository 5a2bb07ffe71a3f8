"""Models built by hand, with the schema that ``tflite-micro`` ships."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

_TYPES = {"FLOAT32": np.float32, "INT32": np.int32, "INT8": np.int8, "BOOL": np.bool_, "INT16": np.int16}

_VERSIONS = {"ADD": 1, "FULLY_CONNECTED": 1}


class Net:
    """A model under construction; the first graph is the one that runs."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = [b""]
        self.codes: list[tuple[str, str]] = []
        self.graphs: list[Graph] = []
        self.metadata: list[tuple[str, bytes]] = []

    def graph(self, name: str = "main") -> Graph:
        graph = Graph(self, name, len(self.graphs))
        self.graphs.append(graph)
        return graph

    def buffer(self, data: bytes) -> int:
        self.buffers.append(data)
        return len(self.buffers) - 1

    def code(self, name: str, custom: str = "") -> int:
        if (name, custom) not in self.codes:
            self.codes.append((name, custom))
        return self.codes.index((name, custom))

    def finish(self) -> bytes:
        """The file. Buffers of constants lie at multiples of 16 bytes, as the converter has them."""
        model = schema.ModelT()
        model.version, model.description = 3, "made by hand"
        model.operatorCodes = [self._code(*code) for code in self.codes]
        model.subgraphs = [graph.build() for graph in self.graphs]
        model.metadata = []
        for name, data in self.metadata:
            entry = schema.MetadataT()
            entry.name, entry.buffer = name, self.buffer(data)
            model.metadata.append(entry)
        model.buffers = []
        for data in self.buffers:
            buffer = schema.BufferT()
            if data:
                buffer.data = np.frombuffer(data, dtype=np.uint8)
            model.buffers.append(buffer)
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    @staticmethod
    def _code(name: str, custom: str) -> Any:
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = _VERSIONS.get(name, 1)
        code.customCode = custom or None
        return code


@dataclass
class Graph:
    """A subgraph under construction; tensors are known by their positions in it."""

    net: Net
    name: str
    position: int
    tensors: list[Any] = field(default_factory=list)
    operators: list[Any] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(
        self,
        shape: tuple[int, ...],
        type: str = "FLOAT32",
        *,
        name: str | None = None,
        variable: bool = False,
        scale: float | None = None,
    ) -> int:
        tensor = schema.TensorT()
        tensor.shape, tensor.type = list(shape), getattr(schema.TensorType, type)
        tensor.name = f"t{len(self.tensors)}" if name is None else name
        tensor.isVariable = variable
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [0]
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def constant(self, values: Any, type: str = "FLOAT32", scale: float | None = None) -> int:
        array = np.asarray(values, dtype=_TYPES[type])
        found = self.tensor(array.shape, type, scale=scale)
        self.tensors[found].buffer = self.net.buffer(array.tobytes())
        return found

    def input(self, shape: tuple[int, ...], type: str = "FLOAT32", scale: float | None = None) -> int:
        found = self.tensor(shape, type, scale=scale)
        self.inputs.append(found)
        return found

    def op(self, name: str, inputs: list[int], outputs: list[int], custom: str = "", **options: Any) -> None:
        operator = schema.OperatorT()
        operator.opcodeIndex = self.net.code(name, custom)
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        kind = _OPTIONS.get(name)
        if kind is not None:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
            operator.builtinOptions = getattr(schema, kind + "T")()
            for key, value in options.items():
                assert hasattr(operator.builtinOptions, key), key
                setattr(operator.builtinOptions, key, value)
        self.operators.append(operator)

    def made(self, name: str, inputs: list[int], shape: tuple[int, ...] | None = None, **options: Any) -> int:
        """The output of a new operator, of the shape, type and scale of the first input if not said."""
        like = self.tensors[inputs[0]]
        output = self.tensor(tuple(like.shape) if shape is None else shape)
        self.tensors[output].type = like.type
        self.tensors[output].quantization = like.quantization
        self.op(name, inputs, [output], **options)
        return output

    def build(self) -> Any:
        graph = schema.SubGraphT()
        graph.name, graph.tensors, graph.operators = self.name, self.tensors, self.operators
        graph.inputs, graph.outputs = self.inputs, self.outputs
        return graph


_OPTIONS = {
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "DIV": "DivOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "CONCATENATION": "ConcatenationOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "SOFTMAX": "SoftmaxOptions",
    "RESHAPE": "ReshapeOptions",
    "SQUEEZE": "SqueezeOptions",
    "LESS": "LessOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "LOG_SOFTMAX": "LogSoftmaxOptions",
    "DYNAMIC_UPDATE_SLICE": "DynamicUpdateSliceOptions",
    "GREATER": "GreaterOptions",
    "IF": "IfOptions",
    "WHILE": "WhileOptions",
    "CALL_ONCE": "CallOnceOptions",
    "VAR_HANDLE": "VarHandleOptions",
    "READ_VARIABLE": "ReadVariableOptions",
    "ASSIGN_VARIABLE": "AssignVariableOptions",
    "CAST": "CastOptions",
    "QUANTIZE": "QuantizeOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "MEAN": "ReducerOptions",
    "SPLIT": "SplitOptions",
    "SPLIT_V": "SplitVOptions",
    "GATHER": "GatherOptions",
    "DEPTH_TO_SPACE": "DepthToSpaceOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "ADD_N": "AddNOptions",
}
