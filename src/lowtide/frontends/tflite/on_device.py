"""What the arena of a ``.tflite`` holds on a device: its head, its tail, and what starting takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.units import amount
from lowtide.frontends.tflite.interpreter import ALIGNMENT
from lowtide.frontends.tflite.tail import tail_of
from lowtide.frontends.tflite.targets import CORTEX_M, HOST, TARGETS
from lowtide.ir.device_memory import DeviceMemory, RamPart, check_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.frontends.tflite.interpreter import Scratch, Simulation
    from lowtide.frontends.tflite.model import Model
    from lowtide.ir.request import Request


def memory_of(
    model: Model,
    arena: Simulation,
    offsets: Sequence[int] | None,
    scratch: Sequence[Scratch],
    request: Request,
) -> DeviceMemory | None:
    """Head and tail of the arena; None if the request names no device.

    Args:
        model: as read.
        arena: as the interpreter lays it out that starts the model as it is.
        offsets: that the model carries, if any.
        scratch: what its kernels ask for, as far as it is known.
        request: which names the device.

    Raises:
        InputError: nobody knows that device.
    """
    device = request.format_options.get("device")
    if not device:
        return None
    check_device(str(device))
    tail = tail_of(model, arena, offsets, scratch, TARGETS[str(device)])
    parts = [RamPart("arena", "head", arena.head, remark="tensors, and scratch that is known")]
    parts += [
        RamPart("method", what, size, tail.counts[what], remark="in the tail")
        for what, size in tail.parts.items()
        if size
    ]
    if gap := -tail.bytes % ALIGNMENT:
        parts.append(
            RamPart("method", "gap", gap, remark=f"the arena ends at a multiple of {ALIGNMENT} bytes")
        )
    if tail.unknown:
        what = f"kernels of {', '.join(tail.unknown)}"
        parts.append(RamPart("method", what, None, remark="in the tail, if they keep anything"))
    parts.append(RamPart("file", "model", len(model.data), in_ram=False, remark="read where it is"))
    memory = DeviceMemory(
        str(device),
        "TensorFlow Lite Micro",
        tuple(parts),
        notes=("The tail is that of the reference kernels; it is computed from the interpreter's sources.",),
        least=tail.planning,
    )
    return memory.with_arena(arena.head)


def tail_remarks(
    model: Model, arena: Simulation, offsets: Sequence[int] | None, scratch: Sequence[Scratch]
) -> Iterator[str]:
    """What the arena holds besides, for people."""
    small, large = (tail_of(model, arena, offsets, scratch, target) for target in (CORTEX_M, HOST))
    yield (
        f"Beside the head the arena holds a tail of {amount(small.bytes)} on a Cortex-M, "
        f"{amount(large.bytes)} on a 64-bit host, with the reference kernels; while the interpreter plans, "
        f"it needs {amount(small.planning)} or {amount(large.planning)} in all."
    )
    if small.unknown:
        yield f"What the kernels of {', '.join(small.unknown)} keep in the tail is not known."
