"""Problems and plans as JSON, without loss: one buffer, region or step of the history a line.

The format is versioned and published: ``lowtide/schema/problem.schema.json`` and
``plan.schema.json``. A reader refuses a version that it does not know, so a field can only be added
together with a new version; ``extra`` is where front ends and techniques add theirs, each with a version of
its own.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from lowtide.base.constants import PLAN_FORMAT, PROBLEM_FORMAT, VERSION
from lowtide.base.frozen import thaw

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lowtide.ir.plan import ArenaUse, Plan
    from lowtide.ir.problem import Arena, Buffer, Problem


def problem_to_json(problem: Problem) -> str:
    """The problem as JSON text; ``lowtide.formats.json.reading.problem_from_json`` is the way back."""
    return _layout(
        {
            "format": PROBLEM_FORMAT,
            "version": VERSION,
            "arenas": [_arena(arena) for arena in problem.arenas],
            **_rules(problem),
            "buffers": [_buffer(buffer, {"offset": buffer.offset}) for buffer in problem.buffers],
        }
    )


def plan_to_json(plan: Plan) -> str:
    """The plan as JSON text, problem included; ``plan_from_json`` is the way back."""
    problem = plan.problem
    return _layout(
        {
            "format": PLAN_FORMAT,
            "version": VERSION,
            "arena_bytes": plan.arena_bytes,
            "arenas": {str(id): size for id, size in plan.arenas.items()},
            "live_peak_bytes": plan.live_peak_bytes,
            "lower_bound_bytes": plan.lower_bound_bytes,
            "optimal": plan.is_optimal,
            "packer": plan.packer,
            "hierarchy": plan.hierarchy,
            "seconds": plan.seconds,
            "arena_uses": [
                _arena(arena) | _use(use) for arena, use in zip(problem.arenas, plan.uses, strict=True)
            ],
            "history": [
                {
                    "seconds": entry.seconds,
                    "arena_bytes": entry.arena_bytes,
                    "lower_bound_bytes": entry.lower_bound_bytes,
                }
                for entry in plan.history
            ],
            "applied": [
                {"step": use.step, "technique": use.technique, "written": use.written, "read": use.read}
                for use in plan.applied
            ],
            **({"extra": thaw(plan.extra)} if plan.extra else {}),
            **_banks(plan),
            **_rules(problem),
            "buffers": [_buffer(buffer, _place(plan, i, buffer)) for i, buffer in enumerate(problem.buffers)],
        }
    )


def json_schema(kind: Literal["problem", "plan"]) -> dict[str, Any]:
    """The published JSON schema (draft 2020-12) of a format, as a Python value."""
    file = resources.files("lowtide") / "schema" / f"{kind}.schema.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def _rules(problem: Problem) -> dict[str, object]:
    """What a problem and a plan say alike, beside buffers and arenas."""
    return {
        "may_coincide": [list(pair) for pair in problem.may_coincide],
        "placements": [
            {"inner": placement.inner, "outer": placement.outer, "distance": placement.distance}
            for placement in problem.placements
        ],
        "regions": [
            {"name": region.name, "kind": region.kind, "span": region.span, "parent": region.parent}
            for region in problem.regions
        ],
        "frees": [
            {"buffer": free.buffer, "region": free.region, "after": free.after} for free in problem.frees
        ],
    }


def _arena(arena: Arena) -> dict[str, object]:
    return {"id": arena.id, "capacity": arena.capacity, "reserved": arena.reserved}


def _use(use: ArenaUse) -> dict[str, object]:
    return {
        "bytes": use.bytes,
        "live_peak_bytes": use.live_peak_bytes,
        "lower_bound_bytes": use.lower_bound_bytes,
    }


def _banks(plan: Plan) -> dict[str, object]:
    """What a plan says of the banks of a memory map; nothing if it is of none."""
    if not plan.banks:
        return {}
    limits = {arena.id: arena.capacity for arena in plan.problem.arenas}
    return {
        "banks": [
            {
                "name": bank.name,
                "mem_id": bank.mem_id,
                "bytes": plan.arenas[bank.mem_id],
                "capacity": limits[bank.mem_id],
                "alignment": bank.alignment,
                "read_cost": bank.read_cost,
                "write_cost": bank.write_cost,
                "read_bytes": bank.read_bytes,
                "written_bytes": bank.written_bytes,
                "accessed_bytes": bank.accessed_bytes,
            }
            for bank in plan.banks
        ],
        "cost": plan.cost,
        "cost_bound": plan.cost_bound,
    }


def _place(plan: Plan, i: int, buffer: Buffer) -> dict[str, object]:
    """Where the plan puts a buffer, where the problem wants it (pin), and its shared object."""
    place: dict[str, object] = {"offset": plan.offsets[i]}
    if buffer.offset is not None:
        place["pin"] = buffer.offset
    if plan.banks:
        place["bank"] = plan.bank_of(i)
    if plan.object_ids is not None:
        place["object_id"] = plan.object_ids[i]
    return place


def _buffer(buffer: Buffer, place: dict[str, object]) -> dict[str, object]:
    record: dict[str, object] = {
        "id": buffer.id,
        "name": buffer.name,
        "size": buffer.size,
        "alignment": buffer.alignment,
        **place,
        "arena": buffer.arena,
        "lifetime": buffer.lifetime,
        "kind": buffer.kind,
        "region": buffer.region,
        "dtype": buffer.dtype,
        "shape": buffer.shape,
        "operator": buffer.operator,
        "source": buffer.source,
    }
    if buffer.members:
        record["members"] = buffer.members
    if buffer.reads is not None:
        record["reads"] = buffer.reads
    if buffer.writes is not None:
        record["writes"] = buffer.writes
    return record


def _layout(document: dict[str, Any]) -> str:
    """Text that a person can read and ``diff`` compare: each field a line, each entry of a list a line."""
    lines = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            text = "[\n    " + ",\n    ".join(map(_compact, value)) + "\n  ]"
        else:
            text = _compact(value)
        lines.append(f"  {_compact(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Iterable[object]) -> str:
    return json.dumps(value, allow_nan=False)
