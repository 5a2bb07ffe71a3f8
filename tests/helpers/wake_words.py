"""Models that real devices run: the wake words of pymicro-wakeword, where that is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import flatbuffers
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

STOCK = {"alexa": 3648, "hey_mycroft": 4288, "okay_nabu": 3840, "hey_jarvis": 3424}
"""Bytes at the head of the arena that the interpreter takes by itself."""

BOUND = {"alexa": 3200, "hey_mycroft": 3840, "okay_nabu": 3584, "hey_jarvis": 3248}
"""Bytes that no plan can be below."""


def with_features(data: bytes) -> bytes:
    """The same model that also returns what its last layer sees: hundreds of bytes instead of one."""
    model = schema.ModelT.InitFromPackedBuf(data)
    graph = model.subgraphs[0]
    names = [model.operatorCodes[operator.opcodeIndex].builtinCode for operator in graph.operators]
    last = max(i for i, name in enumerate(names) if name == schema.BuiltinOperator.FULLY_CONNECTED)
    graph.outputs = [*graph.outputs, graph.operators[last].inputs[0]]
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def wake_words() -> dict[str, bytes]:
    spec = importlib.util.find_spec("pymicro_wakeword")
    folder = Path(spec.origin).parent / "models" if spec is not None and spec.origin else None
    paths = sorted(folder.glob("*.tflite")) if folder is not None else []
    return {path.stem: path.read_bytes() for path in paths if path.stem in STOCK}
