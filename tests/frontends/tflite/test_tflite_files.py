"""Files: what is read, what is refused in one line, and that writing keeps every old byte."""

from __future__ import annotations

import math
import struct
from collections import Counter
from random import Random

import flatbuffers
import numpy as np
import pytest
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

from lowtide.base.errors import InputError, LowtideError, UnsupportedError
from lowtide.frontends.tflite.interpreter import simulate
from lowtide.frontends.tflite.metadata import NAME, ONLINE, encode, offsets_in
from lowtide.frontends.tflite.planning import plan_model
from lowtide.frontends.tflite.programs import program_of
from lowtide.frontends.tflite.reading import read_model
from lowtide.frontends.tflite.writing import with_offsets
from lowtide.pack.registry import Options
from tflite_building import Net
from tflite_nets import NETS
from tflite_random_nets import random_net
from tflm import run
from wake_words import wake_words


def files() -> dict[str, bytes]:
    return {**{name: make() for name, make in NETS.items()}, **wake_words()}


def test_what_is_read_is_what_the_schema_package_reads():
    for name, data in files().items():
        model, other = read_model(data, name), schema.ModelT.InitFromPackedBuf(data)
        for graph, expected in zip(model.subgraphs, other.subgraphs, strict=True):
            assert [list(t.shape) for t in graph.tensors] == [list(t.shape) for t in expected.tensors]
            assert [t.name for t in graph.tensors] == [t.name.decode() for t in expected.tensors]
            assert [t.variable for t in graph.tensors] == [t.isVariable for t in expected.tensors]
            assert list(graph.inputs) == [int(i) for i in _list(expected.inputs)]
            assert list(graph.outputs) == [int(i) for i in _list(expected.outputs)]
            operators = expected.operators or []
            assert [list(o.inputs) for o in graph.operators] == [_list(o.inputs) for o in operators]
            assert [list(o.outputs) for o in graph.operators] == [_list(o.outputs) for o in operators]
        contents = [b"" if b.data is None else bytes(b.data) for b in other.buffers]
        assert [model.content(i) for i in range(len(model.buffers))] == contents


def _list(found) -> list[int]:
    return [] if found is None else [int(i) for i in found]


@pytest.mark.parametrize("name", sorted(files()))
def test_writing_keeps_every_old_byte(name):
    data = files()[name]
    model = read_model(data, name)
    offsets = [16 * i for i in range(model.tensor_count)]
    written = with_offsets(model, offsets)
    grown = len(written.data) - len(data)
    assert grown % 64 == 0
    assert written.data.endswith(data)
    assert offsets_in(written) == tuple(offsets)
    assert with_offsets(written, offsets).data == written.data
    other = with_offsets(written, offsets[::-1])
    assert len(other.data) == len(written.data)
    assert sum(a != b for a, b in zip(other.data, written.data, strict=True)) <= 4 * len(offsets)


def test_other_metadata_and_names_stay():
    net = Net()
    main = net.graph("näme")
    x = main.input((1, 16))
    main.outputs = [main.made("NEG", [x])]
    net.metadata = [
        ("min_runtime_version", b"1.5.0\0"),
        (NAME, b"old and of another length"),
        ("other", b"x"),
    ]
    data = net.finish()
    written = with_offsets(read_model(data), [0, 64])
    read = schema.ModelT.InitFromPackedBuf(written.data)
    assert [entry.name.decode() for entry in read.metadata] == ["min_runtime_version", NAME, "other"]
    kept = [bytes(read.buffers[entry.buffer].data) for entry in read.metadata]
    assert kept == [b"1.5.0\0", encode(written, [0, 64]), b"x"]
    assert read.description == b"made by hand"


def test_offsets_that_share_their_buffer_are_not_written_over():
    net = Net()
    main = net.graph()
    x = main.input((1, 5))
    content = struct.pack("<iii4i", 1, 1, 4, ONLINE, ONLINE, ONLINE, ONLINE)
    shared = main.constant([0] * 7, "INT32")
    main.tensors[shared].buffer = net.buffer(content)
    y = main.made("NEG", [x])
    main.made("ABS", [x])
    main.outputs = [y]
    net.metadata = [(NAME, content)]
    data = net.finish()
    model = schema.ModelT.InitFromPackedBuf(data)
    model.metadata[0].buffer = model.subgraphs[0].tensors[shared].buffer
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    model = read_model(bytes(builder.Output()))
    written = with_offsets(model, [0, ONLINE, 32, 64])
    assert written.content(written.subgraphs[0].tensors[shared].buffer) == content
    assert offsets_in(written) == (0, ONLINE, 32, 64)


def simple(*, shape=(1, 16), type="FLOAT32", metadata=(), name="NEG", **operator) -> bytes:
    net = Net()
    main = net.graph()
    x = main.input(shape, type)
    main.outputs = [main.made(name, [x], **operator)]
    net.metadata = list(metadata)
    return net.finish()


def edited(edit, data: bytes | None = None) -> bytes:
    model = schema.ModelT.InitFromPackedBuf(data or simple())
    edit(model)
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def set_on(path: str, value):
    """An edit that sets one field, such as ``subgraphs.0.tensors.1.buffer``."""

    def edit(model):
        *way, last = path.split(".")
        for step in way:
            model = model[int(step)] if step.isdigit() else getattr(model, step)
        setattr(model, last, value)

    return edit


HOSTILE = {
    "is no TensorFlow Lite model": lambda: b"hello",
    "cut short": lambda: simple()[:40],
    "size in front": lambda: struct.pack("<I", len(simple())) + simple(),
    "big-endian": lambda: simple()[:4][::-1] + simple()[4:],
    "has no subgraph": lambda: edited(set_on("subgraphs", [])),
    "a shape that is not known": lambda: simple(shape=(-1, 16)),
    "2 GiB": lambda: simple(shape=(1 << 16, 1 << 16)),
    "is of type STRING": lambda: edited(set_on("subgraphs.0.tensors.1.type", 5)),
    "is of type 99": lambda: edited(set_on("subgraphs.0.tensors.1.type", 99)),
    "names buffer 77 of": lambda: edited(set_on("subgraphs.0.tensors.1.buffer", 77)),
    "names code 7 of 1": lambda: edited(set_on("subgraphs.0.operators.0.opcodeIndex", 7)),
    "names tensor 5 of 2": lambda: edited(set_on("subgraphs.0.operators.0.outputs", [5])),
    "names tensor -1 of 2": lambda: edited(set_on("subgraphs.0.outputs", [-1])),
    "intermediate tensors": lambda: edited(set_on("subgraphs.0.operators.0.intermediates", [1])),
    "behind the model": lambda: edited(set_on("buffers.0.offset", 4096)),
    "options behind the model": lambda: edited(
        set_on("subgraphs.0.operators.0.largeCustomOptionsOffset", 99)
    ),
    "in another file": lambda: edited(set_on("subgraphs.0.tensors.1.externalBuffer", 1)),
    "in other memory": lambda: simple(name="CUSTOM", custom="TFLM_DECODE"),
    "compressed": lambda: simple(metadata=[("COMPRESSION_METADATA", b"1234")]),
    "is operator 250": lambda: edited(set_on("operatorCodes.0.builtinCode", 250)),
    "is a IF without options": lambda: edited(set_on("operatorCodes.0.builtinCode", 118)),
    "names subgraph 9 of 3": lambda: edited(
        set_on("subgraphs.0.operators.0.builtinOptions.elseSubgraphIndex", 9), NETS["branch"]()
    ),
    "for another of another size": lambda: edited(
        set_on("subgraphs.1.tensors.0.shape", [1, 8]), NETS["branch"]()
    ),
    "has inputs or outputs": lambda: edited(set_on("subgraphs.1.inputs", [0]), NETS["resource"]()),
    "passes 1 tensors for 0": lambda: edited(set_on("subgraphs.2.inputs", []), NETS["branch"]()),
    "calls itself": lambda: edited(
        set_on("subgraphs.0.operators.0.builtinOptions.elseSubgraphIndex", 0), NETS["branch"]()
    ),
    "has 2 tensors and offsets for 3": lambda: simple(
        metadata=[(NAME, struct.pack("<6i", 1, 1, 3, 0, 0, 0))]
    ),
    "offsets are cut short": lambda: simple(metadata=[(NAME, struct.pack("<4i", 1, 1, 2, 0))]),
    "its offsets are cut short": lambda: simple(metadata=[(NAME, b"12")]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_cannot_be_planned_is_refused_in_one_line(what):
    with pytest.raises((InputError, UnsupportedError), match=what) as caught:
        plan_model(read_model(HOSTILE[what](), "odd.tflite"), options=Options(timeout=0.1))
    assert str(caught.value).startswith("odd.tflite: ")
    assert str(caught.value).isprintable()


def test_a_version_outside_of_the_root_is_damage():
    """The writer would copy it into a new root."""
    data = bytearray(NETS["loop"]())
    root = struct.unpack_from("<I", data)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    struct.pack_into("<H", data, vtable + 4, 60_000)
    with pytest.raises(InputError, match=r"model\.version lies outside of its table"):
        read_model(bytes(data))


def test_a_tensor_that_is_read_before_it_is_written_is_refused():
    net = Net()
    main = net.graph()
    x, late = main.input((1, 8)), main.tensor((1, 8))
    early = main.made("ADD", [x, late])
    main.op("NEG", [x], [late])
    main.outputs = [early]
    with pytest.raises(UnsupportedError, match=r"operator 0 \(ADD\) .* reads tensor 1 before"):
        program_of(read_model(net.finish()))


def resizing(name: str, shapes: list[tuple[int, ...]], made: tuple[int, ...], **options) -> bytes:
    """A model of a kernel that sets the shape of its output itself; inputs but the first are indices."""
    net = Net()
    main = net.graph()
    x = main.input(shapes[0])
    indices = [main.constant(np.zeros(shape), "INT32") for shape in shapes[1:]]
    output = main.tensor(made)
    main.op(name, [x, *indices], [output], **options)
    main.outputs = [output]
    return net.finish()


@pytest.mark.parametrize(
    ("name", "shapes", "made", "options"),
    [
        ("GATHER", [(4, 5, 6), (3, 2)], (4, 3, 2, 6), {"axis": 1}),
        ("GATHER", [(4, 5, 6), (3,)], (4, 5, 3), {"axis": -1}),
        ("GATHER", [(4, 5, 6), (4, 2)], (4, 2, 6), {"axis": 1, "batchDims": 1}),
        ("GATHER_ND", [(4, 5, 6), (7, 2)], (7, 6), {}),
        ("DEPTH_TO_SPACE", [(1, 2, 3, 8)], (1, 4, 6, 2), {"blockSize": 2}),
        ("L2_POOL_2D", [(1, 9, 8, 2)], (1, 3, 4, 2), {"strideH": 3, "strideW": 2, "filterHeight": 2}),
        (
            "L2_POOL_2D",
            [(1, 9, 8, 2)],
            (1, 3, 3, 2),
            {"padding": 1, "strideH": 3, "strideW": 2, "filterHeight": 2},
        ),
    ],
)
def test_an_output_that_its_kernel_makes_larger_is_refused(name, shapes, made, options):
    """The interpreter makes room for what the kernel says; that is known, and the file must say the same."""
    options |= {"filterWidth": 3} if name == "L2_POOL_2D" else {}
    right = resizing(name, shapes, made, **options)
    assert simulate(read_model(right)).head == run(right, runs=1).head
    less = (*made[:-1], made[-1] - 1)
    with pytest.raises(UnsupportedError, match=f"makes {math.prod(made)} elements"):
        read_model(resizing(name, shapes, less, **options))


def test_models_of_next_to_nothing():
    net = Net()
    main = net.graph()
    main.outputs = [main.input((1, 16))]
    net.graph("empty")
    found = plan_model(read_model(net.finish()), options=Options(timeout=0.1))
    assert found.after.head == 64
    assert found.offsets is None
    net = Net()
    net.graph()
    assert plan_model(read_model(net.finish()), options=Options(timeout=0.1)).after.head == 0


def test_calls_that_unfold_without_end_are_refused():
    net = Net()
    graphs = [net.graph(f"level{i}") for i in range(24)]
    for graph, callee in zip(graphs, [*graphs[1:], None], strict=True):
        flag, x = graph.input((1,), "BOOL"), graph.input((1, 4))
        if callee is None:
            graph.outputs = [graph.made("NEG", [x])]
            continue
        result = graph.tensor((1, 4))
        graph.op(
            "IF",
            [flag, flag, x],
            [result],
            thenSubgraphIndex=callee.position,
            elseSubgraphIndex=callee.position,
        )
        graph.outputs = [result]
    with pytest.raises(UnsupportedError, match="unfold into more than"):
        plan_model(read_model(net.finish()), options=Options(timeout=0.1))


def mutate(data: bytes, random: Random) -> bytes:
    """Damage as disks, networks and people do it, mostly where the tables are."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4, 10))):
        at = random.randrange(min(len(made), 4000) if random.random() < 0.7 else len(made))
        kind = random.randrange(6)
        if kind == 0:
            made[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del made[max(at, 2) :]
        elif kind == 2:
            made[at:at] = bytes(random.randrange(1, 9))
        elif kind == 3:
            origin = random.randrange(len(made))
            made[at : at + 4] = made[origin : origin + 4]
        else:
            number = random.choice(
                (0, 1, (1 << 32) - 1, (1 << 31) - 1, 1 << 31, random.randrange(len(made) + 1))
            )
            made[at // 4 * 4 : at // 4 * 4 + 4] = struct.pack("<I", number)
    return bytes(made)


def survive(count: int, seed: int) -> Counter[str]:
    """Plan so many mutations; anything but an answer or one line is a fault."""
    random, seen = Random(seed), Counter()
    sound = [*files().values(), *(random_net(seed) for seed in range(5))]
    for _ in range(count):
        data = mutate(random.choice(sound), random)
        try:
            model = read_model(data, "odd.tflite")
            found = plan_model(model, options=Options(timeout=0.02))
            if found.offsets is not None:
                with_offsets(model, found.offsets)
            seen["answer"] += 1
        except LowtideError as error:
            seen[type(error).__name__ if str(error).isprintable() else "several lines"] += 1
    assert not seen["several lines"]
    return seen


def test_damaged_files_give_one_line():
    seen = survive(300, 1)
    assert seen["answer"] > 20
    assert seen["InputError"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
def test_ten_thousand_damaged_files_give_one_line(seed):
    assert survive(1000, seed).total() == 1000
