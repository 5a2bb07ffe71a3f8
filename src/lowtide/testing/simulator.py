"""An oracle for plans: runs a Program by its regions, every byte a token, in a planned arena.

It shares no code with liveness, coalescing, lowering or the verifier: regions, steps and calls are
executed as ``lowtide.ir.program`` describes them, and the program points serve as the clock only. Every
write makes new tokens, in storage that is apart and in the arena alike; every read compares the two.
What the plan says is dead, and covered by nothing alive, is poisoned at every tick.
"""

from __future__ import annotations

from lowtide.ir.program import Call
from lowtide.testing.copies import CopyMachine
from lowtide.testing.machine import Frame, Location, MisloweredError
from lowtide.testing.steps import StepMachine

MOST_TRIPS = 2
"""Loops run at most so often, unless the chooser ends them earlier."""


class Simulator(StepMachine, CopyMachine):
    """Runs a program in a plan's arena; the arguments are those of ``Machine``."""

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
