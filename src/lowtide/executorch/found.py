"""One block of bytes of an ExecuTorch program: how large it is, and whose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import fx

from lowtide.base.errors import UnsupportedError
from lowtide.executorch.arenas import device_name, device_of
from lowtide.executorch.specs import size_of
from lowtide.ir.program import StorageKind


@dataclass(frozen=True, slots=True)
class Found:
    """A storage as it is met in the graphs, before all of its uses are known.

    Args:
        members: the specs that are it; the first stands for it.
        region: position of the region that it is met in.
        name: qualified by region.
        kind: what it is for.
        node: the node that makes it, if one does.
    """

    members: tuple[Any, ...]
    region: int
    name: str
    kind: StorageKind
    node: fx.Node | None

    def size(self, alignment: int) -> int | None:
        """Bytes of the largest member; None if one has no bound."""
        sizes = [size_of(spec, alignment) for spec in self.members]
        bounded = [size for size in sizes if size is not None]
        return max(bounded) if len(bounded) == len(sizes) else None

    def deciding(self, device_aware: bool) -> Any:
        """The spec that decides on the pool: the first that a custom pass gave a memory id."""
        if device_aware and len(self.members) > 1 and len(set(map(device_of, self.members))) > 1:
            devices = " and ".join(dict.fromkeys(map(device_name, self.members)))
            raise UnsupportedError(
                f"tensor {self.name}: it is one with what other graphs return, and these are on {devices}: "
                "keep all of them on one device"
            )
        return next((spec for spec in self.members if spec.mem_id is not None), self.members[0])
