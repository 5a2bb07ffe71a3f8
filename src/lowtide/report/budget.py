"""check: does a plan keep its budget, and by how much does it or does it not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lowtide.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lowtide.ir.plan import Plan


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit, and what a plan takes of it.

    Args:
        arena: memory id; None for all arenas together, where there are several.
        limit: bytes that it may take.
        bytes: what the plan takes.
        lower_bound_bytes: no plan takes less.
        what: of the arenas, or of everything that the device's RAM holds.
        untold: what is in RAM as well, but nobody knows how large it is.
    """

    arena: int | None
    limit: int
    bytes: int
    lower_bound_bytes: int
    what: Literal["arena", "ram"] = "arena"
    untold: tuple[str, ...] = ()

    @property
    def over(self) -> int:
        """Bytes above the limit; 0 or less if the plan keeps it."""
        return self.bytes - self.limit

    @property
    def is_kept(self) -> bool:
        """Whether the plan keeps the limit."""
        return self.over <= 0


def check_budget(plan: Plan, limits: int | Mapping[int | None, int]) -> tuple[Budget, ...]:
    """Hold a plan against limits.

    Args:
        plan: the plan.
        limits: bytes of all arenas together; or by memory id, None for all together.

    Raises:
        InputError: the plan has no such arena.
    """
    if isinstance(limits, int):
        limits = {None: limits}
    uses = {use.id: use for use in plan.uses}
    found = []
    for arena, limit in limits.items():
        if arena is None:
            only = plan.uses[0].id if len(plan.uses) == 1 else None
            found.append(Budget(only, limit, plan.arena_bytes, plan.lower_bound_bytes))
        elif arena in uses:
            use = uses[arena]
            found.append(Budget(arena, limit, use.bytes, use.lower_bound_bytes))
        else:
            raise InputError(f"there is no arena {arena} to check: the plan has {sorted(uses)}")
    return tuple(found)
