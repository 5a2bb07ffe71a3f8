"""Which buffer of one plan is which of another, even though names have shifted.

An exporter numbers its nodes (``add_12``), so one operator more in a model renames all that follow. A
buffer is therefore known by what it is: its region, its operator, the module and function that it comes
from, and its name without a running number; buffers that are alike in all this are matched in the order
of their lives, those of equal size and shape first. Where no operator is known (a list of buffers), the
name is all there is, and is taken as it stands.
"""

from __future__ import annotations

import re
from collections import defaultdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from lowtide.ir.problem import Buffer

_NUMBER = re.compile(r"_\d+(?=$|[./])")
_LINE = re.compile(r":\d+ in ")

LARGEST = 2_000
"""Buffers alike in everything but size and shape, above which they are matched in order and not aligned."""


def match(old: Sequence[Buffer], new: Sequence[Buffer]) -> list[tuple[int | None, int | None]]:
    """Pairs of positions, ``(old, new)``; None on the side where a buffer has no counterpart.

    Pairs come in the order of the new buffers' lives, those that went at the end.
    """
    pairs: list[tuple[int, int]] = []
    mine, theirs = _groups(old), _groups(new)
    for key in mine.keys() & theirs.keys():
        pairs += _align(old, mine[key], new, theirs[key])
    _by_name(old, new, pairs)
    matched = {b: a for a, b in pairs}
    gone = sorted(set(range(len(old))) - {a for a, _ in pairs}, key=lambda i: _order(old[i]))
    here = sorted(range(len(new)), key=lambda i: _order(new[i]))
    return [*((matched.get(b), b) for b in here), *((a, None) for a in gone)]


def _order(buffer: Buffer) -> tuple[int, str]:
    return buffer.lifetime[0][0], buffer.id


def _groups(buffers: Sequence[Buffer]) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = defaultdict(list)
    for position in sorted(range(len(buffers)), key=lambda i: _order(buffers[i])):
        found[_kin(buffers[position])].append(position)
    return found


def _kin(buffer: Buffer) -> Hashable:
    """What a buffer keeps when others come and go before it, and when lines of code move."""
    if buffer.operator is None:
        return buffer.label
    name = _NUMBER.sub("", buffer.label)
    source = _LINE.sub(" in ", buffer.source or "")
    return _NUMBER.sub("", buffer.region), name, buffer.operator, source


def _align(
    old: Sequence[Buffer], mine: Sequence[int], new: Sequence[Buffer], theirs: Sequence[int]
) -> Iterable[tuple[int, int]]:
    """Match buffers that are alike, in order: equal ones first, then what lies between them."""
    if len(mine) == len(theirs) or max(len(mine), len(theirs)) > LARGEST:
        return list(zip(mine, theirs, strict=False))
    looks = SequenceMatcher(None, [_look(old[i]) for i in mine], [_look(new[i]) for i in theirs], False)
    found = []
    for tag, a, a_end, b, b_end in looks.get_opcodes():
        if tag in ("equal", "replace"):
            found += list(zip(mine[a:a_end], theirs[b:b_end], strict=False))
    return found


def _look(buffer: Buffer) -> Hashable:
    return buffer.size, buffer.shape, buffer.dtype


def _by_name(old: Sequence[Buffer], new: Sequence[Buffer], pairs: list[tuple[int, int]]) -> None:
    """Match by whole name what is left: an operator that was replaced by another keeps its place."""
    left = set(range(len(old))) - {a for a, _ in pairs}
    names = {old[position].label: position for position in sorted(left, reverse=True)}
    taken = {b for _, b in pairs}
    for position, buffer in enumerate(new):
        if position not in taken and buffer.label in names:
            pairs.append((names.pop(buffer.label), position))
