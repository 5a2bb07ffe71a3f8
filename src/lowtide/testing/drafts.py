"""A random program under construction: its values, and steps that call nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from lowtide.ir.program import CopyOrder, Match, Step, Storage, StorageKind, Value

SIZES = (8, 8, 8, 8, 4, 4, 16, 0)
LAYOUTS = ("C", "C", "C", "C", "T", "")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a caller must pass for a parameter: so many bytes, which may be written or not."""

    size: int
    writable: bool


@dataclass
class Draft:
    """A region under construction: ``live`` is every value that can be read now."""

    position: int
    name: str
    role: str
    parent: int | None
    params: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    outputs: list[int | None] = field(default_factory=list)


class Sketch:
    """A program under construction, and the steps that can be added to it.

    Args: as for ``random_program``.
    """

    def __init__(
        self,
        random: Random,
        *,
        steps: int = 12,
        depth: int = 3,
        plan_inputs: bool = True,
        plan_outputs: bool = True,
        sharing: bool = False,
        sequential: bool = False,
    ) -> None:
        self.order: CopyOrder = "sequential" if sequential else "parallel"
        self.sharing = sharing
        self.random, self.left, self.depth = random, steps, depth
        self.plan_inputs, self.plan_outputs = plan_inputs, plan_outputs
        self.alignment = random.choice((1, 1, 2, 4))
        self.storages: list[Storage] = []
        self.values: list[Value] = []
        self.sizes: list[int] = []
        self.writable: list[bool] = []
        self.drafts: list[Draft] = []
        self.done: list[tuple[int, tuple[Kind, ...], tuple[int, ...]]] = []
        self.constants: list[int] = []
        self.states: list[int] = []

    def lies_in(self, value: int) -> set[int]:
        found = self.values[value]
        own = set() if found.storage is None else {found.storage}
        return own.union(*(self.lies_in(alias) for alias in found.aliases))

    # Decisions.

    def chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def size(self) -> int:
        return self.random.choice(SIZES)

    def pick(self, draft: Draft, writable: bool = False) -> int:
        """A value to use; recent ones more often, so that others die."""
        found = [v for v in draft.live if self.writable[v] or not writable]
        if not found:
            return self.compute(draft, self.size())
        if self.chance(2):
            found = found[-4:]
        return self.random.choice(found)

    def of_size(self, draft: Draft, size: int, writable: bool = False) -> int:
        """A value of this size, made if there is none, and now and then anyway."""
        found = [v for v in draft.live if self.sizes[v] == size and (self.writable[v] or not writable)]
        if not found or self.chance(3):
            return self.compute(draft, size)
        return self.random.choice(found)

    # Values.

    def open(self, name: str, role: str, parent: int | None) -> Draft:
        self.drafts.append(Draft(len(self.drafts), name, role, parent))
        return self.drafts[-1]

    def value(self, value: Value, size: int, writable: bool) -> int:
        self.values.append(value)
        self.sizes.append(size)
        self.writable.append(writable)
        return len(self.values) - 1

    def storage(self, draft: Draft, size: int, kind: StorageKind) -> int:
        unbounded = kind == "temporary" and self.chance(30)
        self.storages.append(
            Storage(
                f"{draft.name}/s{len(self.storages)}",
                None if unbounded else size,
                kind,
                draft.position,
                planned=kind != "constant" and not unbounded,
                persistent=kind == "state" and not self.chance(4),
                alignment=self.alignment,
            )
        )
        return len(self.storages) - 1

    def own(self, draft: Draft, size: int, kind: StorageKind, layout: str | None = None) -> int:
        """A new value with a storage of its own, which somebody writes."""
        storage = self.storage(draft, size, kind)
        if self.storages[storage].size is None:
            layout = ""
        layout = self.random.choice(LAYOUTS) if layout is None else layout
        made = Value(f"{draft.name}/v{len(self.values)}", draft.position, storage, (), layout)
        value = self.value(made, size, kind != "constant")
        draft.live.append(value)
        return value

    def alias(self, draft: Draft, aliases: tuple[int, ...], storage: int | None, layout: str) -> int:
        made = Value(f"{draft.name}/v{len(self.values)}", draft.position, storage, aliases, layout)
        value = self.value(made, self.sizes[aliases[0]], all(self.writable[a] for a in aliases))
        draft.live.append(value)
        return value

    # Steps.

    def emit(self, draft: Draft, operator: str, **effects: tuple[Any, ...]) -> None:
        draft.steps.append(Step(f"{operator}{len(draft.steps)}", operator, **effects))  # type: ignore[arg-type]

    def operands(self, draft: Draft) -> tuple[int, ...]:
        if not draft.live:
            return ()
        count = self.random.randint(0, 2)
        return tuple(dict.fromkeys(self.pick(draft) for _ in range(count)))

    def compute(self, draft: Draft, size: int | None = None) -> int:
        reads = self.operands(draft)
        scratch = (self.storage(draft, self.size(), "scratch"),) if self.chance(6) else ()
        made = self.own(draft, self.size() if size is None else size, "temporary")
        self.emit(draft, "compute", reads=reads, writes=(made,), scratch=scratch)
        return made

    def pair(self, draft: Draft) -> None:
        reads = self.operands(draft)
        made = (self.own(draft, self.size(), "temporary"), self.own(draft, self.size(), "temporary"))
        self.emit(draft, "pair", reads=reads, writes=made)

    def effect(self, draft: Draft) -> None:
        self.emit(draft, "effect", reads=self.operands(draft))

    def view(self, draft: Draft) -> None:
        base = self.pick(draft)
        self.emit(draft, "view")
        self.alias(draft, (base,), None, self.random.choice(("C", "C", "T", "")))

    def may_alias(self, draft: Draft) -> None:
        base = self.pick(draft)
        storage = self.storage(draft, self.sizes[base], "temporary")
        made = self.alias(draft, (base,), storage, self.random.choice(("C", "")))
        self.emit(draft, "may_alias", reads=(base,), writes=(made,))

    def moved(self, draft: Draft) -> None:
        first = self.pick(draft)
        self.alias(draft, (first, self.of_size(draft, self.sizes[first])), None, "C")

    def update(self, draft: Draft) -> None:
        target = self.pick(draft, writable=True)
        reads = self.operands(draft)
        if self.chance(2):
            reads = tuple(dict.fromkeys((target, *reads)))
        self.emit(draft, "update", reads=reads, partial=(target,))

    def overwrite(self, draft: Draft) -> None:
        target = self.pick(draft, writable=True)
        if self.values[target].storage is not None and self.values[target].aliases:
            return  # the step that makes a value that may alias decides where it is; it is not made twice
        self.emit(draft, "overwrite", reads=self.operands(draft), writes=(target,))

    # Steps whose results may share bytes with what they read.

    def in_place(self, draft: Draft) -> None:
        """An operator that may write over some of its operands; perhaps with a second result."""
        first = self.pick(draft)
        operands = [first, self.of_size(draft, self.sizes[first]), self.pick(draft)]
        reads = tuple(dict.fromkeys(operands[: self.random.randint(1, 3)]))
        made = self.own(draft, self.sizes[first], "temporary")
        allowed = tuple((made, read) for read in reads if not self.chance(4))
        writes = (made, self.own(draft, self.size(), "temporary")) if self.chance(5) else (made,)
        self.emit(draft, "in_place", reads=reads, writes=writes, overwrites=allowed)

    def clone(self, draft: Draft, source: int | None = None) -> int:
        source = self.pick(draft) if source is None else source
        made = self.own(draft, self.sizes[source], "temporary")
        over = ((made, source),) if self.chance(2) else ()
        self.emit(
            draft, "clone", reads=(source,), writes=(made,), overwrites=over, matches=(Match(made, source),)
        )
        return made

    def join(self, draft: Draft) -> None:
        """Parts into a whole: some of them twice, some as they lie, some through a view."""
        parts = [self.pick(draft) for _ in range(self.random.randint(1, 3))]
        behind = self.random.choice((0, 0, 4))
        whole = self.own(draft, sum(self.sizes[part] for part in parts) + behind, "temporary", "C")
        matches, at = [], 0
        for part in parts:
            if not self.chance(6):
                matches.append(Match(part, whole, at))
            at += self.sizes[part]
        reads = tuple(dict.fromkeys(parts))
        self.emit(draft, "join", reads=reads, writes=(whole,), matches=tuple(matches))

    def cut(self, draft: Draft) -> None:
        """Parts out of a whole; they may overlap in it."""
        whole = self.pick(draft)
        made, matches = [], []
        for _ in range(self.random.randint(1, 3)):
            size = self.random.choice([size for size in (4, 8, 16) if size <= self.sizes[whole]] or [0])
            distance = 4 * self.random.randint(0, (self.sizes[whole] - size) // 4)
            made.append(self.own(draft, size, "temporary", "C"))
            matches.append(Match(made[-1], whole, distance))
        self.emit(draft, "cut", reads=(whole,), writes=tuple(made), matches=tuple(matches))
