"""What one step reads and writes in a simulated run: its values as storages, wherever they lie just now."""

from __future__ import annotations

from lowtide.ir.program import Step
from lowtide.testing.machine import Frame, Machine
from lowtide.testing.worst import Copied, operate


class StepMachine(Machine):
    """A machine that runs steps."""

    def step(self, frame: Frame, position: int) -> None:
        step = self.program.regions[frame.region].steps[position]
        for value in step.writes:  # defined anew, so what it aliases is decided anew
            frame.chosen.pop(value, None)
        reads = [x.storage for v in step.reads if (x := self.locate(frame, v)) is not None]
        self.reads(reads)
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
        copied = {storage: self.matched(frame, step, storage) for storage in whole}
        over = self.written_over(frame, step)
        operate(self.bytes, self.where(), reads, whole, some, over, copied)

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

    def matched(self, frame: Frame, step: Step, written: int) -> list[Copied]:
        """What a storage copies."""
        found = []
        for match in step.matches:
            inner, outer = self.covered(frame, match.inner), self.covered(frame, match.outer)
            if inner is None or outer is None or inner == outer:
                continue
            size = self.bytes.sizes[inner]
            if inner == written:
                found.append(Copied(0, outer, match.distance, size))
            elif outer == written:
                found.append(Copied(match.distance, inner, 0, size))
        return found
