"""Problems and plans as CSV: the columns that are needed, and no silent loss of a rule.

CSV carries buffers: size, lifetime with gaps, alignment, arena, offset, name, kind, region and accesses
(how many of these are reads, it does not). What
describes a program further (shapes, operators, the region tree, frees) stays behind. A rule that
decides which offsets are right (permissions, placements, and of a problem also the limits of its
arenas) is never dropped unasked: then JSON is the format to use.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from lowtide.base.constants import DEFAULT_ARENA, ROOT
from lowtide.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Buffer, Lifetime, Problem

_QUOTED = re.compile(r'[,"\r\n]')


def problem_to_csv(problem: Problem, *, lossy: bool = False) -> str:
    """The problem as CSV text; pins are the ``offset`` column.

    Args:
        lossy: leave out what CSV cannot carry.

    Raises:
        InputError: CSV cannot carry a rule of this problem, and ``lossy`` is not set.
    """
    if not lossy:
        _refuse_loss([*_permissions(problem), *_limits(problem)])
    pins = [buffer.offset for buffer in problem.buffers]
    return _table(problem.buffers, pins if any(pin is not None for pin in pins) else None)


def plan_to_csv(plan: Plan, *, lossy: bool = False) -> str:
    """The plan as CSV text: its buffers with an ``offset`` column.

    Capacities and reserved bytes have done their part once there are offsets, so a plan does not carry them.

    Args:
        lossy: leave out the permissions that explain why some live buffers share bytes.

    Raises:
        InputError: buffers may share bytes by a permission that CSV cannot carry, and ``lossy`` is not set.
    """
    if not lossy:
        _refuse_loss(_permissions(plan.problem))
    return _table(plan.problem.buffers, plan.offsets)


def _permissions(problem: Problem) -> list[str]:
    lost = []
    if problem.may_coincide:
        a, b = problem.may_coincide[0]
        lost.append(f"that {a!r} and {b!r} may coincide")
    if problem.placements:
        placement = problem.placements[0]
        lost.append(f"that {placement.inner!r} lies inside {placement.outer!r}")
    return lost


def _limits(problem: Problem) -> list[str]:
    lost = [f"the capacity of arena {arena.id}" for arena in problem.arenas if arena.capacity is not None]
    lost += [f"the reserved bytes of arena {arena.id}" for arena in problem.arenas if arena.reserved]
    return lost


def _refuse_loss(lost: Sequence[str]) -> None:
    if lost:
        raise InputError(f"CSV cannot carry {' or '.join(lost)}: write JSON, or allow the loss")


def _table(buffers: Sequence[Buffer], offsets: Sequence[int | None] | None) -> str:
    columns: dict[str, list[str]] = {
        "id": [_cell(buffer.id) for buffer in buffers],
        "lower": [str(buffer.lifetime[0][0]) for buffer in buffers],
        "upper": [str(buffer.lifetime[-1][1]) for buffer in buffers],
        "size": [str(buffer.size) for buffer in buffers],
    }
    if "" in columns["id"]:
        raise InputError("CSV cannot carry a buffer whose id is blank: give it an id")
    if any(buffer.alignment != 1 for buffer in buffers):
        columns["alignment"] = [str(buffer.alignment) for buffer in buffers]
    if any(len(buffer.lifetime) > 1 for buffer in buffers):
        columns["gaps"] = [_gaps(buffer.lifetime) for buffer in buffers]
    if any(buffer.arena != DEFAULT_ARENA for buffer in buffers):
        columns["arena"] = [str(buffer.arena) for buffer in buffers]
    if any(buffer.name for buffer in buffers):
        columns["name"] = [_cell(buffer.name) for buffer in buffers]
    if any(buffer.kind != "temporary" for buffer in buffers):
        columns["kind"] = [_cell(buffer.kind) for buffer in buffers]
    if any(buffer.region != ROOT for buffer in buffers):
        columns["region"] = [_cell(buffer.region) for buffer in buffers]
    if any(buffer.reads is not None or buffer.writes is not None for buffer in buffers):
        columns["accesses"] = [str(sum(buffer.accesses)) for buffer in buffers]
    if offsets is not None:
        columns["offset"] = ["" if offset is None else str(offset) for offset in offsets]
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    return "\n".join(lines) + "\n"


def _gaps(lifetime: Lifetime) -> str:
    return " ".join(f"{stop}-{start}" for (_, stop), (start, _) in pairwise(lifetime))


def _cell(text: str) -> str:
    """A text cell, quoted only where it must be: MiniMalloc knows no quotes."""
    if "\0" in text:
        raise InputError(f"CSV cannot carry the NUL character in {text!r}: write JSON")
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
