"""All the memory that a source takes on the device that was asked for, and a limit held against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.errors import InputError
from lowtide.report.budget import Budget

if TYPE_CHECKING:
    from lowtide.frontends.front_end import Source
    from lowtide.ir.device_memory import DeviceMemory
    from lowtide.ir.plan import Plan


def told_memory(source: Source, plan: Plan | None = None) -> DeviceMemory | None:
    """What a source takes on the device that its request names; None if it names none.

    Args:
        source: which was loaded for a device.
        plan: a new one of it, whose arena counts if the source came without any.

    Raises:
        InputError: it names one, and the source's format does not tell.
    """
    if source.device_memory is None and source.request.format_options.get("device"):
        raise InputError(
            f"{source.file or 'this'}: what a device takes beside its arenas is told by .pte and .tflite "
            "files only: leave out --device"
        )
    if source.device_memory is None or plan is None or source.plan is not None:
        return source.device_memory
    return source.device_memory.with_arena(plan.arena_bytes)


def check_ram(source: Source, plan: Plan, limit: int) -> Budget:
    """Hold everything that a source takes in RAM against a limit.

    Args:
        source: which was loaded for a device.
        plan: of it, its own or a new one, whose arenas then count; what is proved of them says how small the
            whole can be.
        limit: bytes.

    Raises:
        InputError: the source was not loaded for a device, or does not tell.
    """
    memory = told_memory(source, plan)
    if memory is None:
        raise InputError("a limit for all RAM needs to know the device: give --device cortex-m or host")
    size = memory.ram_bytes
    smallest = memory.with_arena(plan.lower_bound_bytes).ram_bytes
    return Budget(None, limit, size, min(size, smallest), "ram", memory.untold)
