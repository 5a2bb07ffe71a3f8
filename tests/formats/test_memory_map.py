"""Memory maps in TOML: what they hold, and one clear line for everything that is wrong with one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lowtide.base.errors import InputError
from lowtide.formats.memory_map import memory_map_from_toml
from lowtide.ir.memory_map import Bank, MemoryMap, Pin

GOOD = """\
[[bank]]
name = "dtcm"
size = "96KiB"
mem_id = 1
alignment = 16
read_cost = 1.0
write_cost = 1
reserved = "1KiB"

[[bank]]
name = "psram"
size = 8388608
mem_id = 2
read_cost = 8.25
write_cost = 12.0

[place]
input = "psram"
"scratch:*" = "dtcm"
"""


def test_a_map_is_read() -> None:
    assert memory_map_from_toml(GOOD) == MemoryMap(
        (
            Bank("dtcm", 96 * 1024, 1, alignment=16, read_cost=1.0, write_cost=1, reserved=1024),
            Bank("psram", 8 << 20, 2, read_cost=8.25, write_cost=12.0),
        ),
        (Pin("input", "psram"), Pin("scratch:*", "dtcm")),
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (GOOD, "", "the memory map has no banks"),
        ('size = "96KiB"', "size = 0", "bank 'dtcm': size 0 is not a whole number from 1 on"),
        ('size = "96KiB"', 'size = "1.5 furlongs"', "bank 'dtcm': size: .*unknown unit"),
        ('size = "96KiB"', 'size = "512"', "1024 bytes are reserved, and its size is 512: nothing is left"),
        ('"psram"\nsize', '"dtcm"\nsize', "two banks have the name 'dtcm'"),
        ("mem_id = 2", "mem_id = 1", "two banks have the mem_id 1"),
        ("mem_id = 1", "mem_id = 0", "mem_id 0 is not a whole number from 1 on"),
        ("alignment", "alignmnet", "bank 'dtcm': unknown key 'alignmnet': did you mean 'alignment'"),
        ("[place]", "[plaec]", "unknown key 'plaec': did you mean 'place'"),
        ("read_cost = 1.0\n", "", "bank 'dtcm': read_cost is missing"),
        ("read_cost = 1.0", "read_cost = -1.0", "read_cost -1.0 is not a number from 0"),
        ("read_cost = 1.0", "read_cost = nan", "read_cost nan is not a number from 0"),
        ("read_cost = 1.0", "read_cost = true", "read_cost True is not a number from 0"),
        ("read_cost = 1.0", "read_cost = 0.0000001", "with at most 6 digits"),
        (
            'input = "psram"',
            'input = "psrm"',
            "'input': there is no bank 'psrm': did you mean 'psram'",
        ),
        ('input = "psram"', "input = 3", "place.input: 3 is not the name of a bank"),
        ("[[bank]]", "[bank]", "not TOML|is not a list of tables"),
        ("mem_id = 1", "mem_id = ", "not TOML"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match=message) as refused:
        memory_map_from_toml(GOOD.replace(old, new, 1), "board.toml")
    assert str(refused.value).startswith("board.toml: ")
    assert "\n" not in str(refused.value)


def test_the_shape_of_a_target_memory_map_will_do() -> None:
    target = SimpleNamespace(
        banks=[
            SimpleNamespace(name="fast", size=1024, mem_id=2, alignment=32),
            SimpleNamespace(name="slow", size=4096, mem_id=1, alignment=16),
        ]
    )
    found = MemoryMap.of(target)
    assert [(bank.name, bank.size, bank.mem_id, bank.alignment) for bank in found.banks] == [
        ("fast", 1024, 2, 32),
        ("slow", 4096, 1, 16),
    ]
    assert found.banks[0].read_cost < found.banks[1].read_cost
    with pytest.raises(InputError, match="a int is no memory map"):
        MemoryMap.of(3)
