"""What loading a method takes, against what ExecuTorch's own runtime was seen to take.

``tools/executorch_memory`` made the figures and the programs; ``docs/runtime-memory.md`` says how.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lowtide.frontends.pte.allocating import Target, allocations, filled
from lowtide.frontends.pte.delegates import XNNPACK
from lowtide.frontends.pte.methods import Method, methods_of
from lowtide.frontends.pte.on_device import Loading, device_memory, runner_pools
from lowtide.frontends.pte.reading import PteFile, program_decoder
from lowtide.frontends.pte.structures import DEVICES, RUNTIMES
from lowtide.frontends.pte.temporaries import HANDLES, asks_for

DATA = Path(__file__).parents[2] / "data"
MEASURED = json.loads((DATA / "runtime_memory.json").read_text())
FAILED = 33
"""``Error::MemoryAllocationFailed``."""


@cache
def programs() -> dict[str, bytes]:
    """The measured programs by name."""
    with tarfile.open(DATA / "runtime_memory.tar.xz") as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}


@cache
def loaded(name: str) -> tuple[PteFile, dict[str, Method]]:
    """A program, which has no segments here, and its methods."""
    data = programs()[name]
    program = program_decoder().decode(data, "Program")
    return PteFile(name, data, program, len(data), 0), {m.name: m for m in methods_of(program, name)}


def digest(sizes: Iterator[tuple[str, int, int]]) -> str:
    """Of every size and alignment in order, as the counting allocator makes it."""
    found = 0xCBF29CE484222325
    for _, size, alignment in sizes:
        for part in (size, alignment):
            found = ((found ^ part) * 0x100000001B3) % 2**64
    return f"{found:016x}"


def target_of(build: str, pool: str) -> Target:
    device, version, origin = build.split(", ", 2)
    (runtime,) = [known for known in RUNTIMES if known.version == version]
    handles = {XNNPACK: HANDLES[XNNPACK][device]} if "XNNPACK" in origin else {}
    return Target(DEVICES[device], runtime, None if pool == "none" else int(pool), handles)


def predicted(file: PteFile, method: Method, target: Target) -> Any:
    """The figures that were measured, as Lowtide tells them."""
    looked_up = [
        filled(target.lookup(method, call))
        for call in method.instructions
        if call.kind == "kernel" and target.looks_up_in_pool(method, call)
    ]
    temporary = max(looked_up, default=0)
    if temporary > (target.pool or 0):
        return FAILED
    made = list(allocations(file, method, target))
    runner = dict(runner_pools(file, method, target))["ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE"]
    return [filled(made), len(made), digest(iter(made)), temporary, runner]


def test_every_structure_is_as_large_as_in_the_headers() -> None:
    for build, measured in MEASURED["structures"].items():
        device = build.partition(",")[0]
        assert {name: list(known) for name, known in DEVICES[device].items()} == measured
    versions = {tuple(build.split(", ")[:2]) for build in MEASURED["structures"]}
    assert versions == {(device, runtime.version) for device in DEVICES for runtime in RUNTIMES}


@pytest.mark.parametrize("kind", sorted({name.partition("-")[0] for name in programs()}))
def test_every_load_takes_what_the_runtime_took(kind: str) -> None:
    count = 0
    for name, groups in MEASURED["methods"].items():
        if not name.startswith(f"{kind}-"):
            continue
        path, _, method = name.partition(": ")
        file, methods = loaded(path)
        for builds, by_pool in groups:
            for build in builds:
                for pool, measured in by_pool.items():
                    assert predicted(file, methods[method], target_of(build, pool)) == measured, (name, build)
                    count += 1
    assert count >= 150


def test_temporary_memory_of_kernels_that_were_run() -> None:
    asked = {}
    for name in MEASURED["ran"]:
        path, _, method = name.partition(": ")
        file, methods = loaded(path)
        ours = [
            asks_for(file, methods[method], call, DEVICES["host"]["pointer"])
            for call in methods[method].instructions
            if call.kind == "kernel"
        ]
        asked[name] = max((one.size for one in ours if one is not None), default=0)
    assert asked == MEASURED["ran"]
    assert sum(size > 0 for size in asked.values()) == 1


@pytest.mark.parametrize("device", sorted(DEVICES))
def test_parts_add_up_to_what_the_runtime_took(device: str) -> None:
    """With a pool that was found to be large enough, on every program that is loaded without a delegate."""
    from lowtide.frontends.pte.analysis import analyse

    count = 0
    for name in programs():
        file, methods = loaded(name)
        if any(method.plan.delegates for method in methods.values()):
            continue
        analyses = analyse(file)
        for analysis in analyses:
            count += 1
            target = Target(DEVICES[device], RUNTIMES[-1], 0)
            loading = Loading(device, target, given=False, copied=False, note="")
            found = device_memory(file, analysis, analyses, loading)
            groups = MEASURED["methods"][f"{name}: {analysis.method.name}"]
            (by_pool,) = [by for builds, by in groups if f"{device}, 1.5, source" in builds]
            size, *_, runner = by_pool[str(1 << 20)]
            assert found.pool_bytes("method") == size
            assert found.pool_bytes("arena") == sum(analysis.method.arenas.values())
            if device == "cortex-m":
                assert dict(found.settings)["ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE"] == runner
    assert count > 140
