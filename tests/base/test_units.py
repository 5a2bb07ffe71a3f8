"""Sizes as people write and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.base.errors import InputError
from lowtide.base.units import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1048576", 1048576),
        ("512B", 512),
        ("256KiB", 256 * 1024),
        ("64k", 64 * 1024),
        ("64K", 64 * 1024),
        ("1 MiB", 1 << 20),
        (" 1.5mib ", 3 << 19),
        ("2G", 2 << 30),
        ("1KB", 1000),
        ("3 MB", 3_000_000),
        ("0x40000", 0x40000),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a size"),
        ("MiB", "not a size"),
        ("-1", "not a size"),
        ("1e6", "not a size"),
        ("1_000", "not a size"),
        ("nan", "not a size"),
        ("٣", "not a size"),
        ("12 parsecs", "unknown unit 'parsecs'"),
        ("1.5B", "not a whole number of bytes"),
        ("0.3KiB", "not a whole number of bytes"),
        ("9223372036854775808", "2^63"),
        ("8192PiB", "2^63"),
        ("9" * 10_000, "not a size"),
        ("0x" + "f" * 10_000, "not a size"),
    ],
)
def test_what_is_no_size_is_refused(text: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_size(text)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (1_234_567, "1.2 MiB"),
        (3 << 30, "3.0 GiB"),
        (2**63 - 1, "8192.0 PiB"),
        (-1536, "-1.5 KiB"),
    ],
)
def test_sizes_are_shown(size: int, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(0, 2**63 - 1))
def test_a_plain_number_is_exact(size: int) -> None:
    assert parse_size(str(size)) == size
    assert parse_size(hex(size)) == size


@given(st.integers(1024, 2**50))
def test_a_shown_size_is_within_half_a_tenth(size: int) -> None:
    number, unit = format_size(size).split()
    assert abs(float(number) * parse_size("1" + unit) - size) <= 0.05 * parse_size("1" + unit) * (1 + 1e-9)
