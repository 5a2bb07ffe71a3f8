"""Changes to an exported program before it is planned, that change none of its outputs by a bit.

    >>> smaller = transform(exported, fold_constants=True, reorder=True)
    >>> smaller.program, smaller.remarks

The new program can be lowered, saved or planned as any other; the given one is left as it is.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.export import ExportedProgram

from lowtide.base.constants import ROOT
from lowtide.base.errors import InputError
from lowtide.base.units import format_size
from lowtide.ir.plan import Applied
from lowtide.pack.registry import Options as Packing
from lowtide.transforms.copying import copy_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.ir.request import Request
    from lowtide.transforms.reorder import Reordering

__all__ = ["Transformed", "moved_steps", "transform"]

_JUDGE = "first-fit"
"""Deterministic and quick; every search starts from what it finds."""


@dataclass(frozen=True)
class Transformed:
    """A changed program.

    Args:
        program: the new program; the given one if there was nothing to do.
        applied: the steps that no longer run, and those that run at another time.
        remarks: what was done, for people.
    """

    program: ExportedProgram
    applied: tuple[Applied, ...] = ()
    remarks: tuple[str, ...] = ()


def transform(
    program: ExportedProgram,
    *,
    fold_constants: bool = False,
    fold_limit: int | None = None,
    reorder: bool = False,
    options: Request | None = None,
) -> Transformed:
    """Fold constants and reorder steps.

    Args:
        program: what torch.export made.
        fold_constants: whether to compute what depends on parameters and constants alone.
        fold_limit: bytes by which the file may grow for it.
        reorder: whether to move independent steps so that fewer bytes are alive at the peak. The new order is
            taken if a plan of it that is found at once is smaller than any plan of the old one can be: then
            it is better under every search, and the same program gives the same order everywhere.
        options: how the program will be planned: what makes an order better.

    Raises:
        InputError: it is no exported program.
        UnsupportedError: the program holds something that cannot be planned.
    """
    if not isinstance(program, ExportedProgram):
        raise InputError(
            f"a {type(program).__name__} has no weights: fold and reorder the ExportedProgram that it is of"
        )
    applied: list[Applied] = []
    remarks: list[str] = []
    if fold_constants:
        from lowtide.transforms.folding import fold_constants as fold

        folded = fold(program, limit=fold_limit)
        program = folded.program
        applied += [Applied(f"{ROOT}/{step}", "folded") for step in folded.steps]
        change = "less" if folded.file_bytes < 0 else "more"
        remarks.append(
            f"Folded {len(folded.steps)} steps into {len(folded.constants)} constants, which take "
            f"{abs(folded.file_bytes):,} bytes ({format_size(abs(folded.file_bytes))}) {change} than before."
        )
    if reorder:
        from lowtide.transforms.reorder.fx import reorder_graphs

        copy = copy_program(program)
        choices: dict[str, Any] = {"packer": _JUDGE, "options": Packing(timeout=None)}
        if options is not None:
            choices |= {"in_place": options.in_place, "elide_copies": options.elide_copies}
        found = reorder_graphs(copy, options, **choices)
        moved = []
        if found.after.arena_bytes < found.before.lower_bound_bytes:
            program, moved = copy, list(moved_steps(found))
        applied += [Applied(step, "reordered") for step in moved]
        remarks.append(f"Reordered {len(moved)} steps." if moved else "No other order is better.")
    return Transformed(program, tuple(applied), tuple(remarks))


def moved_steps(found: Reordering) -> Iterator[str]:
    """Qualified names of the fewest steps that, moved, make the new order of the old one."""
    steps = {region.name: region.steps for region in found.program.regions}
    for name, order in found.orders.items():
        staying = staying_places(order)
        for place, step in enumerate(steps[name]):
            if place not in staying:
                yield f"{name}/{step.name}"


def staying_places(order: Sequence[int]) -> set[int]:
    """Places of a longest ascending subsequence (Schensted, 1961): what need not move."""
    tails: list[int] = []
    places: list[int] = []
    before: list[int | None] = []
    for place, value in enumerate(order):
        length = bisect_left(tails, value)
        before.append(places[length - 1] if length else None)
        if length == len(tails):
            tails.append(value)
            places.append(place)
        else:
            tails[length], places[length] = value, place
    found: set[int] = set()
    at = places[-1] if places else None
    while at is not None:
        found.add(at)
        at = before[at]
    return found
