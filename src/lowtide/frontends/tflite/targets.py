"""How large the interpreter's own structures are: computed by compilers, for each kind of target.

From the sources of August 2026, without compression and recording: for 64-bit Linux with g++ 12, and for
Cortex-M with ``arm-none-eabi-g++`` 12, whose enumerations are as short as they can be. Where enumerations
have four bytes, a few structures are larger: each input or output by 8 bytes, options by up to 11.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Target:
    """Bytes of structures on one kind of target; each is aligned to a word.

    Args:
        name: as ``device_memory.DEVICES`` has it.
        word: of a pointer.
        arena: ``SingleArenaBufferAllocator``.
        planner: ``GreedyMemoryPlanner``.
        allocator: ``MicroAllocator``.
        options: ``MicroBuiltinDataAllocator``.
        subgraph: ``SubgraphAllocations``.
        tensor: ``TfLiteEvalTensor``, of every tensor.
        outer: ``TfLiteTensor``, of inputs and outputs besides.
        quantization: ``TfLiteAffineQuantization``, of those that are quantized.
        node: ``NodeAndRegistration``.
        resources: ``MicroResourceVariables``.
        resource: each of these.
        handle: ``ScratchBufferHandle``.
        request: ``ScratchBufferRequest``, while operators are prepared.
        info: ``AllocationInfo``, while the arena is planned.
    """

    name: str
    word: int
    arena: int
    planner: int
    allocator: int
    options: int
    subgraph: int
    tensor: int
    outer: int
    quantization: int
    node: int
    resources: int
    resource: int
    handle: int
    request: int
    info: int


HOST = Target(
    "host",
    word=8,
    arena=72,
    planner=72,
    allocator=72,
    options=16,
    subgraph=16,
    tensor=24,
    outer=64,
    quantization=24,
    node=64,
    resources=16,
    resource=40,
    handle=8,
    request=16,
    info=32,
)

CORTEX_M = Target(
    "cortex-m",
    word=4,
    arena=36,
    planner=44,
    allocator=36,
    options=8,
    subgraph=8,
    tensor=12,
    outer=32,
    quantization=12,
    node=32,
    resources=12,
    resource=20,
    handle=4,
    request=12,
    info=24,
)

PACKAGE = replace(HOST, name="package", arena=104, allocator=272, subgraph=24)
"""The interpreter of the ``tflite-micro`` package: of 64 bits, with compression, recording allocations."""

TARGETS = {target.name: target for target in (HOST, CORTEX_M)}
"""Those that firmware runs on, by name."""
