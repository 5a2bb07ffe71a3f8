"""Which arena a spec goes to: memory ids that a pass assigned, and devices with memory of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from executorch.exir.schema import DeviceType, NonConstBufferDevice

from lowtide.base.constants import DEFAULT_ARENA

Device = tuple[Any, int]
_CPU: Device = (DeviceType.CPU, 0)


def memory_id_of(spec: Any) -> int:
    """The memory id that a custom pass assigned, or the default."""
    return DEFAULT_ARENA if spec.mem_id is None else int(spec.mem_id)


@dataclass(frozen=True)
class Arenas:
    """Memory ids of a method.

    Memory of the CPU keeps the ids that it was given; each pool of another device gets one behind them, in
    the order of device, index and the id that it was given.

    Args:
        by_pool: for pools that are not the CPU's, the id that they get.
    """

    by_pool: Mapping[tuple[Device, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, specs: Iterable[Any], device_aware: bool) -> Arenas:
        """Arenas for all the specs that are planned.

        Args:
            specs: those of every graph of the method.
            device_aware: whether devices have memory of their own; if not, all is the CPU's.
        """
        if not device_aware:
            return cls()
        pools = {(device_of(spec), memory_id_of(spec)) for spec in specs}
        last = max((id for device, id in pools if device == _CPU), default=0)
        others = sorted(
            (pool for pool in pools if pool[0] != _CPU), key=lambda p: (p[0][0].value, p[0][1], p[1])
        )
        return cls({pool: last + 1 + i for i, pool in enumerate(others)})

    def id_of(self, spec: Any) -> int:
        """Memory id of the arena that a spec goes to."""
        return self.by_pool.get((device_of(spec), memory_id_of(spec)), memory_id_of(spec))

    def devices(self) -> list[Any] | None:
        """What the emitter writes down about arenas that are not the CPU's; None if there are none."""
        if not self.by_pool:
            return None
        return [
            NonConstBufferDevice(buffer_idx=id, device_type=device[0], device_index=device[1])
            for (device, _), id in self.by_pool.items()
        ]


def device_of(spec: Any) -> Device:
    """The device that a spec's tensor is on."""
    return spec.device, spec.device_index


def device_name(spec: Any) -> str:
    """The device for people: ``CUDA:1``."""
    return f"{spec.device.name}:{spec.device_index}"
