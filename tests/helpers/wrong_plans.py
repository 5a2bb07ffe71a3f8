"""Whether a plan is wrong on some path, by simulation."""

from __future__ import annotations

from lowtide.ir.flow import FlowGraph
from lowtide.ir.plan import Plan
from simulator import Dead, Simulator, WrongByteError, paths


def wrong_on(flow: FlowGraph, plan: Plan, limit: int) -> str:
    """The first wrong read on so many paths; nothing if there is none."""
    dead: dict[int, Dead] = {}
    try:
        for seed, choose in enumerate(paths(limit)):
            Simulator(flow, plan, choose, seed, dead).run(2)
    except WrongByteError as error:
        return str(error)
    return ""
