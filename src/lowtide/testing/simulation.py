"""Does every read see what it should, on many paths? A plan against what it is a plan of, by simulation."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from lowtide.base.errors import InputError
from lowtide.frontends.front_end import Source
from lowtide.ir.flow import FlowGraph
from lowtide.ir.plan import Plan
from lowtide.ir.program import Program
from lowtide.lifetimes.lowering import lower
from lowtide.pack.techniques import Techniques
from lowtide.sources import load, make_request
from lowtide.testing.memory import Dead, WrongByteError
from lowtide.testing.paths import Paths
from lowtide.testing.points import PointWalker
from lowtide.testing.simulator import Simulator

FEWEST = 4
"""Runs even where there are fewer paths: which bytes a partial write touches differs from run to run."""

INVOCATIONS = 2
"""How often each path is run in a row, so that state meets what the last run left."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """What became of simulated runs.

    Args:
        fault: the first read that sees wrong bytes; empty if there is none.
        paths: how many were run; one counts again where it was run with other bytes.
        complete: whether these are all paths, with loops run at most twice.
    """

    fault: str
    paths: int
    complete: bool

    @property
    def right(self) -> bool:
        """Whether every read saw what it should."""
        return not self.fault


def simulate(source: Any, plan: Plan, *, paths: int = 100, seed: int = 0, **request: Any) -> Simulation:
    """Run a program on symbolic bytes in a plan's arena.

    What a program leaves open is decided against the plan, and what the plan says is dead is poisoned. One
    half of the paths is taken in order, the other at random where more are left.

    Args:
        source: what was planned: a Program, a Source, or whatever ``lowtide.plan`` takes that runs.
        plan: under which.
        paths: the most that are run.
        seed: of paths, and of the bytes that partial writes touch.
        request: the options that the plan was made with, as for ``lowtide.plan``.

    Raises:
        InputError: nothing is known of what runs, or the plan is of something else.
        MisloweredError: Lowtide's program points of it say something else than its regions; please report it.
    """
    if not isinstance(source, (Program, Source)):
        source = load(source, make_request(request))
    program = source if isinstance(source, Program) else source.program
    kind = Simulator if program is not None else PointWalker
    flow = lower(program) if program is not None else _points_of(source, plan)
    dead: dict[int, Dead] = {}
    done, complete = 0, False
    every = Paths(max(paths // 2, 1))
    try:
        for choose in every.choosers():
            done += 1
            kind(flow, plan, choose, seed + done, dead).run(INVOCATIONS)
        complete = every.exhausted
        random = Random(seed)
        while done < (min(paths, FEWEST) if complete else paths):
            done += 1
            kind(flow, plan, random.randrange, seed + done, dead).run(INVOCATIONS)
    except WrongByteError as error:
        return Simulation(str(error), done, False)
    return Simulation("", done, complete)


def _points_of(source: Source, plan: Plan) -> FlowGraph:
    """The program points that a plan is of: the file's own, or those that it was planned by."""
    if source.flow is not None and plan == source.plan:
        return source.flow
    if source.layouts is not None:
        request = source.request
        return source.layouts(Techniques(request.in_place, request.elide_copies))[1]
    if source.flow is not None:
        return source.flow
    raise InputError("nothing is known of what runs: a list of buffers cannot be simulated")
