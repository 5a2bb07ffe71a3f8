"""A pad that lies behind a map only, dissolved: the border is computed apart, from a small padded strip.

TensorFlow pads at the back alone where a stride leaves one element over. The copy of the whole map that this
takes is as large as the map itself. Without it, a convolution computes all of its result but the last rows
and columns. These need the last rows and columns of the map only, which are padded as strips; each is put
beside the rest. Every element is computed once, of the same numbers in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowtide.transforms.rewrites.editing import bytes_of, operator_name, shape_of
from lowtide.transforms.rewrites.pads import pairs_of, window_of

if TYPE_CHECKING:
    from torch import fx

    from lowtide.transforms.rewrites.rule import Changed, Site


@dataclass(frozen=True)
class _Axis:
    """How an axis is cut.

    Args:
        padding: of the convolution without the border.
        most: elements of the result that are computed without the border.
        windows: elements of the result.
        start: of the strip, in the map.
        size: of the map.
        behind: zeros behind the strip.
    """

    padding: int
    most: int
    windows: int
    start: int
    size: int
    behind: int


def cut_borders(site: Site) -> list[Changed]:
    """Convolve a padded map without its pad, and its border apart."""
    found: list[Changed] = []
    for pad in site.edit.calls("constant_pad_nd"):
        users = list(pad.users)
        shape = shape_of(pad.args[0])
        if len(users) != 1 or operator_name(users[0]) != "convolution" or users[0].args[0] is not pad:
            continue
        if shape is None or len(shape) != 4 or bytes_of(pad.meta["val"]) < site.worth:
            continue
        (convolution,) = users
        axes = _axes_of(site, pad, convolution, shape)
        if axes is not None:
            names = (pad.name, convolution.name)
            site.edit.replace(convolution, _apart(site, pad.args[0], convolution, axes))
            found.append((names, f"{names[1]} computes what {names[0]} padded apart from the rest"))
    return found


def _axes_of(
    site: Site, pad: fx.Node, convolution: fx.Node, shape: tuple[int, ...]
) -> tuple[_Axis, _Axis] | None:
    """How both axes are cut; None if the pad does not lie behind the map, or is read as a whole anyway."""
    window, pairs = window_of(convolution, site.constants), pairs_of(pad, 2)
    if window is None or pairs is None or (len(pad.args) > 2 and pad.args[2] != 0):
        return None
    found = []
    for axis, ((front, back), size) in enumerate(zip(pairs, shape[2:], strict=True)):
        stride, padding = window.stride[axis], window.padding[axis] + front
        reach = window.dilation[axis] * (window.size[axis] - 1) + 1
        windows = (size + front + back + 2 * window.padding[axis] - reach) // stride + 1
        most = min((size + 2 * padding - reach) // stride + 1, windows)
        start = most * stride - padding
        behind = (windows - 1) * stride + reach - padding - size
        fits = (size + 2 * padding - reach) // stride + 1 == most
        if most < 1 or not fits or (most < windows and (start < 0 or start >= size or behind < 0)):
            return None
        found.append(_Axis(padding, most, windows, start, size, behind))
    rows, columns = found
    is_cut = rows.most < rows.windows or columns.most < columns.windows
    return (rows, columns) if is_cut else None


def _apart(site: Site, source: fx.Node, convolution: fx.Node, axes: tuple[_Axis, _Axis]) -> fx.Node:
    edit, (rows, columns) = site.edit, axes

    def convolve(map: fx.Node, padding: list[int]) -> fx.Node:
        return edit.call_again(convolution, (map, *convolution.args[1:4], padding, *convolution.args[5:]))

    def strip(axis: int, cut: _Axis, pads: list[int]) -> fx.Node:
        part = edit.call("slice", (source, axis, cut.start, cut.size), of=convolution, overload="Tensor")
        return edit.call("constant_pad_nd", (part, pads, 0.0), of=convolution)

    # The strips come first, so that the map may go when the rest is there.
    right: Any = None
    below: Any = None
    if columns.most < columns.windows:
        right = convolve(strip(3, columns, [0, columns.behind]), [rows.padding, 0])
    if rows.most < rows.windows:
        behind = max(columns.behind, 0)
        below = convolve(strip(2, rows, [columns.padding, behind, 0, rows.behind]), [0, 0])
    whole = convolve(source, [rows.padding, columns.padding])
    missing = [0, columns.windows - columns.most, 0, rows.windows - rows.most]
    whole = edit.call("constant_pad_nd", (whole, missing, 0.0), of=convolution)
    if right is not None:
        if rows.most < rows.windows:  # of the height of the rest, as it is below
            right = edit.call("constant_pad_nd", (right, [0, 0, 0, missing[3]], 0.0), of=convolution)
        place = (3, columns.most, columns.windows)
        whole = edit.call("slice_scatter", (whole, right, *place), of=convolution)
    if below is not None:
        place = (2, rows.most, rows.windows)
        whole = edit.call("slice_scatter", (whole, below, *place), of=convolution)
    return whole
