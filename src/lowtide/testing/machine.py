"""The clock of a simulated run, and where a value's bytes are: what steps, copies and calls work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lowtide.base.errors import LowtideError
from lowtide.ir.flow import FlowGraph, Point
from lowtide.ir.plan import Plan
from lowtide.testing.memory import Dead, Memory

Choose = Callable[[int], int]
"""Given a number of possibilities, picks one: which branch, another iteration, which alias."""


class MisloweredError(LowtideError):
    """The program points say something else than the regions."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a value's bytes are: a storage, and the layout if they are the whole of it."""

    storage: int
    layout: str


@dataclass
class Frame:
    """One run of a region: what its parameters stand for, and what was decided for may-aliases."""

    region: int
    parent: Frame | None
    params: dict[int, Location | None] = field(default_factory=dict)
    chosen: dict[int, Location] = field(default_factory=dict)


class Machine:
    """A program about to run in a plan's arena.

    Args:
        flow: the program's points: the clock by which the plan's lifetimes go.
        plan: where storages are, and when it says that they are dead.
        choose: decides every branch, loop and alias.
        seed: of which bytes partial writes touch.
        dead: what is known of dead bytes by tick, shared by runs of one plan; filled as they go.
    """

    def __init__(
        self,
        flow: FlowGraph,
        plan: Plan,
        choose: Choose,
        seed: int = 0,
        dead: dict[int, Dead] | None = None,
    ) -> None:
        self.flow, self.program, self.choose = flow, flow.program, choose
        self.bytes = Memory(flow.program, plan, seed, {} if dead is None else dead)
        self.tick = -1
        self.started = False
        self.decided: int | None = None  # which way on from the point at work, if there are several

    # The clock.

    def at(self, kind: str, frame: Frame) -> Point:
        """Move to the next point, which must be of this kind and in this region."""
        way, self.decided = self.decided, None
        if self.tick < 0:
            self.tick = 0
        else:
            successors = self.flow.points[self.tick].successors
            if way is None and len(successors) != 1:
                raise MisloweredError(f"{self.flow.describe(self.tick)} has {len(successors)} ways on")
            self.bytes.poison(self.tick)
            self.tick = successors[way or 0]
        point = self.flow.points[self.tick]
        if point.kind != kind or self.flow.activations[point.activation].region != frame.region:
            raise MisloweredError(f"{self.flow.describe(self.tick)} ({point.kind}) should be a {kind}")
        self.bytes.poison(self.tick)
        return point

    def read(self, location: Location | None, again: str = "") -> None:
        if location is None:
            return
        self.reads([location.storage])
        self.bytes.check(location.storage, self.where() + again)

    def reads(self, storages: list[int]) -> None:
        """Check that the point owns up to what it reads."""
        if not set(self.flow.points[self.tick].all_reads).issuperset(storages):
            raise MisloweredError(f"{self.where()} reads {storages} and does not say so")

    def where(self) -> str:
        return f"{self.flow.describe(self.tick)} (tick {self.tick})"

    def writes(self, storages: list[int], full: bool) -> None:
        """Check that the point owns up to what it writes, and claims no full write that is none."""
        point = self.flow.points[self.tick]
        declared = {*point.full_writes, *point.partial_writes}
        if not declared.issuperset(storages):
            raise MisloweredError(f"{self.where()} writes {storages} and does not say so")
        if not full and not set(point.full_writes).isdisjoint(storages):
            raise MisloweredError(f"{self.where()} writes only a part of {storages} and says it is all")

    # What values stand for.

    def locate(self, frame: Frame, value: int | None) -> Location | None:
        if value is None:
            return None
        found = self.program.values[value]
        while frame.region != found.region and frame.parent is not None:
            frame = frame.parent
        if value in frame.params:
            return frame.params[value]
        if value in frame.chosen:
            return frame.chosen[value]
        options = [] if found.storage is None else [Location(found.storage, found.layout)]
        for alias in found.aliases:
            base = self.locate(frame, alias)
            if base is not None:
                options.append(Location(base.storage, found.layout if base.layout else ""))
        if not options:
            return None
        if len({option.storage for option in options}) == 1:
            return (
                options[0] if all(option.layout for option in options) else Location(options[0].storage, "")
            )
        # Where it is not known what it aliases, nor is it known how it lies there.
        frame.chosen[value] = Location(options[self.choose(len(options))].storage, "")
        return frame.chosen[value]
