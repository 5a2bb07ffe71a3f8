"""Explanations, differences and budgets as JSON, by the published schemas in ``lowtide/schema``.

The fields are those of the dataclasses in ``lowtide.report``, and derived figures beside them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.report.budget import Budget
    from lowtide.report.difference import Difference
    from lowtide.report.findings import Explanation

VERSION = 1
"""Of all three formats; changed when a reader of the old version would misread the new one."""


def explanation_to_json(explanation: Explanation) -> str:
    """An explanation as JSON text."""
    return _text("explanation", {**asdict(explanation), "peak_bytes": explanation.peak_bytes})


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


def json_schema(kind: Literal["explanation", "difference", "budget"]) -> dict[str, Any]:
    """The published JSON schema (draft 2020-12) of a format, as a Python value."""
    file = resources.files("lowtide") / "schema" / f"{kind}.schema.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def _text(kind: str, document: dict[str, Any]) -> str:
    head = {"format": f"lowtide.{kind}", "version": VERSION}
    return json.dumps({**head, **document}, indent=2, allow_nan=False) + "\n"
