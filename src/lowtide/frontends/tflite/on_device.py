"""What the arena of a ``.tflite`` holds on a device, as far as the file tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.units import amount
from lowtide.ir.device_memory import DeviceMemory, RamPart, check_device

if TYPE_CHECKING:
    from lowtide.frontends.tflite.interpreter import Simulation
    from lowtide.frontends.tflite.model import Model
    from lowtide.ir.request import Request


def memory_of(model: Model, simulation: Simulation, request: Request) -> DeviceMemory | None:
    """Head and variables of the arena; None if the request names no device.

    Args:
        model: as read.
        simulation: of the interpreter that starts it as it is.
        request: which names the device.

    Raises:
        InputError: nobody knows that device.
    """
    device = request.format_options.get("device")
    if not device:
        return None
    check_device(str(device))
    head, temporaries = simulation.head, simulation.temporaries
    variables = sum(tensor.size for tensor in model.tensors if tensor.variable)
    parts = [RamPart("arena", "head", head, remark="tensors and scratch that is known")]
    if device == "host":
        more = max(0, temporaries - head)
        remark = f"{amount(temporaries)} in place of the head, while the interpreter plans"
        parts.append(RamPart("temporary", "more than the head", more, remark=remark))
        note = "The interpreter's own structures lie in the same arena, in its tail."
    else:
        note = (
            "The interpreter's structures, and what it needs while it plans, are told of 64-bit hosts only."
        )
    if variables:
        parts.append(RamPart("method", "variables", variables, remark="in the tail"))
    parts.append(RamPart("method", "the interpreter's structures", None, remark="in the tail"))
    parts.append(RamPart("file", "model", len(model.data), in_ram=False, remark="read where it is"))
    return DeviceMemory(str(device), "TensorFlow Lite Micro", tuple(parts), notes=(note,))
