"""Plans worth a picture, and what their pages hold."""

from __future__ import annotations

import json
import re
from typing import Any

from lowtide import Buffer, Plan, Problem
from lowtide.ir.problem import Arena, RegionSpan
from lowtide.pack.planner import plan_problem

HOSTILE = "</script><b>&'\"$x$\u2028\x01"


def busy_plan(extra: int = 0) -> Plan:
    """Two arenas, one with a reserved prefix and a capacity; holes, nesting, nothing, and a bad name."""
    buffers = (
        Buffer("root/x", 64, ((0, 3),), kind="input", dtype="float32", shape=(4, 4)),
        Buffer("root/a", 4096, ((1, 4), (6, 9)), operator="aten.add.Tensor", source="model.py:3 in forward"),
        Buffer("root/b/c", 100, ((4, 6),), alignment=16, operator="aten.mul.Tensor", region="root/b"),
        Buffer("root/none", 0, ((2, 5),)),
        Buffer(HOSTILE, 32, ((3, 9),), kind="output", arena=2, region=HOSTILE, operator=HOSTILE),
        *(Buffer(f"root/more{i}", 16 + i, ((i % 9, i % 9 + 1),)) for i in range(extra)),
    )
    regions = (
        RegionSpan("root", "root", ((0, 9),)),
        RegionSpan("root/b", "body", ((4, 6),), "root"),
        RegionSpan(HOSTILE, HOSTILE, ((7, 8),), "root"),
    )
    arenas = (Arena(1), Arena(2, capacity=512, reserved=128))
    return plan_problem(Problem(buffers, arenas=arenas, regions=regions))


def embedded(page: str) -> dict[str, Any]:
    """What a page knows."""
    (text,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    found: dict[str, Any] = json.loads(text)
    return found


def bytes_alive(plan: Plan, arena: int, tick: int) -> int:
    return sum(
        b.size
        for b in plan.problem.buffers
        if b.arena == arena and any(start <= tick < stop for start, stop in b.lifetime)
    )
