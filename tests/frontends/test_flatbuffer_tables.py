"""The reader of flatbuffers by itself: what it returns, and that no offset leads it astray."""

from __future__ import annotations

from enum import IntEnum

import pytest

flatbuffers = pytest.importorskip("flatbuffers")

from lowtide.frontends.flatbuffer.tables import DamagedError, FlatBuffer  # noqa: E402


class Field(IntEnum):
    NUMBER = 0
    TEXT = 1
    NUMBERS = 2
    CHILD = 3
    CHILDREN = 4
    ABSENT = 5


def sample() -> bytes:
    builder = flatbuffers.Builder(0)
    text = builder.CreateString("grüße")
    builder.StartVector(2, 3, 2)
    for number in (3, -2, 1):
        builder.PrependInt16(number)
    numbers = builder.EndVector()
    children = []
    for number in (7, 8):
        builder.StartObject(1)
        builder.PrependInt32Slot(0, number, 0)
        children.append(builder.EndObject())
    builder.StartVector(4, 2, 4)
    for child in reversed(children):
        builder.PrependUOffsetTRelative(child)
    vector = builder.EndVector()
    builder.StartObject(6)
    builder.PrependInt64Slot(Field.NUMBER, -(1 << 40), 0)
    builder.PrependUOffsetTRelativeSlot(Field.TEXT, text, 0)
    builder.PrependUOffsetTRelativeSlot(Field.NUMBERS, numbers, 0)
    builder.PrependUOffsetTRelativeSlot(Field.CHILD, children[1], 0)
    builder.PrependUOffsetTRelativeSlot(Field.CHILDREN, vector, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def read(data: bytes) -> tuple:
    root = FlatBuffer(data).root()
    child = root.table(Field.CHILD)
    return (
        root.integer(Field.NUMBER, "q"),
        root.string(Field.TEXT),
        root.numbers(Field.NUMBERS, "h"),
        child.integer(0) if child is not None else None,
        [table.integer(0) for table in root.tables(Field.CHILDREN)],
    )


def test_every_kind_of_field_is_read():
    assert read(sample()) == (-(1 << 40), "grüße", (1, -2, 3), 8, [7, 8])


def test_what_is_absent_has_its_default():
    root = FlatBuffer(sample()).root()
    for field in (Field.ABSENT, 99):
        assert root.integer(field, "i", 5) == 5
        assert root.string(field) is None
        assert root.table(field) is None
        assert root.numbers(field) == ()
        assert root.tables(field) == []


def test_a_message_names_field_and_byte():
    data = bytearray(sample())
    root = FlatBuffer(bytes(data)).root("model")
    at = root.place(Field.TEXT, 4)
    data[at : at + 4] = b"\xff\xff\xff\x7f"
    with pytest.raises(DamagedError, match=rf"model\.text at byte {at} leads to byte \d+ of {len(data)}"):
        FlatBuffer(bytes(data)).root("model").string(Field.TEXT)


def test_every_prefix_and_every_flipped_bit_is_read_or_refused():
    data = sample()
    broken = [data[:length] for length in range(len(data))]
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        broken.append(bytes(flipped))
    assert 0 < sum(map(is_refused, broken)) < len(broken)


def is_refused(data: bytes) -> bool:
    try:
        read(data)
    except DamagedError:
        return True
    return False


def test_a_vector_of_a_million_references_to_one_large_table_is_refused():
    builder = flatbuffers.Builder(0)
    builder.StartObject(400)
    for slot in range(400):
        builder.PrependInt64Slot(slot, 1, 0)
    table = builder.EndObject()
    builder.StartVector(4, 20_000, 4)
    for _ in range(20_000):
        builder.PrependUOffsetTRelative(table)
    vector = builder.EndVector()
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, vector, 0)
    builder.Finish(builder.EndObject())
    with pytest.raises(DamagedError, match="overlap"):
        FlatBuffer(bytes(builder.Output())).root().tables(0)
