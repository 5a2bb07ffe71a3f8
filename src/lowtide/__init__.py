"""Lowtide: ahead-of-time memory planning for tensor programs.

    >>> plan = lowtide.plan(exported_program)
    >>> plan.arena_bytes, plan.lower_bound_bytes, plan.is_optimal
    >>> plan.offset_of("root/conv2d")
    >>> lowtide.verify(plan, exported_program)

Everything here is imported when it is first used, so that ``import lowtide`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowtide import pack
    from lowtide.api import audit, plan, repack, verify
    from lowtide.base.errors import (
        InfeasibleError,
        InputError,
        LowtideError,
        ProgramError,
        ReplayError,
        UnsupportedError,
        VerificationError,
        Violation,
    )
    from lowtide.fitting import Fitted, fit
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Arena, Buffer, Free, Placement, Problem, RegionSpan
    from lowtide.ir.program import Call, Match, Program, Region, Step, Storage, Value
    from lowtide.outputs.json import to_json
    from lowtide.outputs.markdown import to_markdown
    from lowtide.report.budget import check_budget
    from lowtide.report.difference import Difference, diff
    from lowtide.report.explain import explain
    from lowtide.report.findings import Explanation
    from lowtide.verifier.checks import Report

__version__ = "0.1.0"

__all__ = [
    "Arena",
    "Buffer",
    "Call",
    "Difference",
    "Explanation",
    "Fitted",
    "Free",
    "InfeasibleError",
    "InputError",
    "LowtideError",
    "Match",
    "Placement",
    "Plan",
    "Problem",
    "Program",
    "ProgramError",
    "Region",
    "RegionSpan",
    "ReplayError",
    "Report",
    "Step",
    "Storage",
    "UnsupportedError",
    "Value",
    "VerificationError",
    "Violation",
    "audit",
    "check_budget",
    "diff",
    "explain",
    "fit",
    "pack",
    "plan",
    "repack",
    "to_json",
    "to_markdown",
    "verify",
]

_HOME = {
    **dict.fromkeys(("audit", "plan", "repack", "verify"), "lowtide.api"),
    **dict.fromkeys(
        (
            "InfeasibleError",
            "InputError",
            "LowtideError",
            "ProgramError",
            "ReplayError",
            "UnsupportedError",
            "VerificationError",
        ),
        "lowtide.base.errors",
    ),
    **dict.fromkeys(("Arena", "Buffer", "Free", "Placement", "Problem", "RegionSpan"), "lowtide.ir.problem"),
    **dict.fromkeys(("Call", "Match", "Program", "Region", "Step", "Storage", "Value"), "lowtide.ir.program"),
    "Report": "lowtide.verifier.checks",
    "Violation": "lowtide.base.errors",
    **dict.fromkeys(("Difference", "diff"), "lowtide.report.difference"),
    **dict.fromkeys(("Fitted", "fit"), "lowtide.fitting"),
    "Explanation": "lowtide.report.findings",
    "Plan": "lowtide.ir.plan",
    "check_budget": "lowtide.report.budget",
    "explain": "lowtide.report.explain",
    "to_json": "lowtide.outputs.json",
    "to_markdown": "lowtide.outputs.markdown",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("pack", "replay", "frontends", "outputs", "report"):
        return importlib.import_module(f"lowtide.{name}")
    if name in _HOME:
        found = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'lowtide' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
