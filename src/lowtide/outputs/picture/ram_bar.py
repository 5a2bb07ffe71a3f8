"""All RAM of a device as one bar: a share for each pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.outputs.wording import POOLS, ram_sentence

if TYPE_CHECKING:
    from lowtide.ir.device_memory import DeviceMemory


@dataclass(frozen=True, slots=True)
class RamBar:
    """What the bar shows.

    Args:
        title: which device, and how much in all.
        shares: name and bytes of every pool that has any, in the order in which they lie side by side.
    """

    title: str
    shares: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        """Of all shares together."""
        return sum(size for _, size in self.shares)


def ram_bar(memory: DeviceMemory) -> RamBar:
    """The bar of everything that is in RAM, as far as it is told."""
    shares = ((name, memory.pool_bytes(pool)) for pool, name in POOLS.items())
    return RamBar(ram_sentence(memory), tuple((name, size) for name, size in shares if size))
