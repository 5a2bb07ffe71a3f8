"""Which colour each buffer has, by kind, operator, region or size: the same in every picture."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lowtide.base.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lowtide.ir.problem import Buffer
    from lowtide.outputs.picture.drawing import Picture

By = Literal["kind", "operator", "region", "size"]
WAYS: tuple[By, ...] = ("kind", "operator", "region", "size")

Theme = Literal["light", "dark"]

CATEGORIES: dict[Theme, tuple[str, ...]] = {
    "light": (
        "#6f9fd8", "#53b18a", "#f0a24e", "#a184d6", "#3fb3bf", "#e07fa5", "#b59a74", "#d9695f", "#8aa84b",
    ),
    "dark": (
        "#5487c4", "#3f9c78", "#d98a35", "#8d6fc6", "#2f9faa", "#cc688f", "#9c8260", "#c9574e", "#789539",
    ),
}  # fmt: skip
OTHER: dict[Theme, str] = {"light": "#b4bcc6", "dark": "#66717e"}
SIZES: dict[Theme, tuple[str, ...]] = {
    "light": ("#dfe9c8", "#b5dcbb", "#7fcac0", "#4ba8c4", "#3c7fb9", "#3f559f", "#44307c"),
    "dark": ("#45317b", "#405aa3", "#3b7db4", "#3f9dba", "#55bcb0", "#9bd29a", "#e3e694"),
}
"""From the smallest to the largest."""

_KINDS = ("temporary", "input", "output", "state", "result", "carry", "scratch")


@dataclass(frozen=True)
class Colouring:
    """A group for every buffer, and a colour for every group.

    Args:
        by: what the groups are made of.
        labels: name of each group.
        groups: position of each buffer's group, in the order of the problem's buffers.
        light, dark: ``#rrggbb`` of each group.
    """

    by: By
    labels: tuple[str, ...]
    groups: tuple[int, ...]
    light: tuple[str, ...]
    dark: tuple[str, ...]

    def colours(self, theme: Theme) -> tuple[str, ...]:
        """``#rrggbb`` of each group."""
        return self.light if theme == "light" else self.dark


def colour(picture: Picture, by: By) -> Colouring:
    """Group the buffers of a picture.

    Kinds keep their colours in all pictures. Of operators and regions those that hold the most bytes have
    a colour, and the others share one. Sizes fall into seven classes, each a factor of four or more wide.
    """
    buffers = picture.plan.problem.buffers
    if by == "size":
        return _by_size(buffers)
    if by == "kind":
        return _by_kind(buffers)
    if by == "operator":
        return _largest(by, buffers, lambda buffer: short_operator(buffer.operator))
    return _largest(by, buffers, lambda buffer: buffer.region)


def short_operator(operator: str | None) -> str:
    """``conv2d`` for ``aten.conv2d.default`` and for ``aten::conv2d.out``."""
    if operator is None:
        return "no operator"
    space, _, name = operator.rpartition("::")
    parts = name.split(".")
    return parts[-2] if len(parts) > 2 and not space else parts[0]


def short_name(name: str) -> str:
    """``mul`` for ``root/true_graph_0/mul``; fit to be shown."""
    return printable(name.rsplit("/", 1)[-1] or name)


def printable(text: str) -> str:
    """The text on one line, whatever characters it has: those that cannot be shown are replaced."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def _by_kind(buffers: Sequence[Buffer]) -> Colouring:
    present = {buffer.kind for buffer in buffers}
    known = [kind for kind in _KINDS if kind in present]
    labels = (*known, *sorted(present - set(known)))
    index = {label: i for i, label in enumerate(labels)}
    places = [_KINDS.index(label) if label in known else None for label in labels]
    return Colouring(
        by="kind",
        labels=tuple(map(printable, labels)),
        groups=tuple(index[buffer.kind] for buffer in buffers),
        light=tuple(OTHER["light"] if place is None else CATEGORIES["light"][place] for place in places),
        dark=tuple(OTHER["dark"] if place is None else CATEGORIES["dark"][place] for place in places),
    )


def _largest(by: By, buffers: Sequence[Buffer], key: Callable[[Buffer], str]) -> Colouring:
    total: dict[str, int] = defaultdict(int)
    for buffer in buffers:
        total[key(buffer)] += buffer.size
    ranked = sorted(total, key=lambda label: (-total[label], label))
    shown = len(CATEGORIES["light"])
    if len(ranked) == shown + 1:
        shown -= 1  # "others" stands for two at least
    labels = ranked[:shown]
    index = {label: i for i, label in enumerate(labels)}
    more = len(ranked) - len(labels)
    if more:
        labels.append(f"{more} others")
    return Colouring(
        by=by,
        labels=tuple(map(printable, labels)),
        groups=tuple(index.get(key(buffer), len(index)) for buffer in buffers),
        light=(*CATEGORIES["light"][: len(index)], *((OTHER["light"],) if more else ())),
        dark=(*CATEGORIES["dark"][: len(index)], *((OTHER["dark"],) if more else ())),
    )


def _by_size(buffers: Sequence[Buffer]) -> Colouring:
    """Classes of equal width in powers of four, the highest holding the largest buffer."""
    classes = len(SIZES["light"])
    sizes = [buffer.size for buffer in buffers if buffer.size]
    low, high = (min(sizes), max(sizes)) if sizes else (1, 1)
    step = 2  # powers of two that a class is wide
    while (high.bit_length() - 1) // step - (low.bit_length() - 1) // step >= classes:
        step += 1
    top = (high.bit_length() - 1) // step

    def class_of(size: int) -> int:
        return max(0, classes - 1 - (top - (max(size, 1).bit_length() - 1) // step))

    present = sorted({class_of(buffer.size) for buffer in buffers})
    index = {found: i for i, found in enumerate(present)}
    labels = []
    for found in present:
        power = top - (classes - 1 - found)
        least = format_size(2 ** (step * max(0, power))).replace(".0 ", " ")
        labels.append(f"{least} and more" if found else "smaller")
    return Colouring(
        by="size",
        labels=tuple(labels),
        groups=tuple(index[class_of(buffer.size)] for buffer in buffers),
        light=tuple(SIZES["light"][found] for found in present),
        dark=tuple(SIZES["dark"][found] for found in present),
    )


def telling_way(picture: Picture) -> By:
    """The first way that tells buffers apart, operators before kinds; ``kind`` if none does."""
    order: tuple[By, ...] = ("operator", "kind", "region", "size")
    return next((by for by in order if len(colour(picture, by).labels) > 1), "kind")
