"""The C header compiles everywhere, says what the plan says, and refuses an array that is too small."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lowtide
from lowtide import Arena, Buffer, InputError, Problem
from lowtide.outputs.header import plan_to_header

COMPILERS = [
    ("gcc", "-std=c99", "c"),
    ("gcc", "-std=c11", "c"),
    ("gcc", "-std=c17", "c"),
    ("g++", "-std=c++11", "cpp"),
    ("g++", "-std=c++20", "cpp"),
]
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wundef", "-c", "-o", "/dev/null"]

PROBLEM = Problem(
    buffers=(
        Buffer("root/conv2d", 48, ((0, 3),), alignment=16, dtype="float32", shape=(3, 4), kind="input"),
        Buffer("root/conv2d_2", 32, ((1, 4),), alignment=16),
        Buffer("root.conv2d", 16, ((3, 6),), alignment=16),
        Buffer("root/conv2d*/ /* ??/ \\", 16, ((3, 6),), alignment=16),
        Buffer("größe", 8, ((0, 2),), alignment=8, arena=2),
        Buffer("/*", 8, ((0, 2),), alignment=1, arena=2),
        Buffer("x", 0, ((0, 2),), arena=3),
    ),
    arenas=(Arena(1), Arena(2), Arena(3)),
)
PLAN = lowtide.plan(PROBLEM)


def compiled(source: str, compiler: str, standard: str, suffix: str, folder: Path) -> str:
    """What the compiler says of a source; nothing if it is content."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    path = folder / f"use.{suffix}"
    path.write_text(source)
    done = subprocess.run(
        [compiler, standard, *STRICT, str(path)], capture_output=True, text=True, cwd=folder
    )
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize(("compiler", "standard", "suffix"), COMPILERS)
def test_it_compiles_and_guards_the_arena(compiler: str, standard: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / "plan.h").write_text(plan_to_header(PLAN, "net-2.pt2", offsets=True))
    use = """#include "plan.h"
#include "plan.h"
LOWTIDE_ALIGNED(LOWTIDE_NET_2_ARENA_1_ALIGNMENT) static unsigned char one[{size}];
static unsigned char two[LOWTIDE_NET_2_ARENA_2_BYTES];
static unsigned char three[1];
LOWTIDE_NET_2_ARENA_1_CHECK(one);
LOWTIDE_NET_2_ARENA_2_CHECK(two);
LOWTIDE_NET_2_ARENA_3_CHECK(three);
unsigned char *first(void);
unsigned char *first(void) {{
    LOWTIDE_NET_2_ARENA_1_CHECK(one);
    LOWTIDE_NET_2_ARENA_1_CHECK(one);
    return one + LOWTIDE_NET_2_OFFSET_ROOT_CONV2D + two[0] + three[0] + LOWTIDE_NET_2_ARENAS;
}}
"""
    right = use.format(size="LOWTIDE_NET_2_ARENA_1_BYTES")
    assert compiled(right, compiler, standard, suffix, tmp_path) == ""
    small = use.format(size="LOWTIDE_NET_2_ARENA_1_BYTES - 1")
    assert "too_small" in compiled(small, compiler, standard, suffix, tmp_path)


def macros(header: str) -> dict[str, int]:
    """The numbers that the header defines."""
    return {name: int(value) for name, value in re.findall(r"^#define (\w+) (\d+)u$", header, re.MULTILINE)}


def test_it_says_what_the_plan_says() -> None:
    found = macros(plan_to_header(PLAN, "net.pt2", offsets=True))
    for use in PLAN.uses:
        assert found[f"LOWTIDE_NET_ARENA_{use.id}_BYTES"] == use.bytes
    assert found["LOWTIDE_NET_ARENA_1_ALIGNMENT"] == 16
    assert found["LOWTIDE_NET_ARENA_2_ALIGNMENT"] == 8
    assert found["LOWTIDE_NET_ARENAS"] == 3
    names = ["ROOT_CONV2D", "ROOT_CONV2D_2", "ROOT_CONV2D_3", "ROOT_CONV2D_4", "GR_SSE", "UNNAMED", "X"]
    for name, buffer, offset in zip(names, PLAN.problem.buffers, PLAN.offsets, strict=True):
        assert found[f"LOWTIDE_NET_OFFSET_{name}"] == offset
        assert found[f"LOWTIDE_NET_SIZE_{name}"] == buffer.size


def test_offsets_are_left_out_unless_asked_for() -> None:
    assert "OFFSET" not in plan_to_header(PLAN, "net.pt2")


def test_the_prefix() -> None:
    assert macros(plan_to_header(PLAN, "net.pt2", prefix="kws"))["kws_ARENA_1_BYTES"] == PLAN.uses[0].bytes
    with pytest.raises(InputError, match="'2fast' is no C identifier"):
        plan_to_header(PLAN, "net.pt2", prefix="2fast")


def test_the_header_does_not_depend_on_the_clock() -> None:
    again = lowtide.plan(PROBLEM)
    assert plan_to_header(again, "a.csv", offsets=True) == plan_to_header(PLAN, "a.csv", offsets=True)


def test_from_the_command_line(tmp_path: Path) -> None:
    buffers = tmp_path / "my net.csv"
    buffers.write_text("id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\n")
    out = tmp_path / "plan.h"
    arguments = ["plan", str(buffers), "--header", str(out), "--header-offsets", "-q"]
    done = subprocess.run([sys.executable, "-m", "lowtide", *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = macros(out.read_text())
    assert found["LOWTIDE_MY_NET_ARENA_1_BYTES"] == 8
    assert found["LOWTIDE_MY_NET_OFFSET_A"] == found["LOWTIDE_MY_NET_OFFSET_B"]
