"""Storages and values while a Program is being built."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from lowtide.base.errors import UnsupportedError
from lowtide.frontends.torch_export.effects import Leaf
from lowtide.ir.problem import align_up
from lowtide.ir.program import Storage, StorageKind, Value
from lowtide.operators.conjugates import mark_of
from lowtide.operators.sizes import (
    Bounds,
    Extent,
    dtype_of,
    extent_bytes,
    extent_of,
    has_memory,
    layout_key,
    shape_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class Storages:
    """Grows the lists of storages and values, and keeps what each value covers.

    A view refers straight to the value that has the memory, however many views lie between: chains of
    thousands of in-place operators stay flat.
    """

    def __init__(self, alignment: int, bounds: Bounds) -> None:
        self.storages: list[Storage] = []
        self.values: list[Value] = []
        self.bound: list[tuple[int, int]] = []
        """Pairs (parameter, value that some call passes for it)."""
        self.fakes: dict[int, torch.Tensor] = {}
        """The tensor that each value with a storage of its own was made for."""
        self.parts: set[int] = set()
        """Values whose first element is not the first of the storage that torch keeps them in."""
        self._alignment = alignment
        self._bounds = bounds
        self._extents: list[Extent | None] = []
        self._roots: list[int] = []

    def own(
        self,
        name: str,
        region: int,
        tensor: torch.Tensor,
        kind: StorageKind = "temporary",
        aliases: Iterable[int] = (),
        operator: str | None = None,
        source: str | None = None,
    ) -> int:
        """A new value with a storage of its own; with ``aliases``, its bytes may be theirs instead."""
        require_memory(name, tensor)
        size = self._bounds.bytes_of(tensor, self._alignment)
        self.storages.append(
            Storage(
                name=name,
                size=size,
                kind=kind,
                region=region,
                planned=size is not None and kind != "constant",
                alignment=self._alignment,
                dtype=dtype_of(tensor),
                shape=shape_of(tensor),
                operator=operator,
                source=source,
            )
        )
        roots = tuple(dict.fromkeys(self._roots[a] for a in aliases))
        extent = extent_bytes(tensor)
        layout = _layout(tensor, extent) if all(self._extents[r] == extent for r in roots) else ""
        self.fakes[len(self.values)] = tensor
        if extent_of(tensor.storage_offset()) != 0:
            self.parts.add(len(self.values))
        return self._add(Value(name, region, len(self.storages) - 1, roots, layout), extent)

    def view(self, name: str, region: int, tensor: torch.Tensor, base: int) -> int:
        """A new value that is, or lies inside, another's bytes.

        Raises:
            UnsupportedError: it reaches beyond them.
        """
        require_memory(name, tensor)
        root = self._roots[base]
        extent, mine = self._extents[root], extent_bytes(tensor)
        start = self._distance(tensor, root)
        known = isinstance(extent, int) and isinstance(mine, int)
        if known and mine and not 0 <= start <= extent - mine:  # an empty view may be anywhere
            raise UnsupportedError(
                f"value {name!r} spans bytes {start} to {start + mine} of {self.values[root].name!r}, of "
                f"which it is a view, and that has {extent}: pass the whole tensor to the program, not a "
                "part of it"
            )
        layout = _layout(tensor, extent) if extent is not None else ""
        position = self._add(Value(name, region, None, (root,), layout), None)
        self._roots[position] = root
        return position

    def require_start(self, node: str, base: int) -> None:
        """Refuse an offset that counts from the start of torch's storage where the program has only a part.

        Raises:
            UnsupportedError: naming the node that has the offset, and the part.
        """
        root = self._roots[base]
        if root in self.parts:
            raise UnsupportedError(
                f"node {node!r}: its offset counts from the start of a tensor of which "
                f"{self.values[root].name!r} is a part: pass the whole tensor to the program"
            )

    def _distance(self, tensor: torch.Tensor, root: int) -> int:
        """Bytes from the start of a value to a view of it; 0 where the fake tensors do not tell."""
        base = self.fakes.get(root)
        if base is None or tensor.untyped_storage()._cdata != base.untyped_storage()._cdata:
            return 0
        offsets = extent_of(tensor.storage_offset()), extent_of(base.storage_offset())
        if not all(isinstance(offset, int) for offset in offsets):
            return 0
        return int(offsets[0] * tensor.itemsize - offsets[1] * base.itemsize)

    def place(
        self,
        name: str,
        region: int,
        tensor: torch.Tensor,
        leaf: Leaf,
        kind: StorageKind = "temporary",
        operator: str | None = None,
        source: str | None = None,
    ) -> int:
        """A new value where a node's effect says that it lies."""
        if not leaf.owns:
            return self.view(name, region, tensor, leaf.aliases[0])
        return self.own(name, region, tensor, kind, leaf.aliases, operator, source)

    def parameter(self, name: str, region: int, tensor: torch.Tensor | None) -> int:
        """A new value that every call binds anew; ``tensor`` is None if it holds none."""
        return self._add(Value(name, region), None if tensor is None else extent_bytes(tensor))

    def scratch(self, name: str, region: int, size: int, source: str | None) -> int:
        """A new storage that no value names; position of the storage."""
        rounded = align_up(size, self._alignment)
        self.storages.append(
            Storage(name, rounded, "scratch", region, alignment=self._alignment, source=source)
        )
        return len(self.storages) - 1

    def covers(self, position: int) -> bool:
        """Whether a write of the whole value is a write of a whole storage, as far as is known."""
        root = self.values[self._roots[position]]
        return bool(self.values[position].layout) and root.storage is not None and not root.aliases

    def points_to(self) -> list[set[int]]:
        """For each value, the storages that it may lie in, parameters followed to all their callers."""
        found = [{v.storage} if v.storage is not None else set() for v in self.values]
        changed = True
        while (
            changed
        ):  # parameters refer to callers that may come later in the list; nesting bounds the rounds
            changed = False
            links = [(i, a) for i, v in enumerate(self.values) for a in v.aliases]
            for value, origin in (*self.bound, *links):
                if not found[origin] <= found[value]:
                    found[value] |= found[origin]
                    changed = True
        return found

    def change(self, storage: int, **fields: object) -> None:
        """Replace fields of a storage."""
        self.storages[storage] = replace(self.storages[storage], **fields)  # type: ignore[arg-type]

    def _add(self, value: Value, extent: Extent | None) -> int:
        self.values.append(value)
        self._extents.append(extent)
        self._roots.append(len(self.values) - 1)
        return len(self.values) - 1


def _layout(tensor: torch.Tensor, extent: Extent) -> str:
    """Its layout key; what is not computed yet is laid out unlike what is."""
    key = layout_key(tensor, extent)
    return mark_of(tensor) + key if key else ""


def require_memory(name: str, tensor: torch.Tensor) -> None:
    """Refuse a tensor that is not plain memory, by name."""
    if has_memory(tensor):
        return
    if tensor.layout != torch.strided:
        raise UnsupportedError(
            f"value {name!r} is a {tensor.layout} tensor, and only dense memory can be planned: "
            "keep its values and indices in dense tensors"
        )
    raise UnsupportedError(
        f"value {name!r} is inside vmap, and only dense memory can be planned: "
        "decompose the program first, with ExportedProgram.run_decompositions()"
    )
