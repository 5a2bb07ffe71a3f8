"""Pooling whose indices nobody reads, in parts.

``max_pool2d_with_indices`` returns where each maximum was beside the maxima, as 64-bit numbers: twice the
bytes of the result in single precision, written and never read. Run over one image, or a few channels, at a
time it needs indices of one part only, and each element of the result is computed from what it was computed
from before. Parts along the first axis that has more than one element are runs of bytes, so that neither
cutting nor joining moves any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.transforms.rewrites.editing import bytes_of, shape_of, tensor_of

if TYPE_CHECKING:
    import torch
    from torch import fx

    from lowtide.transforms.rewrites.rule import Changed, Site

_ALIGNMENT = 16
_MOST_PARTS = 16


def pool_in_parts(site: Site) -> list[Changed]:
    """Compute maxima in parts, so that few of their indices are alive at once."""
    found: list[Changed] = []
    for pool in site.edit.calls("max_pool2d_with_indices"):
        source, results = tensor_of(pool.args[0]), pool.meta["val"]
        getters = [user for user in pool.users if user.users]
        if source is None or len(getters) != 1 or getters[0].args[1:] != (0,):
            continue
        (getter,) = getters
        result = tensor_of(getter)
        if result is None or bytes_of(results[1]) < max(site.worth, 1):
            continue
        axis = next((axis for axis, size in enumerate(source.shape[:-2]) if size > 1), None)
        parts = 0 if axis is None else _parts(source, result, axis)
        if axis is None or parts < 2:
            continue
        name = getter.name
        site.edit.replace(getter, _in_parts(site, pool, getter, axis, parts))
        found.append(
            ((pool.name, name), f"{pool.name} runs in {parts} parts, since nobody reads its indices")
        )
    return found


def _parts(source: torch.Tensor, result: torch.Tensor, axis: int) -> int:
    """The most parts, of one size, that start where a tensor may; not more than are of use."""
    size = source.shape[axis]
    for count in range(min(size, _MOST_PARTS), 1, -1):
        starts = [bytes_of(tensor) // count for tensor in (source, result)]
        if size % count == 0 and not any(start % _ALIGNMENT for start in starts):
            return count
    return next((n for n in range(min(size, _MOST_PARTS), 1, -1) if size % n == 0), 0)


def _in_parts(site: Site, pool: fx.Node, getter: fx.Node, axis: int, count: int) -> fx.Node:
    shape = shape_of(pool.args[0])
    assert shape is not None
    step = shape[axis] // count
    parts = []
    for start in range(0, shape[axis], step):
        cut = site.edit.call("slice", (pool.args[0], axis, start, start + step), of=pool, overload="Tensor")
        part = site.edit.call_again(pool, (cut, *pool.args[1:]))
        parts.append(site.edit.first_of(part, of=pool))
    return site.edit.call("cat", (parts, axis), of=getter)
