"""Facts that are lost and read, as findings: who reads, who wrote over it, and by which path."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lowtide.base.errors import Violation
from lowtide.base.files import show_name
from lowtide.frontends.pte.pointers import Facts, Pointers
from lowtide.lifetimes.liveness import positions

if TYPE_CHECKING:
    from lowtide.frontends.pte.analysis import Analysis

FindingKind = Literal["overlap", "unwritten", "outside", "misaligned", "output"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a file's plan.

    Args:
        kind: ``overlap``: two tensors share bytes while both are needed; ``unwritten``: a tensor is read
            and on some path nothing was written where it lies; ``outside``: beyond the end of its arena, or
            in none; ``misaligned``; ``output``: an output in the caller's memory that is never filled.
        method: name of the method.
        message: one line.
        values: numbers of the tensors concerned.
        instructions: positions of the instructions concerned: the writer before the reader.
        path: instructions from where the content was made, past what destroys it, to the read.
        assumed: whether it follows only from assuming the worst of an unknown operator.
    """

    kind: FindingKind
    method: str
    message: str
    values: tuple[int, ...]
    instructions: tuple[int, ...] = ()
    path: tuple[int, ...] = ()
    assumed: bool = False

    def __str__(self) -> str:
        return self.message


def violations_of(findings: Iterable[Finding]) -> list[Violation]:
    """Findings as faults of a plan, which a VerificationError takes."""
    return [Violation("lost", f.message, tuple(f"%{value}" for value in f.values)) for f in findings]


def find_lost(analysis: Analysis, pointers: Pointers) -> list[Finding]:
    """A finding for each pair of tensors of which one is read after the other was written over it."""
    return _Search(analysis, pointers).run()


class _Search:
    """Turns lost facts that are read into findings."""

    def __init__(self, analysis: Analysis, pointers: Pointers) -> None:
        self.analysis, self.pointers = analysis, pointers
        self.method = analysis.method
        self.found: dict[object, Finding] = {}

    def run(self) -> list[Finding]:
        for first, second in self.pointers.clashing_at_entry:
            a, b = self.method.tensors[first], self.method.tensors[second]
            message = f"{a} and {b} share bytes, and both are filled before the first instruction"
            self.add(("entry", first, second), "overlap", message, (first, second))
        for at, now in enumerate(self.pointers.before):
            if now is None:
                continue
            if at < len(self.analysis.effects):
                self.clashes(at, now)
            for value in self.read_at(at):
                self.read(at, now, value)
        return list(self.found.values())

    def read_at(self, at: int) -> tuple[int, ...]:
        """Tensors looked at by an instruction, or after the last one."""
        if at < len(self.analysis.effects):
            return tuple(dict.fromkeys(self.analysis.effects[at].reads))
        return tuple(dict.fromkeys((*self.method.outputs, *sorted(self.analysis.views.state))))

    def add(
        self,
        key: object,
        kind: FindingKind,
        message: str,
        values: tuple[int, ...],
        instructions: tuple[int, ...] = (),
        path: tuple[int, ...] = (),
    ) -> None:
        if key in self.found:
            return
        assumed = any(
            self.analysis.effects[at].unknown for at in instructions if at < len(self.analysis.effects)
        )
        self.found[key] = Finding(kind, self.method.name, message, values, instructions, path, assumed)

    def clashes(self, at: int, now: Facts) -> None:
        """An instruction that writes over what it reads, or two things over each other."""
        effect, pointers = self.analysis.effects[at], self.pointers
        written = pointers.written(at, now)
        reads = {slot: value for value in effect.reads for slot in pointers.slots(now, value)}
        for slot, value in written.items():
            for other in pointers.overlapping.get(slot, ()):
                if other in written and slot < other:
                    what, partner = "writes two tensors that share bytes", written[other]
                elif other in reads and other not in written:
                    if other in pointers.unharmed(at, now, value, slot):
                        continue
                    if pointers.may_lie_over(at, value, slot, reads[other], other):
                        continue
                    what, partner = "writes over what it reads", reads[other]
                else:
                    continue
                a, b = self.method.tensors[value], self.method.tensors[partner]
                self.add(
                    (slot, other, "clash"),
                    "overlap",
                    f"{self.at(at)} {what}: {a} and {b}{self.slot_of(partner, other)}",
                    (value, partner),
                    (at,),
                    (at,),
                )

    def read(self, at: int, now: Facts, value: int) -> None:
        pointers, views = self.pointers, self.analysis.views
        if value in views.lost:
            tensor = self.method.tensors[value]
            message = (
                f"{self.at(at)} reads {tensor}, which nothing ever writes, nor any tensor that it could view"
            )
            self.add((value, "orphan"), "unwritten", message, (value,), (at,), (at,))
            return
        root = pointers.root(value)
        for n in positions((now.intact | now.lost) & pointers.of_value.get(root, 0)):
            slot = pointers.pairs[n][1]
            if not pointers.sees(value, slot):
                if not self.method.tensors[value].size:
                    continue
                self.elsewhere(at, value, n)
            elif now.lost >> n & 1 and self.method.tensors[slot].size:
                self.lost(at, value, n)

    def elsewhere(self, at: int, value: int, n: int) -> None:
        """A static view that does not lie where the tensor is that it views."""
        base, slot = self.pointers.pairs[n]
        tensors = self.method.tensors
        makers = [
            p
            for p, effect in enumerate(self.analysis.effects)
            if any(to == base for to, _ in (*effect.moves, *effect.views)) or base in effect.writes
        ]
        path = self.walk(at, lambda p: self.makes(p, n))
        where = tensors[slot].place or "in the caller's memory"
        self.add(
            (value, slot, "elsewhere"),
            "unwritten",
            f"{self.at(at)} reads {tensors[value]}, a view of {tensors[base]}, whose content is "
            f"{self.content(base, slot)} on this path: nothing wrote it where the view lies, only at {where}"
            f"{self.show(path)}",
            (value, base, slot),
            tuple(dict.fromkeys((path[0] if path else makers[0] if makers else at, at))),
            path,
        )

    def content(self, base: int, slot: int) -> str:
        return "its own" if base == slot else f"{self.method.tensors[slot]}"

    def lost(self, at: int, value: int, n: int) -> None:
        """Name what destroyed the content on some path, for every writer that did."""
        culprits = self.culprits(at, n)
        tensor = self.method.tensors[value]
        slot = self.pointers.pairs[n][1]
        for culprit, writer, tail in culprits:
            head = self.walk_from(culprit, n)
            path = (*head, *tail)
            other = self.method.tensors[writer]
            self.add(
                tuple(sorted((slot, writer))),
                "overlap",
                f"{self.at(at)} reads {tensor}{self.slot_of(value, slot)}, but {self.at(culprit)} "
                f"has written {other} over it{self.show(path)}",
                (value, writer),
                (culprit, at),
                path,
            )
        if not culprits:
            path = self.walk(at, lambda p: False)
            self.add(
                (slot, "unwritten"),
                "unwritten",
                f"{self.at(at)} reads {tensor}{self.slot_of(value, slot)}, which nothing has written on this "
                f"path{self.show(path)}",
                (value,),
                (at,),
                path,
            )

    def slot_of(self, value: int, slot: int) -> str:
        root = self.pointers.root(value)
        if value == slot or (root == slot and value == root):
            return ""
        return f", which is {self.method.tensors[slot]}"

    def at(self, at: int) -> str:
        if at >= len(self.method.instructions):
            return f"the end of {show_name(self.method.name)}"
        instruction = self.method.instructions[at]
        source = f" ({instruction.source})" if instruction.source else ""
        return f"{instruction}{source}"

    # Paths.

    def makes(self, at: int, n: int) -> bool:
        """Whether a point gives a tensor this pointer, or fills it."""
        value, slot = self.pointers.pairs[n]
        effect = self.analysis.effects[at]
        pointed = [source for to, source in (*effect.moves, *effect.views) if to == value]
        return value in effect.writes or any(
            (self.pointers.root(source), slot) in self.pointers.number for source in pointed
        )

    def culprits(self, at: int, n: int) -> list[tuple[int, int, tuple[int, ...]]]:
        """Points that destroy a fact on some path to a point: position, tensor written, path from it on."""
        found: list[tuple[int, int, tuple[int, ...]]] = []
        start = (at, n)
        parents: dict[tuple[int, int], tuple[int, int] | None] = {start: None}
        queue = deque([start])
        while queue:
            state = queue.popleft()
            point, fact = state
            for before in self.analysis.paths.predecessors[point]:
                now = self.pointers.before[before]
                if now is None:
                    continue
                trail = self.trail(parents, state)
                earlier = self.earlier(before, fact)
                if earlier is None:
                    continue
                for one in earlier:
                    writer = self.writer(before, now, one)
                    if writer is not None and now.intact >> one & 1:
                        found.append((before, writer, (before, *trail)))
                    if now.lost >> one & 1 and (before, one) not in parents:
                        parents[before, one] = state
                        queue.append((before, one))
        return found

    def earlier(self, before: int, fact: int) -> list[int] | None:
        """The facts that a fact after a point comes from; None if the point makes it whole."""
        pointers = self.pointers
        value, slot = pointers.pairs[fact]
        effect = self.analysis.effects[before]
        for to, source in (*effect.moves, *effect.views):
            if to == value:
                number = pointers.number.get((pointers.root(source), slot))
                return None if number is None else [number]
        filled = {pointers.root(v) for v in (*effect.defines, *effect.overwrites)}
        return None if value in filled else [fact]

    def writer(self, at: int, now: Facts, fact: int) -> int | None:
        """The tensor whose being written at a point destroys a fact."""
        pointers = self.pointers
        if not pointers.killed_by(at, now) >> fact & 1:
            return None
        _, slot = pointers.pairs[fact]
        written = pointers.written(at, now)
        for other, value in written.items():
            if other == slot or other in pointers.overlapping.get(slot, ()):
                return value
        return None

    @staticmethod
    def trail(
        parents: Mapping[tuple[int, int], tuple[int, int] | None], state: tuple[int, int]
    ) -> tuple[int, ...]:
        """Points from a state of the backward search to where it began."""
        found = []
        at: tuple[int, int] | None = state
        while at is not None:
            found.append(at[0])
            at = parents[at]
        return tuple(found)

    def walk(self, at: int, stop: Callable[[int], bool]) -> tuple[int, ...]:
        """A shortest path to a point, from the nearest point that stops the search or from the start."""
        parents: dict[int, int | None] = {at: None}
        queue = deque([at])
        last = at
        while queue:
            point = queue.popleft()
            last = point
            if point != at and point < len(self.analysis.effects) and stop(point):
                break
            for before in self.analysis.paths.predecessors[point]:
                if before not in parents and self.pointers.before[before] is not None:
                    parents[before] = point
                    queue.append(before)
        found = []
        step: int | None = last
        while step is not None:
            found.append(step)
            step = parents[step]
        return tuple(found)

    def walk_from(self, culprit: int, n: int) -> tuple[int, ...]:
        """From where a fact's content was made to just before the point that destroys it."""
        return self.walk(culprit, lambda p: self.makes(p, n))[:-1]

    def show(self, path: tuple[int, ...]) -> str:
        """``; path 3-5, 9-12``: runs of instructions that follow each other."""
        runs: list[list[int]] = []
        for at in path:
            if runs and at == runs[-1][-1] + 1:
                runs[-1].append(at)
            else:
                runs.append([at])
        end = len(self.method.instructions)
        parts = [
            f"{run[0]}-{'end' if run[-1] == end else run[-1]}" if len(run) > 1 else str(run[0])
            for run in runs
        ]
        return f"; path {', '.join(parts)}" if path else ""
