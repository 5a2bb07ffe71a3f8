"""What copies of whole values do to the bytes of a simulated run: all at once, or one after another."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir.program import Call
from lowtide.testing.machine import Frame, Location, Machine


class CopyMachine(Machine):
    """A machine that makes copies."""

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

    def make(self, results: Sequence[Location | None]) -> None:
        """Stacked results come into being, with whatever bytes."""
        made = [r.storage for r in results if r is not None]
        self.writes(made, full=True)
        for storage in made:
            self.bytes.write(storage, self.bytes.tokens(self.bytes.sizes[storage]))
