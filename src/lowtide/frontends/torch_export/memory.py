"""Storages and values while a Program is being built."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from lowtide.errors import UnsupportedError
from lowtide.frontends.torch_export.effects import Leaf, has_memory
from lowtide.frontends.torch_export.sizes import Bounds, Extent, dtype_of, extent_bytes, layout_key, shape_of
from lowtide.problem import align_up
from lowtide.program import Storage, StorageKind, Value

if TYPE_CHECKING:
    from collections.abc import Iterable


class Memory:
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
        layout = layout_key(tensor, extent) if all(self._extents[r] == extent for r in roots) else ""
        self.fakes[len(self.values)] = tensor
        return self._add(Value(name, region, len(self.storages) - 1, roots, layout), extent)

    def view(self, name: str, region: int, tensor: torch.Tensor, base: int) -> int:
        """A new value that is, or lies inside, another's bytes.

        Raises:
            UnsupportedError: it reaches beyond them.
        """
        require_memory(name, tensor)
        root = self._roots[base]
        extent, mine = self._extents[root], extent_bytes(tensor)
        if isinstance(extent, int) and isinstance(mine, int) and mine > extent:
            raise UnsupportedError(
                f"value {name!r} spans {mine} bytes, but {self.values[root].name!r}, of which it is a view, "
                f"only {extent}: pass the whole tensor to the program, not a part of it"
            )
        layout = layout_key(tensor, extent) if extent is not None else ""
        position = self._add(Value(name, region, None, (root,), layout), None)
        self._roots[position] = root
        return position

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


def require_memory(name: str, tensor: torch.Tensor) -> None:
    """Refuse a tensor that is not plain memory, by name."""
    if not has_memory(tensor):
        what = f"a {tensor.layout} tensor" if tensor.layout != torch.strided else "inside vmap"
        raise UnsupportedError(
            f"value {name!r} is {what}, and only dense memory can be planned: "
            "decompose the program first, with ExportedProgram.run_decompositions()"
        )
