"""An oracle for plans: runs a Program by its regions, every byte a token, in a planned arena.

It shares no code with liveness, coalescing, lowering or the verifier: regions, steps and calls are
executed as ``lowtide.ir.program`` describes them, and the program points serve as the clock only. Every
write makes new tokens, in storage that is apart and in the arena alike; every read compares the two.
What the plan says is dead, and covered by nothing alive, is poisoned at every tick.

What a Program leaves open is decided against the plan: a step scribbles over what it writes before it reads,
but for bytes that its kernel may write over in place, or that it copies to where they are; it reads the whole
of a storage through any view of it, and reads its results back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from lowtide.ir.flow import FlowGraph, Point
from lowtide.ir.plan import Plan
from lowtide.ir.program import Call, Program, Step

UNBOUNDED_BYTES = 4
"""What a storage without a bound takes here; it is never planned."""

MOST_TRIPS = 2
"""Loops run at most so often, unless the chooser ends them earlier."""

Choose = Callable[[int], int]
"""Given a number of possibilities, picks one: which branch, another iteration, which alias."""


Dead = list[tuple[int, int]]
"""Arena and offset of bytes that a plan leaves to nobody at some tick."""


class WrongByteError(Exception):
    """A read finds other bytes in the arena than were written."""


class MisloweredError(Exception):
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


class Bytes:
    """All bytes twice: every storage apart, and planned ones at their places in arenas."""

    def __init__(self, program: Program, plan: Plan, seed: int, dead: dict[int, Dead]) -> None:
        self.program, self.plan = program, plan
        self.fresh = count(1)
        self.noise = seed
        self.sizes = [UNBOUNDED_BYTES if s.size is None else s.size for s in program.storages]
        self.apart = [self.tokens(size) for size in self.sizes]
        self.place: dict[int, tuple[int, int]] = {}
        self.buffer: dict[int, int] = {}
        position = {storage.name: i for i, storage in enumerate(program.storages)}
        for k, (buffer, offset) in enumerate(zip(plan.problem.buffers, plan.offsets, strict=True)):
            for name in buffer.members or (buffer.id,):
                self.place[position[name]] = (buffer.arena, offset)
                self.buffer[position[name]] = k
        ends: dict[int, int] = {}
        for storage, (arena, start) in self.place.items():
            ends[arena] = max(ends.get(arena, 0), start + self.sizes[storage])
        self.arenas = {arena: self.tokens(end) for arena, end in ends.items()}
        self.touched: set[int] = set()
        self.dead = dead

    def tokens(self, size: int) -> list[int]:
        return [next(self.fresh) for _ in range(size)]

    def random(self, below: int) -> int:
        """A cheap pseudo-random number (a linear congruential generator, Knuth's MMIX)."""
        self.noise = (self.noise * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.noise >> 33) % below

    def write(self, storage: int, tokens: list[int]) -> None:
        self.touched.add(storage)
        self.apart[storage] = list(tokens)
        if storage in self.place:
            arena, start = self.place[storage]
            self.arenas[arena][start : start + len(tokens)] = tokens

    def scribble(self, storage: int, spared: set[int]) -> None:
        """New tokens for all bytes of the arena that a write will reach, but for some."""
        if storage in self.place:
            arena, start = self.place[storage]
            for k in range(self.sizes[storage]):
                if k not in spared:
                    self.arenas[arena][start + k] = next(self.fresh)

    def write_some(self, storage: int) -> None:
        """New tokens for all bytes, or for a random run of them."""
        self.touched.add(storage)
        size = self.sizes[storage]
        first, last = (0, size) if self.random(2) else (self.random(size + 1), self.random(size + 1))
        for k in range(min(first, last), max(first, last)):
            token = next(self.fresh)
            self.apart[storage][k] = token
            if storage in self.place:
                arena, start = self.place[storage]
                self.arenas[arena][start + k] = token

    def check(self, storage: int, where: str) -> None:
        if storage not in self.place:
            return
        arena, start = self.place[storage]
        if start % self.program.storages[storage].alignment:
            raise WrongByteError(f"{where}: {self.program.storages[storage].name} is misaligned")
        if self.arenas[arena][start : start + self.sizes[storage]] != self.apart[storage]:
            raise WrongByteError(f"{where} reads wrong bytes of {self.program.storages[storage].name}")

    def dead_at(self, tick: int) -> Dead:
        """Bytes that no buffer alive at a tick covers."""
        alive: set[tuple[int, int]] = set()
        for buffer, offset in zip(self.plan.problem.buffers, self.plan.offsets, strict=True):
            if any(start <= tick < stop for start, stop in buffer.lifetime):
                alive.update((buffer.arena, offset + k) for k in range(buffer.size))
        return [(a, k) for a, arena in self.arenas.items() for k in range(len(arena)) if (a, k) not in alive]

    def poison(self, tick: int) -> None:
        if tick not in self.dead:
            self.dead[tick] = self.dead_at(tick)
        for arena, k in self.dead[tick]:
            self.arenas[arena][k] = -1


class Simulator:
    """Runs a program in a plan's arena.

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
        self.bytes = Bytes(flow.program, plan, seed, {} if dead is None else dead)
        self.tick = -1
        self.started = False
        self.decided: int | None = None  # which way on from the point at work, if there are several

    def run(self, times: int = 1) -> None:
        """So many invocations in a row.

        Raises:
            WrongByteError: a read finds wrong bytes.
            MisloweredError: the program points do not say what happens.
        """
        for _ in range(times):
            self.tick = -1
            self.root()
            if self.flow.points[self.tick].successors:
                raise MisloweredError("the program is done, its points are not")

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
        if location.storage not in self.flow.points[self.tick].all_reads:
            raise MisloweredError(f"{self.where()} reads {location} and does not say so")
        self.bytes.check(location.storage, self.where() + again)

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

    # Regions and steps.

    def root(self) -> None:
        frame = Frame(0, None)
        self.at("entry", frame)
        given = []
        for i, storage in enumerate(self.program.storages):
            kept = self.started and storage.kind == "state" and storage.persistent
            if storage.kind in ("input", "state", "constant") and not kept:
                self.bytes.write(i, self.bytes.tokens(self.bytes.sizes[i]))
                given.append(i)
        self.started = True
        self.bytes.touched.clear()
        for i in given:  # the caller fills all of them before the program starts
            self.bytes.check(i, "entry")
        self.body(frame)
        if self.program.writebacks:
            self.at("copy", frame)
            self.copy([(self.locate(frame, s), self.locate(frame, n)) for s, n in self.program.writebacks])
        self.at("exit", frame)
        for output in self.program.regions[0].outputs:
            self.read(self.locate(frame, output))
        for i, storage in enumerate(self.program.storages):
            if storage.persistent or (storage.kind == "input" and i in self.bytes.touched):
                self.read(Location(i, ""))

    def body(self, frame: Frame) -> None:
        for position, step in enumerate(self.program.regions[frame.region].steps):
            if step.call is not None:
                getattr(self, f"call_{step.call.kind}")(frame, step.call)
            else:
                point = self.at("step", frame)
                if point.step != position:
                    raise MisloweredError(f"{self.where()} should be step {position}")
                self.step(frame, position)

    def step(self, frame: Frame, position: int) -> None:
        step = self.program.regions[frame.region].steps[position]
        for value in step.writes:  # defined anew, so what it aliases is decided anew
            frame.chosen.pop(value, None)
        reads = [x for v in step.reads if (x := self.locate(frame, v)) is not None]
        whole: list[int] = list(step.scratch)
        some: list[int] = []
        for value in step.writes:
            location = self.locate(frame, value)
            own = self.program.values[value].storage
            if location is None:
                continue
            if own is None:
                (whole if location.layout else some).append(location.storage)
            elif location.storage == own:
                whole.append(own)
        some += [x.storage for v in step.partial if (x := self.locate(frame, v)) is not None]
        self.writes(whole, full=True)
        self.writes([s for s in some if s not in whole], full=False)
        read = {x.storage for x in reads}
        for location in reads:
            self.read(location)
        over = self.written_over(frame, step)
        contents = {storage: self.contents(frame, step, storage) for storage in whole}
        # What is written over what is read comes last: whatever else is written must leave both alone.
        for storage in (s for s in whole if s not in read and s not in over):
            self.bytes.scribble(storage, self.stays(frame, step, storage))
        for location in reads:
            if location.storage not in whole:
                self.read(location, ", having begun to write,")
        for storage in some:
            self.bytes.write_some(storage)
        for location in reads:
            if location.storage not in (*whole, *some):
                self.read(location, ", having begun to write,")
        for storage in whole:
            if storage not in read:
                self.bytes.write(storage, contents[storage])
        for location in reads:
            if location.storage not in {*whole, *some}.union(*over.values()):
                self.read(location, ", having written,")
        for storage in whole:
            if storage in read:
                self.bytes.write(storage, contents[storage])
        for storage in whole:
            self.bytes.check(storage, self.where() + ", reading back,")

    def covered(self, frame: Frame, value: int) -> int | None:
        """The storage that a value covers from end to end; None if there is none."""
        location = self.locate(frame, value)
        return location.storage if location is not None and location.layout else None

    def written_over(self, frame: Frame, step: Step) -> dict[int, set[int]]:
        """By storage written, those read that lie in exactly its bytes, where the kernel allows that."""
        found: dict[int, set[int]] = {}
        for written, value in step.overwrites:
            allowed = {v for w, v in step.overwrites if w == written}
            a, b = self.covered(frame, written), self.covered(frame, value)
            others = {x.storage for v in step.reads if v not in allowed and (x := self.locate(frame, v))}
            if a is None or b is None or a == b or b in others or self.bytes.sizes[a] != self.bytes.sizes[b]:
                continue
            if a in self.bytes.place and self.bytes.place[a] == self.bytes.place.get(b):
                found.setdefault(a, set()).add(b)
        return found

    def matched(self, frame: Frame, step: Step, written: int) -> list[tuple[int, int, int, int]]:
        """What a storage copies: (its first byte, the other storage, that one's first byte, bytes)."""
        found = []
        for match in step.matches:
            inner, outer = self.covered(frame, match.inner), self.covered(frame, match.outer)
            if inner is None or outer is None or inner == outer:
                continue
            size = self.bytes.sizes[inner]
            if inner == written:
                found.append((0, outer, match.distance, size))
            elif outer == written:
                found.append((match.distance, inner, 0, size))
        return found

    def contents(self, frame: Frame, step: Step, written: int) -> list[int]:
        """What a step makes of a storage: copies where it copies, and what never was elsewhere."""
        tokens = self.bytes.tokens(self.bytes.sizes[written])
        for start, other, first, size in self.matched(frame, step, written):
            tokens[start : start + size] = self.bytes.apart[other][first : first + size]
        return tokens

    def stays(self, frame: Frame, step: Step, written: int) -> set[int]:
        """Bytes of a storage that a step copies from where they are; not what is copied to several places."""
        found: set[int] = set()
        matched = self.matched(frame, step, written)
        for start, other, first, size in matched:
            here, there = self.bytes.place.get(written), self.bytes.place.get(other)
            alone = sum(o == other for _, o, _, _ in matched) == 1
            if here is None or there is None or here[0] != there[0]:
                continue
            if alone and here[1] + start == there[1] + first:
                found.update(range(start, start + size))
        return found

    def copy_in_order(
        self,
        frame: Frame,
        call: Call,
        pairs: list[tuple[Location | None, Location | None]],
        begun: list[Location | None],
    ) -> None:
        """Copies of whole storages in the order of a call; then stacked results come into being."""
        made = [r for r in begun if r is not None]
        if call.order == "parallel":
            self.at("copy", frame)
            self.copy(pairs)
        for pair in pairs if call.order == "sequential" else ():
            self.at("copy", frame)
            self.copy_while_reading(*pair)
        if call.order == "sequential" and (made or not pairs):
            self.at("copy", frame)
        self.make(made)

    def copy_while_reading(self, target: Location | None, source: Location | None) -> None:
        """One copy by a kernel that reads while it writes, unless both ends are in one place."""
        self.read(source)
        if target is not None and source is not None and target.storage != source.storage:
            here, there = (self.bytes.place.get(x.storage) for x in (target, source))
            sizes = (self.bytes.sizes[x.storage] for x in (target, source))
            alike = target.layout and target.layout == source.layout and len(set(sizes)) == 1
            if here is None or here != there or not alike:
                self.bytes.scribble(target.storage, set())
                self.read(source, ", having begun to write,")
        self.copy([(target, source)])

    def copy_part_while_reading(self, target: Location | None, source: Location | None) -> None:
        """One copy of that kind into some bytes of a stacked result."""
        self.read(source)
        if target is not None:
            self.writes([target.storage], full=False)
            self.bytes.write_some(target.storage)
            self.read(source, ", having begun to write,")

    def copy(self, pairs: list[tuple[Location | None, Location | None]]) -> None:
        """Parallel copies: every source is read before any target is written."""
        for _, source in pairs:
            self.read(source)
        arriving = []
        for target, source in pairs:
            if target is None:
                continue
            size = self.bytes.sizes[target.storage]
            tokens = self.bytes.tokens(size)
            if source is not None and target.layout and target.layout == source.layout:
                tokens = list(self.bytes.apart[source.storage])
            arriving.append((target.storage, tokens))
        self.writes([storage for storage, _ in arriving], full=True)
        for storage, tokens in arriving:
            self.bytes.write(storage, tokens)

    # Calls.

    def enter(self, frame: Frame, call: Call, region: int, ahead: list[Location | None]) -> Frame:
        slices = [self.locate(frame, s) for s in call.slices]
        given = [
            *ahead,
            *(None if x is None else Location(x.storage, "") for x in slices),
            *(self.locate(frame, o) for o in call.operands),
        ]
        return Frame(region, frame, dict(zip(self.program.regions[region].params, given, strict=True)))

    def outputs(self, inner: Frame) -> list[Location | None]:
        return [self.locate(inner, o) for o in self.program.regions[inner.region].outputs]

    def return_from(self, frame: Frame, call: Call, region: int) -> None:
        inner = self.enter(frame, call, region, [])
        self.body(inner)
        results = [self.locate(frame, r) for r in call.results]
        self.copy_in_order(inner, call, list(zip(results, self.outputs(inner), strict=True)), [])

    def call_call(self, frame: Frame, call: Call) -> None:
        self.return_from(frame, call, call.regions[0])

    def call_cond(self, frame: Frame, call: Call) -> None:
        self.at("select", frame)
        self.read(self.locate(frame, call.selector))
        self.decided = self.choose(len(call.regions))
        self.return_from(frame, call, call.regions[self.decided])

    def begin(self, frame: Frame, call: Call, begun: list[Location | None]) -> list[Location | None]:
        carries = [self.locate(frame, c) for c in call.carries]
        inits = [self.locate(frame, i) for i in call.inits]
        self.copy_in_order(frame, call, list(zip(carries, inits, strict=True)), begun)
        return carries

    def call_while(self, frame: Frame, call: Call) -> None:
        carries = self.begin(frame, call, [])
        for trip in range(MOST_TRIPS + 1):
            test = self.enter(frame, call, call.regions[0], carries)
            self.body(test)
            self.at("test", test)
            for output in self.outputs(test):
                self.read(output)
            if trip == MOST_TRIPS or not self.choose(2):
                break
            self.decided = 0
            inner = self.enter(frame, call, call.regions[1], carries)
            self.body(inner)
            self.copy_in_order(inner, call, list(zip(carries, self.outputs(inner), strict=True)), [])
        self.decided = 1

    def call_scan(self, frame: Frame, call: Call) -> None:
        results = [self.locate(frame, r) for r in call.results]
        carries = self.begin(frame, call, results)
        self.slices(frame, call, carries, results, len(carries))

    def call_associative_scan(self, frame: Frame, call: Call) -> None:
        self.at("copy", frame)
        results = [self.locate(frame, r) for r in call.results]
        sources = [self.locate(frame, source) for source in call.slices]
        for source in sources if call.order == "parallel" else ():
            self.read(source)
        self.make(results)
        for pair in zip(results, sources, strict=True) if call.order == "sequential" else ():
            self.at("copy", frame)
            self.copy_part_while_reading(*pair)
        before = [None if r is None else Location(r.storage, "") for r in results]
        self.slices(frame, call, before, results, 0)

    def make(self, results: list[Location | None]) -> None:
        """Stacked results come into being, with whatever bytes."""
        made = [r.storage for r in results if r is not None]
        self.writes(made, full=True)
        for storage in made:
            self.bytes.write(storage, self.bytes.tokens(self.bytes.sizes[storage]))

    def slices(
        self,
        frame: Frame,
        call: Call,
        ahead: list[Location | None],
        results: list[Location | None],
        carried: int,
    ) -> None:
        for trip in range(MOST_TRIPS + 1):
            self.at("next", frame)
            if trip == MOST_TRIPS or not self.choose(2):
                break
            self.decided = 0
            inner = self.enter(frame, call, call.regions[0], ahead)
            self.body(inner)
            outputs = self.outputs(inner)
            pairs = list(zip(ahead[:carried], outputs[:carried], strict=True))
            rows = list(zip(results, outputs[carried:], strict=True))
            if call.order == "sequential":
                if pairs or not rows:
                    self.copy_in_order(inner, call, pairs, [])
                for row in rows:
                    self.at("copy", inner)
                    self.copy_part_while_reading(*row)
                continue
            self.at("copy", inner)
            for output in outputs:
                self.read(output)
            self.copy(pairs)
            stacked = [r.storage for r in results if r is not None]
            self.writes(stacked, full=False)
            for storage in stacked:
                self.bytes.write_some(storage)
        self.decided = 1


def paths(limit: int) -> Iterator[Choose]:
    """Choosers for every path through a program, shortest first in each choice, up to a limit.

    Run each to the end before asking for the next: what it chose decides where the next one turns.
    """
    prefix: list[int] = []
    for _ in range(limit):
        taken: list[tuple[int, int]] = []

        def choose(options: int, taken: list[tuple[int, int]] = taken, prefix: list[int] = prefix) -> int:
            pick = prefix[len(taken)] if len(taken) < len(prefix) else 0
            taken.append((pick, options))
            return pick

        yield choose
        while taken and taken[-1][0] + 1 >= taken[-1][1]:
            taken.pop()
        if not taken:
            return
        prefix = [pick for pick, _ in taken[:-1]] + [taken[-1][0] + 1]
