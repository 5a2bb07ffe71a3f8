"""exact: branch and bound in the C++ kernel; the smallest arena and the proof that it is, if time allows.

With a capacity, any plan within it will do, or the proof that there is none. At the deadline, or when
interrupted, the best plan so far is returned with the best bound proved. The kernel's pruning rules
have names and sources: ``lowtide.pack.exact.rules()``; ``Options.disable`` leaves some out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.base.errors import InfeasibleError, InputError
from lowtide.ir.plan import Progress
from lowtide.pack.arrays import to_kernel
from lowtide.pack.bounds import lower_bound
from lowtide.pack.registry import Options, Packing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lowtide.ir.problem import Problem


def rules() -> dict[str, str]:
    """The pruning rules of the search by name, each with what it does and where it comes from."""
    return dict(_kernel.rules())


def exact(problem: Problem, options: Options) -> Packing:
    """Search until the arena is proved as small as can be, or fits its capacity, or time is up.

    Raises:
        InfeasibleError: no plan keeps the capacity or the pins, or none was found in time.
        InputError: a rule to disable does not exist.
    """
    capacity = problem.arenas[0].capacity if problem.arenas else None
    found = search(to_kernel(problem), options, fit=capacity is not None)
    bound = max(found.lower_bound, lower_bound(problem))
    if found.offsets is None:
        raise no_plan(problem, found.stopped, bound)
    return Packing(
        tuple(found.offsets),
        bound,
        history=history_of(found, bound),
        interrupted=found.stopped == "interrupted",
    )


def search(
    arrays: _kernel.Problem,
    options: Options,
    *,
    timeout: float | None = None,
    fit: bool = False,
    incumbent: Sequence[int] | None = None,
) -> _kernel.SearchResult:
    """The kernel's search under a packer's options; ``timeout`` in seconds stands in for theirs.

    Raises:
        InputError: a rule to disable does not exist.
    """
    check_rules(options)
    limit = options.timeout if timeout is None else timeout
    return _kernel.search(
        arrays,
        fit=fit,
        deadline=0.0 if limit is None else max(limit, 1e-9),  # the kernel's 0 is no deadline at all
        threads=options.threads,
        seed=options.seed,
        incumbent=None if incumbent is None else list(incumbent),
        disable=list(options.disable),
        progress=_reporter(options),
    )


def check_rules(options: Options) -> None:
    """Refuse to disable a rule that does not exist."""
    unknown = sorted(set(options.disable) - set(rules()))
    if unknown:
        raise InputError(f"there is no rule {unknown[0]!r} to disable: there are {', '.join(rules())}")


def no_plan(problem: Problem, stopped: str, bound: int) -> InfeasibleError:
    """The error for a search that ended without a plan."""
    arena = problem.arenas[0]
    if stopped == "exhausted":
        return InfeasibleError(
            f"arena {arena.id}: no plan was found, and the problem is too large for exact search: use auto"
        )
    if stopped != "infeasible":
        when = "before it was interrupted" if stopped == "interrupted" else "in time"
        return InfeasibleError(
            f"arena {arena.id}: no plan was found {when}, nor a proof that there is none: allow more time"
        )
    if arena.capacity is not None and bound > arena.capacity:
        return InfeasibleError(
            f"arena {arena.id} has a capacity of {arena.capacity} bytes, "
            f"but no plan takes less than {bound} bytes"
        )
    return InfeasibleError(
        f"arena {arena.id}: no plan keeps all pins, and all buffers inside others: they contradict each other"
    )


def history_of(found: _kernel.SearchResult, bound: int) -> tuple[Progress, ...]:
    """How a search improved, from its first plan on."""
    return tuple(
        Progress(seconds, arena, min(max(proved, 0), bound))
        for seconds, arena, proved in found.history
        if arena is not None
    )


def _reporter(options: Options) -> Callable[[float, int | None, int, int], None] | None:
    report = options.progress
    if report is None:
        return None

    def tell(seconds: float, arena: int | None, bound: int, nodes: int) -> None:
        if arena is not None:
            report(Progress(seconds, arena, bound), nodes)

    return tell
