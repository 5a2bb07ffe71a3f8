"""Random Programs, made of regions, steps and calls directly: no framework, thousands a second.

Every program is valid: what is read was written before on every path, constants are never written,
copies have ends of equal size, regions do not call themselves. Within that, everything that a Program
can say occurs: all kinds of calls, nested; regions called from several places, or twice by one call;
views of the whole and of parts, values that may alias, moved pointers; partial writes, writes through
views and parameters; scratch, state and writebacks; results that are parameters, constants, views,
returned twice or nothing at all; storages of no bytes, of unbounded size, planned or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from lowtide.ir.program import Call, Program, Region, Step, Value
from lowtide.testing.drafts import Draft, Kind, Sketch


class Maker(Sketch):
    """Makes one program; the arguments are those of ``Sketch``."""

    def make(self) -> Program:
        root = self.open("root", "root", None)
        for _ in range(self.random.randint(1, 3)):
            root.params.append(self.own(root, self.size(), "input"))
        for _ in range(self.random.randint(0, 2)):
            self.states.append(self.own(root, self.size(), "state"))
        for _ in range(self.random.randint(0, 1)):
            self.constants.append(self.own(root, self.size(), "constant"))
        self.fill(root, self.depth)
        while self.left > 0:
            self.fill(root, self.depth)
        root.outputs = [
            None if self.chance(10) else self.pick(root) for _ in range(self.random.randint(1, 4))
        ]
        written = [state for state in self.states if self.chance(2)]
        writebacks = [(state, self.of_size(root, self.sizes[state])) for state in written]
        self.settle(root)
        regions = tuple(
            Region(d.name, tuple(d.params), tuple(d.steps), tuple(d.outputs), d.role, d.parent)
            for d in self.drafts
        )
        return Program(regions, tuple(self.values), tuple(self.storages), tuple(writebacks))

    def settle(self, root: Draft) -> None:
        """What leaves the program is an output; inputs and outputs are planned or not."""
        returned = {s for o in root.outputs if o is not None for s in self.lies_in(o)}
        for i, storage in enumerate(self.storages):
            kind = storage.kind
            if kind in ("temporary", "result", "carry") and i in returned:
                kind = "output"
            planned = storage.planned and (kind != "input" or self.plan_inputs)
            if i in returned:
                planned = planned and self.plan_outputs
            self.storages[i] = replace(storage, kind=kind, planned=planned)

    def fill(self, draft: Draft, depth: int) -> None:
        for _ in range(self.random.randint(1, 5)):
            if self.left <= 0:
                return
            self.left -= 1
            steps: tuple[Callable[[Draft], object], ...]
            steps = (self.compute, self.compute, self.compute, self.view, self.update, self.overwrite)
            if self.sharing and self.chance(2):
                steps = (self.in_place, self.in_place, self.clone, self.join, self.cut, self.view)
            if depth > 0 and self.chance(3):
                calls = (self.call, self.cond, self.cond, self.loop, self.scan, self.associative_scan)
                self.random.choice(calls)(draft, depth - 1)
            elif self.chance(8):
                self.random.choice((self.may_alias, self.moved, self.pair, self.effect))(draft)
            else:
                self.random.choice(steps)(draft)

    # Calls.

    def child(self, draft: Draft, role: str, kinds: list[Kind], sizes: list[int], depth: int) -> int:
        """A region that takes values of these kinds and returns some of these sizes."""
        inner = self.open(f"{draft.name}/{role}{len(self.drafts)}", role, draft.position)
        for kind in kinds:
            made = Value(f"{inner.name}/p{len(self.values)}", inner.position)
            inner.params.append(self.value(made, kind.size, kind.writable))
            inner.live.append(inner.params[-1])
        inner.live += self.constants
        if self.chance(4):
            inner.live = inner.live[:1]
        if not self.chance(4):
            self.fill(inner, depth)
        inner.outputs = [None if size < 0 else self.of_size(inner, size) for size in sizes]
        if len(inner.outputs) > 1 and sizes[0] == sizes[1] and self.chance(3):
            inner.outputs[1] = inner.outputs[0]
        self.done.append((inner.position, tuple(kinds), tuple(sizes)))
        return inner.position

    def settle_carries(self, body: int, carried: int) -> None:
        """Let a loop's carries trade places now and then, and hold what an earlier copy changes."""
        if self.order == "parallel":
            return
        inner = self.drafts[body]
        params = inner.params[:carried]
        if self.chance(2):
            turned = [*params[1:], *params[:1]] if self.chance(2) else [*params[-1:], *params[:-1]]
            for k, output in enumerate(inner.outputs):
                param = turned[k] if k < carried else self.random.choice(params) if params else None
                if output is None or param is None:
                    continue
                if self.sizes[output] == self.sizes[param]:
                    inner.outputs[k] = self.clone(inner, param) if self.chance(2) else param
        for k, output in enumerate(inner.outputs):
            if output is not None and not self.roots(output).isdisjoint(params[:k]):
                inner.outputs[k] = self.clone(inner, output)

    def roots(self, value: int) -> set[int]:
        """The value itself, and those whose bytes it may be."""
        return {value}.union(*(self.roots(alias) for alias in self.values[value].aliases))

    def kinds(self, values: list[int | None]) -> list[Kind]:
        return [Kind(self.sizes[v], self.writable[v]) if v is not None else Kind(0, False) for v in values]

    def passed(self, draft: Draft) -> list[int | None]:
        return [None if self.chance(12) else self.pick(draft) for _ in range(self.random.randint(0, 3))]

    def results(self, draft: Draft, sizes: list[int]) -> tuple[int | None, ...]:
        return tuple(None if size < 0 else self.own(draft, size, "result") for size in sizes)

    def result_sizes(self) -> list[int]:
        return [-1 if self.chance(15) else self.size() for _ in range(self.random.randint(0, 3))]

    def step_of(self, draft: Draft, call: Call) -> None:
        call = replace(call, order=self.order)
        draft.steps.append(Step(f"{call.kind}{len(draft.steps)}", call.kind, effects=True, call=call))

    def again(self, draft: Draft) -> tuple[int, list[int | None], list[int]] | None:
        """A finished region, values to pass to it, and the sizes of what it returns."""
        if not self.done:
            return None
        region, kinds, sizes = self.random.choice(self.done)
        operands: list[int | None] = [
            None if kind == Kind(0, False) else self.of_size(draft, kind.size, kind.writable)
            for kind in kinds
        ]
        return region, operands, list(sizes)

    def call(self, draft: Draft, depth: int) -> None:
        known = self.again(draft) if not self.chance(3) else None
        if known is None:
            operands, sizes = self.passed(draft), self.result_sizes()
            region = self.child(draft, "call", self.kinds(operands), sizes, depth)
        else:
            region, operands, sizes = known
        results = self.results(draft, sizes)
        self.step_of(draft, Call("call", (region,), tuple(operands), results=results))

    def cond(self, draft: Draft, depth: int) -> None:
        known = self.again(draft) if self.chance(4) else None
        selector = None if self.chance(8) else self.pick(draft)
        if known is not None:
            first, operands, sizes = known
            second = (
                first if self.chance(2) else self.child(draft, "branch", self.kinds(operands), sizes, depth)
            )
        else:
            operands, sizes = self.passed(draft), self.result_sizes()
            kinds = self.kinds(operands)
            first = self.child(draft, "branch", kinds, sizes, depth)
            second = self.child(draft, "branch", kinds, sizes, depth)
        results = self.results(draft, sizes)
        self.step_of(
            draft, Call("cond", (first, second), tuple(operands), results=results, selector=selector)
        )

    def carried(self, draft: Draft) -> tuple[list[int | None], list[int | None]]:
        """What a loop starts from, and its carries; not alive yet."""
        inits: list[int | None] = [
            None if self.chance(15) else self.pick(draft) for _ in range(self.random.randint(0, 3))
        ]
        before = len(draft.live)
        carries = [None if i is None else self.own(draft, self.sizes[i], "carry") for i in inits]
        del draft.live[before:]
        return inits, carries

    def loop(self, draft: Draft, depth: int) -> None:
        inits, carries = self.carried(draft)
        operands = self.passed(draft)
        kinds = self.kinds([*carries, *operands])
        sizes = [-1 if c is None else self.sizes[c] for c in carries]
        condition = self.child(draft, "condition", kinds, [4], depth)
        body = self.child(draft, "body", kinds, sizes, depth)
        self.settle_carries(body, len(carries))
        call = Call("while", (condition, body), tuple(operands), tuple(carries), tuple(inits))
        self.step_of(draft, call)
        draft.live += [c for c in carries if c is not None]

    def scan(self, draft: Draft, depth: int) -> None:
        inits, carries = self.carried(draft)
        slices = [self.pick(draft) for _ in range(self.random.randint(1, 2))]
        operands = self.passed(draft)
        stacked = [self.size() for _ in range(self.random.randint(0, 2))]
        kinds = [*self.kinds([*carries, *slices, *operands])]
        carry_sizes = [-1 if c is None else self.sizes[c] for c in carries]
        body = self.child(draft, "body", kinds, [*carry_sizes, *(4 for _ in stacked)], depth)
        self.settle_carries(body, len(carries))
        results = self.results(draft, stacked)
        call = Call("scan", (body,), tuple(operands), tuple(carries), tuple(inits), tuple(slices), results)
        self.step_of(draft, call)
        draft.live += [c for c in carries if c is not None]

    def associative_scan(self, draft: Draft, depth: int) -> None:
        slices = [self.pick(draft) for _ in range(self.random.randint(1, 2))]
        operands = self.passed(draft)
        results = self.results(draft, [self.sizes[s] for s in slices])
        del draft.live[-len(results) :]
        kinds = [Kind(4, False) for _ in slices] + self.kinds([*slices, *operands])
        body = self.child(draft, "body", kinds, [4 for _ in slices], depth)
        call = Call("associative_scan", (body,), tuple(operands), slices=tuple(slices), results=results)
        self.step_of(draft, call)
        draft.live += [r for r in results if r is not None]


def random_program(
    random: Random,
    *,
    steps: int = 12,
    depth: int = 3,
    plan_inputs: bool = True,
    plan_outputs: bool = True,
    sharing: bool = False,
    sequential: bool = False,
) -> Program:
    """A random valid program.

    Args:
        random: every decision.
        steps: about how many steps, calls included, all regions together.
        depth: how deep calls nest.
        plan_inputs, plan_outputs: whether these get a place in the arena.
        sharing: whether steps say which bytes may be shared: kernels that work in place, copies.
        sequential: whether calls make their copies one after another.
    """
    return Maker(
        random,
        steps=steps,
        depth=depth,
        plan_inputs=plan_inputs,
        plan_outputs=plan_outputs,
        sharing=sharing,
        sequential=sequential,
    ).make()
