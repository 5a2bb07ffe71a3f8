"""Programs of any length, for what grows with steps: a straight one and nested loops."""

from __future__ import annotations

from lowtide.ir.program import Call, Program, Region, Step, Storage, Value

RESIDUAL = 8
"""Every so many steps also read what this many steps before them made."""

STRETCH = 50
"""So many results in a row have one size, so that each may lie over the one before."""


class _Draft:
    """Storages and values while a program is being made."""

    def __init__(self) -> None:
        self.storages: list[Storage] = []
        self.values: list[Value] = []

    def new(self, name: str, kind: str = "temporary", size: int = 64, region: int = 0) -> int:
        planned = kind != "constant"
        found = Storage(name, size, kind, region, planned, alignment=16)  # type: ignore[arg-type]
        self.storages.append(found)
        return self.value(name, region, len(self.storages) - 1)

    def value(self, name: str, region: int, storage: int | None = None) -> int:
        self.values.append(Value(name, region, storage, (), "d"))
        return len(self.values) - 1

    def chain(self, region: str, at: int, first: int, count: int, start: int = 0) -> tuple[list[Step], int]:
        """Steps that read what the last one made and a weight of their own; some an older value too."""
        made, steps = [first], []
        for i in range(start, start + count):
            size = 16 * (1 + (i // STRETCH) * 37 % 61)
            out = self.new(f"{region}/s{i}", size=size, region=at)
            weight = self.new(f"{region}/w{i}", "constant", region=at)
            reads = [made[-1], weight]
            if i % RESIDUAL == 0 and len(made) >= RESIDUAL:
                reads.append(made[-RESIDUAL])
            steps.append(Step(f"s{i}", "op", tuple(reads), (out,), overwrites=((out, made[-1]),)))
            made.append(out)
        return steps, made[-1]


def straight(count: int) -> Program:
    """Steps in a row."""
    draft = _Draft()
    first = draft.new("root/x", "input")
    steps, last = draft.chain("root", 0, first, count)
    return Program(
        (Region("root", (first,), tuple(steps), (last,)),), tuple(draft.values), tuple(draft.storages)
    )


def loops(depth: int, count: int) -> Program:
    """Loops inside loops, each with so many steps, half of them before the loop inside."""
    draft = _Draft()
    regions: list[Region] = []
    first = draft.new("root/x", "input")
    steps, last = draft.chain("root", 0, first, count // 2)
    regions.append(Region("root", (first,), tuple(steps), (last,)))
    for level in range(depth):
        at, inner = 2 * level, 2 * level + 1
        parent = regions[at]
        carry = draft.new(f"{parent.name}/loop", "carry", region=at)
        call = Call("while", (inner, inner + 1), carries=(carry,), inits=(parent.outputs[0],))
        test = f"{parent.name}/cond{level}"
        seen = draft.value(f"{test}/p", inner)
        verdict = draft.new(f"{test}/v", region=inner)
        body = f"root/body{level}"
        given = draft.value(f"{body}/p", inner + 1)
        steps, last = draft.chain(body, inner + 1, given, count // 2)
        after, end = draft.chain(parent.name, at, carry, count // 2, start=count // 2)
        loop = Step(f"loop{level}", "while_loop", call=call)
        regions[at] = Region(
            parent.name, parent.params, (*parent.steps, loop, *after), (end,), parent.kind, parent.parent
        )
        regions += [
            Region(test, (seen,), (Step("v", "op", (seen,), (verdict,)),), (verdict,), "condition", at),
            Region(body, (given,), tuple(steps), (last,), "body", at),
        ]
    return Program(tuple(regions), tuple(draft.values), tuple(draft.storages))
