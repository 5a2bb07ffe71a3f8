"""Models in banks: plans, and the planner in C++ that TensorFlow Lite Micro's interpreter takes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import lowtide
from command_line import run
from lowtide.base.errors import InputError, UnsupportedError
from lowtide.frontends.tflite.interpreter import simulate
from lowtide.ir.memory_map import Bank, MemoryMap, Pin
from lowtide.outputs.planner import plan_to_planner
from lowtide.sources import load, make_request
from tflite_nets import NETS

INTERFACE = """\
#include <cstddef>
enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 };
namespace tflite {
class MicroMemoryPlanner {
 public:
  virtual ~MicroMemoryPlanner() {}
  virtual TfLiteStatus AddBuffer(int, int, int) = 0;
  virtual TfLiteStatus AddBuffer(int, int, int, int) { return kTfLiteError; }
  virtual std::size_t GetMaximumMemorySize() = 0;
  virtual int GetBufferCount() = 0;
  virtual TfLiteStatus GetOffsetForBuffer(int, int*) = 0;
  virtual TfLiteStatus Init(unsigned char*, int) { return kTfLiteOk; }
  virtual bool preserves_all_tensors() const = 0;
  virtual void PrintMemoryPlan() {}
};
}  // namespace tflite
"""
"""As in the interpreter's sources of August 2026."""

DRIVER = """\
#include <cstdio>
#include "planner.h"
alignas(16) static unsigned char memory[1 << 20];
int main() {
  unsigned char* arena = memory + 5;  // the interpreter aligns it by itself
  void* const banks[] = {memory + 65536, memory + 524288};
  NetPlanner planner(arena, banks);
  const int sizes[] = {SIZES 0};
  const int count = sizeof sizes / sizeof *sizes - 1;
  int offset = 0;
  if (planner.GetOffsetForBuffer(0, &offset) == kTfLiteOk && count != 0) return 1;  // not asked for all yet
  for (int i = 0; i < count; ++i) {
    if (planner.AddBuffer(1 << 30, 0, 1) == kTfLiteOk && sizes[i] != 0) return 2;
    if (planner.AddBuffer(sizes[i], 0, 1) != kTfLiteOk) return 3;
  }
  if (planner.AddBuffer(16, 0, 1) == kTfLiteOk || planner.AddBuffer(16, 0, 1, 0) == kTfLiteOk) return 4;
  if (planner.GetBufferCount() != count || planner.GetMaximumMemorySize() != 0) return 5;
  for (int i = 0; i < count; ++i) {
    if (planner.GetOffsetForBuffer(i, &offset) != kTfLiteOk) return 6;
    std::printf("%d\\n", static_cast<int>(memory + 16 + offset - memory));
  }
  return planner.GetOffsetForBuffer(count, &offset) == kTfLiteOk ? 7 : 0;
}
"""
STARTS = (65536, 524288)


def two_banks(fast: int, *pins: Pin) -> MemoryMap:
    return MemoryMap((Bank("fast", fast, 1), Bank("slow", 1 << 19, 2, read_cost=8.0, write_cost=8.0)), pins)


def compiled(folder: Path, includes: Path) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    (folder / "driver.cpp").write_text(folder.joinpath("driver.in").read_text())
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-isystem", str(includes), "-I", str(folder)]
    command = ["g++", *flags, str(folder / "driver.cpp"), "-o", str(folder / "driver")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "driver"


def stub(folder: Path) -> Path:
    header = folder / "include/tensorflow/lite/micro/memory_planner/micro_memory_planner.h"
    header.parent.mkdir(parents=True)
    header.write_text(INTERFACE)
    return folder / "include"


def check_planner(data: bytes, folder: Path, includes: Path, **options: object) -> lowtide.Plan:
    """Plan, compile the planner, and ask it as the interpreter would."""
    whole = lowtide.plan(data, **options).arena_bytes
    memory = two_banks(max(whole // 32 * 16, 16))
    source = load(data, make_request({"memory_map": memory, **options}))
    plan = lowtide.plan(data, memory_map=memory, **options)
    lowtide.verify(plan, data, memory_map=memory, **options)
    assert source.asked is not None
    (folder / "planner.h").write_text(plan_to_planner(plan, source.asked, "net.tflite", prefix="NET"))
    arena = simulate(source.origin, None, scratch_of(source))
    sizes = [arena.tensors[i].size for i in sorted(arena.tensors)] + [s.size for s in arena.scratch]
    assert len(sizes) == len(source.asked)
    text = DRIVER.replace("SIZES", "".join(f"{size}, " for size in sizes))
    (folder / "driver.in").write_text(text)
    done = subprocess.run([compiled(folder, includes)], capture_output=True, text=True)
    assert done.returncode == 0
    starts = dict(zip((1, 2), STARTS, strict=True))
    for name, at in zip(source.asked, map(int, done.stdout.split()), strict=True):
        if name:
            buffer = plan.problem.buffers[plan.names[name]]
            assert at == starts[buffer.arena] + plan.offsets[plan.names[name]]
    return plan


def scratch_of(source):
    from lowtide.frontends.tflite.requests import scratch_in

    return scratch_in(source.origin, source.request)


@pytest.mark.parametrize("name", ["branch", "swapping loop", "shared", "resource", "variable", "unused"])
def test_the_planner_answers_as_the_plan_says(name: str, tmp_path: Path) -> None:
    plan = check_planner(NETS[name](), tmp_path, stub(tmp_path))
    assert plan.cost is not None
    assert plan.cost >= (plan.cost_bound or 0) > 0
    assert {bank.name for bank in plan.banks} == {"fast", "slow"}


def test_scratch_goes_to_banks_too(tmp_path: Path) -> None:
    plan = check_planner(NETS["branch"](), tmp_path, stub(tmp_path), scratch={"ADD": 512})
    assert any(buffer.kind == "scratch" for buffer in plan.problem.buffers)
    pinned = lowtide.plan(
        NETS["branch"](), scratch={"ADD": 512}, memory_map=two_banks(4096, Pin("scratch", "slow"))
    )
    kinds = {(b.kind, pinned.bank_of(i)) for i, b in enumerate(pinned.problem.buffers)}
    assert ("scratch", "slow") in kinds
    assert ("scratch", "fast") not in kinds


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NETS))
def test_every_net_against_the_interpreters_header(name: str, tmp_path: Path) -> None:
    """``TFLITE_MICRO`` is a folder with the sources of tensorflow/tflite-micro."""
    sources = os.environ.get("TFLITE_MICRO")
    if not sources:
        pytest.skip("TFLITE_MICRO names no sources")
    check_planner(NETS[name](), tmp_path, Path(sources))


def test_what_a_map_and_a_model_cannot_have_is_refused() -> None:
    data, memory = NETS["branch"](), two_banks(4096)
    repacked = lowtide.repack(NETS["loop"]()).data
    with pytest.raises(UnsupportedError, match="has offsets of its own"):
        lowtide.plan(repacked, memory_map=memory)
    with pytest.raises(UnsupportedError, match="offsets in a model are of one arena"):
        lowtide.repack(data, memory_map=memory)
    with pytest.raises(UnsupportedError, match="--device counts one arena"):
        lowtide.plan(data, memory_map=memory, device="cortex-m")
    with pytest.raises(InputError, match="give a memory map"):
        plan_to_planner(lowtide.plan(data), (), "net.tflite")


def test_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(NETS["branch"]())
    (tmp_path / "board.toml").write_text(
        "".join(
            f'[[bank]]\nname = "{name}"\nsize = "{size}"\nmem_id = {id}\n'
            f"read_cost = {id}\nwrite_cost = {id}\n"
            for name, size, id in (("fast", "2KiB", 1), ("slow", "1MiB", 2))
        )
    )
    model, board = tmp_path / "net.tflite", tmp_path / "board.toml"
    done = run("plan", model, "--memory-map", board, "--planner", "-")
    assert done.returncode == 0, done.stderr
    assert "class LowtideNetPlanner final : public tflite::MicroMemoryPlanner" in done.stdout
    done = run("plan", model, "--planner", tmp_path / "x.h")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    csv = tmp_path / "a.csv"
    csv.write_text("id,lower,upper,size\na,0,3,4\n")
    done = run("plan", csv, "--memory-map", board, "--planner", "-")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--planner is for a .tflite" in done.stderr
