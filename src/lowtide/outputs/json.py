"""Whatever Lowtide finds as JSON text, by the published schemas in ``lowtide/schema``.

The fields are those of the dataclasses in ``lowtide.report``, and derived figures beside them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, get_args

from lowtide.base.errors import InputError
from lowtide.formats.json.writing import plan_to_json, problem_to_json
from lowtide.ir.device_memory import Pool
from lowtide.ir.plan import Plan
from lowtide.ir.problem import Problem
from lowtide.report.difference import Difference
from lowtide.report.findings import Explanation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.fitting import Fitted
    from lowtide.ir.device_memory import DeviceMemory
    from lowtide.report.budget import Budget

VERSION = 1
"""Of all these formats; changed when a reader of the old version would misread the new one."""


def to_json(value: Plan | Problem | Explanation | Difference) -> str:
    """A plan, a problem, an explanation or a difference as JSON text.

    Raises:
        InputError: it is none of them.
    """
    if isinstance(value, Plan):
        return plan_to_json(value)
    if isinstance(value, Problem):
        return problem_to_json(value)
    if isinstance(value, Explanation):
        return explanation_to_json(value)
    if isinstance(value, Difference):
        return difference_to_json(value)
    raise InputError(f"a {type(value).__name__} cannot be written as JSON: pass a plan or a report")


def explanation_to_json(explanation: Explanation) -> str:
    """An explanation as JSON text."""
    ram = None if explanation.ram is None else ram_document(explanation.ram)
    return _text("explanation", {**asdict(explanation), "ram": ram, "peak_bytes": explanation.peak_bytes})


def ram_document(memory: DeviceMemory) -> dict[str, Any]:
    """What a device's RAM holds, with the sums of its pools."""
    pools = {pool: memory.pool_bytes(pool) for pool in get_args(Pool)}
    sums = {"ram_bytes": memory.ram_bytes, "pools": pools, "untold": list(memory.untold)}
    return {**asdict(memory), "settings": dict(memory.settings), **sums}


def difference_to_json(difference: Difference) -> str:
    """A difference as JSON text."""
    document = asdict(difference)
    document["differs"] = difference.differs
    document["old_bytes"], document["new_bytes"] = difference.old_bytes, difference.new_bytes
    return _text("difference", document)


def budgets_to_json(name: str, budgets: Sequence[Budget]) -> str:
    """What a plan takes of its limits, as JSON text."""
    limits = [{**asdict(budget), "over": budget.over, "kept": budget.is_kept} for budget in budgets]
    kept = all(budget.is_kept for budget in budgets)
    return _text("budget", {"name": name, "kept": kept, "limits": limits})


def fitted_to_json(found: Fitted, name: str = "program") -> str:
    """What a fit came to, as JSON text; the program itself is a file of its own.

    Args:
        found: the fit.
        name: what it calls the program.
    """
    document = {
        "name": name,
        "runtime": found.runtime,
        "fits": found.fits,
        "changed": found.changed,
        "complete": found.complete,
        "interrupted": found.interrupted,
        "limits": asdict(found.limits),
        "arena_before": found.arena_before,
        "arena_bytes": found.arena_bytes,
        "lower_bound_bytes": found.lower_bound_bytes,
        "floor": asdict(found.floor),
        "macs_before": found.macs_before,
        "macs": found.macs,
        "work": found.work,
        "allowed": asdict(found.allowed),
        "steps": [asdict(step) for step in found.steps],
        "front": [{"bytes": size, "macs": macs} for size, macs in found.front],
        "barriers": list(found.barriers),
        "remarks": list(found.remarks),
        "proof": None if found.proof is None else asdict(found.proof),
    }
    return _text("fit", document)


def json_schema(kind: Literal["explanation", "difference", "budget", "fit"]) -> dict[str, Any]:
    """The published JSON schema (draft 2020-12) of a format, as a Python value."""
    file = resources.files("lowtide") / "schema" / f"{kind}.schema.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def _text(kind: str, document: dict[str, Any]) -> str:
    head = {"format": f"lowtide.{kind}", "version": VERSION}
    return json.dumps({**head, **document}, indent=2, allow_nan=False) + "\n"
