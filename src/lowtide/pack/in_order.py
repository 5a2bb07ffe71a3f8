"""first-fit and best-fit: place buffers one after the other in a fixed order.

First fit takes the lowest offset where a buffer fits among those placed before it that are alive with
it; best fit the tightest gap. Largest first is the usual order for inference (Pisarchyk and Lee,
*Efficient Memory Management for Deep Neural Net Inference*, 2020); area is size times duration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide import _kernel
from lowtide.pack.arrays import to_kernel
from lowtide.pack.registry import Options, Packing

if TYPE_CHECKING:
    from lowtide.ir.problem import Problem


def first_fit(problem: Problem, options: Options) -> Packing:
    """First fit, largest buffer first."""
    del options
    return _first_fit_by(problem, "size")


def first_fit_area(problem: Problem, options: Options) -> Packing:
    """First fit, largest size times duration first."""
    del options
    return _first_fit_by(problem, "area")


def first_fit_duration(problem: Problem, options: Options) -> Packing:
    """First fit, longest-lived buffer first."""
    del options
    return _first_fit_by(problem, "duration")


def first_fit_start(problem: Problem, options: Options) -> Packing:
    """First fit, in the order in which buffers come alive."""
    del options
    return _first_fit_by(problem, "start")


def best_fit(problem: Problem, options: Options) -> Packing:
    """Best fit, largest buffer first."""
    del options
    arrays = to_kernel(problem)
    return Packing(tuple(_kernel.best_fit(arrays, _kernel.order_by(arrays, "size")).offsets))


def _first_fit_by(problem: Problem, order: str) -> Packing:
    arrays = to_kernel(problem)
    return Packing(tuple(_kernel.first_fit(arrays, _kernel.order_by(arrays, order)).offsets))
