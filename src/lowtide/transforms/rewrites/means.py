"""A mean over whole maps as a sum of the means of parts: no part needs the whole map at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.transforms.rewrites.editing import argument, bytes_of, tensor_of

if TYPE_CHECKING:
    from lowtide.transforms.rewrites.rule import Changed, Site

_PARTS = 4


def mean_in_parts(site: Site) -> list[Changed]:
    """A mean over the last two axes, as a mean of the means of as many rows each."""
    found: list[Changed] = []
    for mean in site.edit.calls("mean"):
        source, result = tensor_of(mean.args[0]), tensor_of(mean)
        axes, keep = argument(mean, 1, "dim"), argument(mean, 2, "keepdim", False)
        if source is None or result is None or mean.kwargs or not isinstance(axes, (list, tuple)):
            continue
        rank = source.dim()
        if (
            rank < 3
            or sorted(a % rank for a in axes) != [rank - 2, rank - 1]
            or bytes_of(source) < site.worth
        ):
            continue
        rows = source.shape[-2]
        parts = next((n for n in range(_PARTS, 1, -1) if rows % n == 0), 0)
        if not parts:
            continue
        edit, total, step = site.edit, None, rows // parts
        for start in range(0, rows, step):
            cut = edit.call(
                "slice", (mean.args[0], rank - 2, start, start + step), of=mean, overload="Tensor"
            )
            part = edit.call("mean", (cut, list(axes), keep), of=mean, overload="dim")
            total = part if total is None else edit.call("add", (total, part), of=mean, overload="Tensor")
        assert total is not None
        name = mean.name
        count = edit.call("full", ([1] * max(result.dim(), 1), parts), of=mean, dtype=result.dtype)
        edit.replace(mean, edit.call("div", (total, count), of=mean, overload="Tensor"))
        found.append(((name,), f"{name} is a mean of the means of {parts} parts"))
    return found
