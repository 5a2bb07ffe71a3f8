"""Asks the interpreter of this machine what it takes. Run as a process of its own.

The least arena is found by halving; each size is tried in a process of its own, which too small a one may
end.

Scratch: every operator is put into a model of its own. All of its tensors lie at offset 0, and above them
lids, small tensors that last throughout, with equal gaps below. There are as many gaps as an operator may ask
for scratch, so that each request goes into one if it fits and above all lids if it does not: the height of
the arena tells the sum of the requests that are larger than a gap.

    python -m lowtide.frontends.tflite.probing scratch < model.tflite > scratch.json
    python -m lowtide.frontends.tflite.probing arena < model.tflite > bytes.json
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from copy import copy
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import LowtideError
from lowtide.frontends.tflite.interpreter import ALIGNMENT
from lowtide.frontends.tflite.metadata import NAME, ONLINE, encode
from lowtide.frontends.tflite.reading import IDENTIFIER, read_model
from lowtide.ir.problem import align_up

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = re.compile(r"Arena allocation head (\d+) bytes")
_WITHOUT = frozenset({"IF", "WHILE", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"})
"""Operators that need more than themselves to be prepared, and ask for nothing."""

_LIDS = 12
"""``kMaxScratchBuffersPerOp`` of the interpreter."""

_FIRST, _MOST = 1 << 14, 1 << 30
"""Bytes of the first arena that is tried, and of the largest."""

_ROOM = 1 << 24
"""Bytes of an arena beyond what the tensors take: for scratch, and for what the interpreter keeps itself."""


def probe(data: bytes) -> Iterator[tuple[int, int, int]]:
    """For each request of each operator: subgraph, operator, bytes rounded up.

    Raises:
        LowtideError: the interpreter has no kernel for an operator, or does not accept it.
    """
    from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

    model = read_model(data)
    whole = schema.ModelT.InitFromPackedBuf(data)
    for i, subgraph in enumerate(model.subgraphs):
        for j, operator in enumerate(subgraph.operators):
            if operator.name in _WITHOUT:
                continue
            try:
                sizes = _sizes(_Trial(_alone(whole, i, j, schema)))
            except RuntimeError as error:
                said = " ".join(str(error).split())
                raise LowtideError(f"operator {j} ({operator.name}) of subgraph {i}: {said}") from None
            yield from ((i, j, size) for size in sizes)


def _sizes(trial: _Trial) -> list[int]:
    """The single sizes of an operator's scratch."""
    total = trial.above(0)
    if not total:
        return []
    found: list[int] = []
    open_ = [(0, 0, total, total)]
    while open_:
        low, below_low, high, below_high = open_.pop()
        if below_low == below_high:
            continue
        if high - low == ALIGNMENT:
            found += [high] * ((below_high - below_low) // high)
            continue
        middle = (low + high) // (2 * ALIGNMENT) * ALIGNMENT
        below = total - trial.above(middle)
        open_ += [(low, below_low, middle, below), (middle, below, high, below_high)]
    return found


class _Trial:
    """A model of one operator, whose last tensors are the lids."""

    def __init__(self, data: bytes) -> None:
        model = read_model(data)
        self.data, self.model = bytearray(data), model
        self.offsets = [0 if i in model.arena_tensors else ONLINE for i in range(model.tensor_count)]
        sizes = [tensor.size for i, tensor in enumerate(model.tensors) if i in model.arena_tensors][:-_LIDS]
        self.base = align_up(max(sizes, default=0), ALIGNMENT)
        self.arena = 4 * sum(tensor.size for tensor in model.tensors) + _ROOM
        place = model.buffers[model.metadata[-1].buffer]
        assert place is not None
        self.place = place

    def above(self, gap: int) -> int:
        """Bytes of scratch above the lids, that is in requests larger than the gap below each."""
        pitch = gap + ALIGNMENT
        for lid in range(_LIDS):
            self.offsets[lid - _LIDS] = self.base + lid * pitch + gap
        self.data[self.place.start : self.place.stop] = encode(self.model, self.offsets)
        top = self.base + _LIDS * pitch
        return _head(bytes(self.data), self.arena + top) - top


def _alone(whole: Any, subgraph: int, operator: int, schema: Any) -> bytes:
    """A model of one operator of another, with lids."""
    import flatbuffers

    graph = whole.subgraphs[subgraph]
    found = copy(graph.operators[operator])
    code = whole.operatorCodes[found.opcodeIndex]
    used = list(dict.fromkeys(t for t in (*_list(found.inputs), *_list(found.outputs)) if t >= 0))
    buffers, tensors = [schema.BufferT()], []
    for tensor in used:
        fresh = copy(graph.tensors[tensor])
        content = whole.buffers[fresh.buffer]
        fresh.buffer = len(buffers) if content.data is not None and len(content.data) else 0
        if fresh.buffer:
            buffers.append(content)
        tensors.append(fresh)
    lid = schema.TensorT()
    lid.shape, lid.type, lid.buffer, lid.name = [ALIGNMENT], schema.TensorType.INT8, 0, "lid"
    tensors += [lid] * _LIDS
    position = {tensor: i for i, tensor in enumerate(used)}
    found.opcodeIndex, found.intermediates = 0, None
    found.inputs = [position.get(t, -1) for t in _list(found.inputs)]
    found.outputs = [position[t] for t in _list(found.outputs)]
    alone = schema.SubGraphT()
    alone.tensors, alone.operators = tensors, [found]
    lids = range(len(used), len(tensors))
    given = [i for i in range(len(used)) if i in found.inputs and not tensors[i].buffer]
    alone.inputs = [*(i for i in given if not tensors[i].isVariable), *lids]
    alone.outputs = [*found.outputs, *lids]
    entry, offsets = schema.MetadataT(), schema.BufferT()
    entry.name, entry.buffer = NAME, len(buffers)
    offsets.data = bytes(12 + 4 * len(tensors))
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [alone]
    model.buffers, model.metadata = [*buffers, offsets], [entry]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _list(found: Any) -> list[int]:
    return [] if found is None else [int(t) for t in found]


def _head(data: bytes, arena: int) -> int:
    """Bytes at the head of the arena, as the interpreter prints them on the process's standard error."""
    from tflite_micro.python.tflite_micro import runtime

    with tempfile.TemporaryFile() as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            runtime.Interpreter.from_bytes(data, arena_size=arena).print_allocations()
        finally:
            os.dup2(before, 2)
            os.close(before)
        file.seek(0)
        found = _HEAD.search(file.read().decode(errors="replace"))
    if found is None:
        raise LowtideError("this version of tflite-micro prints no arena allocation head")
    return int(found.group(1))


def least_arena(data: bytes) -> int:
    """The fewest bytes of an arena in which the interpreter starts, to 16 bytes.

    Raises:
        LowtideError: it starts in none.
    """
    from tflite_micro.python.tflite_micro import runtime  # noqa: F401, so that no process does it again

    low, high = 0, _FIRST
    while not _starts(data, high):
        low, high = high, 4 * high
        if high >= _MOST:
            raise LowtideError(
                "the interpreter does not start: it has no kernel for an operator, or refuses it"
            )
    while high - low > ALIGNMENT:
        middle = (low + high) // (2 * ALIGNMENT) * ALIGNMENT
        low, high = (low, middle) if _starts(data, middle) else (middle, high)
    return high


def _starts(data: bytes, arena: int) -> bool:
    """Whether the interpreter starts in an arena, in a process that it may end."""
    child = os.fork()
    if not child:
        code = 1
        try:
            from tflite_micro.python.tflite_micro import runtime

            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            runtime.Interpreter.from_bytes(data, arena_size=arena)
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def main(what: str) -> int:
    """Read a model from standard input, write its scratch, or its least arena, to standard output as JSON."""
    data = sys.stdin.buffer.read()
    try:
        print(json.dumps(list(probe(data)) if what == "scratch" else least_arena(data)))
    except ImportError as error:
        print(f"{error.name} is not installed: pip install 'lowtide[tflm]'", file=sys.stderr)
    except LowtideError as error:
        print(error, file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
