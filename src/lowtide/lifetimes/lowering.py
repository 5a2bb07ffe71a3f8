"""Program -> FlowGraph: regions laid out depth first on one clock.

A call's points lie inside the call's span, exclusive branches one after the other, a loop's body once
with an edge back. A region called from several places is laid out once a call, and all of its
activations share its storages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.errors import LowtideError, UnsupportedError
from lowtide.base.recursion import deep_recursion
from lowtide.ir.flow import (
    Activation,
    Binding,
    Bytes,
    Copy,
    FlowGraph,
    Point,
    PointKind,
    Ref,
    SameBytes,
)
from lowtide.lifetimes.resolver import Resolver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lowtide.ir.program import Call, Program, Step

POINT_LIMIT = 200_000
"""Regions that call regions that call regions multiply; beyond this the program is refused.

Time and memory grow near-linearly with the points of a straight program: 100,000 steps with a weight each
are planned (first fit, in place) and verified in some 20 s of CPU time and 400 MB. Where many storages live
across many branches and loops, they grow with the product of the two.
"""


def lower(program: Program, *, point_limit: int = POINT_LIMIT) -> FlowGraph:
    """Lay a program out on the clock.

    Raises:
        UnsupportedError: calls multiply into more than ``point_limit`` points, or a region calls itself.
        LowtideError: a call does not fit its regions.
    """
    with deep_recursion():
        try:
            return _Lowering(program, point_limit).run()
        except RecursionError:
            raise UnsupportedError(f"{program.name}: its calls or views nest too deep") from None


class _Draft:
    """A point under construction: its successors are not known yet."""

    __slots__ = ("point", "successors")

    def __init__(self, point: Point) -> None:
        self.point = point
        self.successors: list[int] = []


class _Lowering:
    def __init__(self, program: Program, point_limit: int) -> None:
        self.program = program
        self.limit = point_limit
        self.drafts: list[_Draft] = []
        self.activations: list[Activation] = []
        self.spans: list[tuple[int, int, int]] = []
        self.loose: list[int] = []  # points that fall through to whatever comes next
        self.resolver = Resolver(program, self.activations)

    def run(self) -> FlowGraph:
        program = self.program
        root = self.activate(0, None, -1, {})
        present = [
            i for i, storage in enumerate(program.storages) if storage.kind in ("input", "state", "constant")
        ]
        self.emit("entry", root, writes=tuple(present))
        self.body(root)
        if program.writebacks:
            copies = tuple(self.copy(Ref(root, state), Ref(root, new)) for state, new in program.writebacks)
            self.emit("copy", root, step=-1, copies=copies)
        self.emit("exit", root, reads=self.survivors(root))
        self.spans.append((0, 0, len(self.drafts)))
        points = tuple(
            Point(
                **{name: getattr(draft.point, name) for name in Point.__slots__ if name != "successors"},
                successors=tuple(draft.successors),
            )
            for draft in self.drafts
        )
        return FlowGraph(program, points, tuple(self.activations), tuple(self.spans))

    def survivors(self, root: int) -> tuple[int, ...]:
        """What is looked at when the program is done: outputs, state, and inputs that it has written."""
        written: set[int] = set()
        for draft in self.drafts[1:]:
            written.update(draft.point.full_writes, draft.point.partial_writes)
        kept = {
            i
            for i, storage in enumerate(self.program.storages)
            if storage.persistent or (storage.kind == "input" and i in written)
        }
        for output in self.program.regions[0].outputs:
            if output is not None:
                kept.update(self.resolver.bytes(Ref(root, output)).storages)
        return tuple(sorted(kept))

    def activate(self, region: int, parent: int | None, step: int, bindings: dict[int, Binding]) -> int:
        at: int | None = parent
        while at is not None:
            if self.activations[at].region == region:
                name = self.program.regions[region].name
                raise UnsupportedError(
                    f"region {name} calls itself: recursion cannot be planned ahead of time"
                )
            at = self.activations[at].parent
        self.activations.append(Activation(region, parent, step, bindings))
        return len(self.activations) - 1

    def emit(
        self,
        kind: PointKind,
        activation: int,
        step: int = -1,
        *,
        reads: tuple[int, ...] = (),
        writes: tuple[int, ...] = (),
        partial: tuple[int, ...] = (),
        copies: tuple[Copy, ...] = (),
        decides: Ref | None = None,
        overwrites: tuple[tuple[int, int], ...] = (),
        matches: tuple[SameBytes, ...] = (),
    ) -> int:
        tick = len(self.drafts)
        if tick >= self.limit:
            raise UnsupportedError(
                f"{self.program.name}: its calls unfold into more than {self.limit} program points; "
                "call shared regions from fewer places, or raise point_limit"
            )
        point = Point(
            kind,
            activation,
            step,
            reads,
            writes,
            partial,
            copies,
            decides,
            overwrites=overwrites,
            matches=matches,
        )
        self.drafts.append(_Draft(point))
        for predecessor in self.loose:
            self.drafts[predecessor].successors.append(tick)
        self.loose = [tick]
        return tick

    def body(self, activation: int) -> None:
        region = self.program.regions[self.activations[activation].region]
        for position, step in enumerate(region.steps):
            if step.call is not None:
                getattr(self, f"call_{step.call.kind}")(activation, position, step.call)
            else:
                self.step(activation, position, step)

    def step(self, activation: int, position: int, step: Step) -> None:
        whole, some = self.resolver.written(activation, step)
        tick = self.emit(
            "step",
            activation,
            position,
            reads=self.resolver.storages(activation, step.reads),
            writes=whole,
            partial=some,
            overwrites=self.resolver.overwrites(activation, step),
            matches=self.resolver.matches(activation, step),
        )
        for region in sorted({self.program.storages[s].region for s in step.scratch}):
            if region != self.activations[activation].region:
                self.spans.append((region, tick, tick + 1))

    # Calls. Each lays out its regions and leaves in `loose` the points from which the caller goes on.

    def call_call(self, activation: int, position: int, call: Call) -> None:
        (region,) = self.regions(call, 1)
        self.returning(activation, position, call, region)

    def call_cond(self, activation: int, position: int, call: Call) -> None:
        decides = None if call.selector is None else Ref(activation, call.selector)
        reads = self.resolver.bytes(decides).storages if decides else ()
        select = self.emit("select", activation, position, reads=reads, decides=decides)
        ends: list[int] = []
        for region in call.regions:
            self.loose = [select]
            self.returning(activation, position, call, region)
            ends += self.loose
        self.loose = ends

    def returning(self, activation: int, position: int, call: Call, region: int) -> None:
        """Run a region once, then copy its outputs to the call's results."""
        inner = self.enter(activation, position, call, region, carries=(), slices=())
        start = len(self.drafts)
        self.body(inner)
        outputs = self.outputs(region, len(call.results))
        copies = self.copies(
            (self.ref(activation, result), self.ref(inner, output))
            for result, output in zip(call.results, outputs, strict=True)
        )
        self.emit_copies(inner, -1, call, copies)
        self.spans.append((region, start, len(self.drafts)))

    def call_while(self, activation: int, position: int, call: Call) -> None:
        condition, body = self.regions(call, 2)
        self.emit_copies(activation, position, call, self.initial(activation, call))
        test_inner = self.enter(activation, position, call, condition, carries=call.carries, slices=())
        start = len(self.drafts)
        self.body(test_inner)
        (verdict,) = self.outputs(condition, 1)
        decides = self.ref(test_inner, verdict)
        reads = self.resolver.bytes(decides).storages if decides else ()
        test = self.emit("test", test_inner, reads=reads, decides=decides)
        self.spans.append((condition, start, len(self.drafts)))
        inner = self.enter(activation, position, call, body, carries=call.carries, slices=())
        first = len(self.drafts)
        self.body(inner)
        outputs = self.outputs(body, len(call.carries))
        copies = self.copies(
            (self.ref(activation, carry), self.ref(inner, output))
            for carry, output in zip(call.carries, outputs, strict=True)
        )
        self.emit_copies(inner, -1, call, copies)
        self.spans.append((body, first, len(self.drafts)))
        self.back_to(start)
        self.loose = [test]

    def call_scan(self, activation: int, position: int, call: Call) -> None:
        (body,) = self.regions(call, 1)
        begun = self.resolver.storages(activation, (r for r in call.results if r is not None))
        self.emit_copies(activation, position, call, self.initial(activation, call), begun)
        head = self.emit("next", activation, position)
        inner = self.enter(activation, position, call, body, carries=call.carries, slices=call.slices)
        start = len(self.drafts)
        self.body(inner)
        outputs = self.outputs(body, len(call.carries) + len(call.results))
        carried, stacked = outputs[: len(call.carries)], outputs[len(call.carries) :]
        copies = self.copies(
            (self.ref(activation, carry), self.ref(inner, output))
            for carry, output in zip(call.carries, carried, strict=True)
        ) + self.copies(
            (
                (self.ref(activation, result), self.ref(inner, output))
                for result, output in zip(call.results, stacked, strict=True)
            ),
            part=0,
        )
        self.emit_copies(inner, -1, call, copies)
        self.spans.append((body, start, len(self.drafts)))
        self.back_to(head)
        self.loose = [head]

    def call_associative_scan(self, activation: int, position: int, call: Call) -> None:
        (body,) = self.regions(call, 1)
        begun = self.resolver.storages(activation, (r for r in call.results if r is not None))
        first = self.copies(
            (
                (self.ref(activation, result), self.ref(activation, source))
                for result, source in zip(call.results, call.slices, strict=True)
            ),
            part=-1,
        )
        self.emit_copies(activation, position, call, first, begun)
        head = self.emit("next", activation, position)
        previous = tuple(Binding(self.ref(activation, result), part=-1) for result in call.results)
        inner = self.enter(
            activation, position, call, body, carries=(), slices=call.slices, previous=previous
        )
        start = len(self.drafts)
        self.body(inner)
        outputs = self.outputs(body, len(call.results))
        copies = self.copies(
            (
                (self.ref(activation, result), self.ref(inner, output))
                for result, output in zip(call.results, outputs, strict=True)
            ),
            part=0,
        )
        self.emit_copies(inner, -1, call, copies)
        self.spans.append((body, start, len(self.drafts)))
        self.back_to(head)
        self.loose = [head]

    def emit_copies(
        self,
        activation: int,
        position: int,
        call: Call,
        copies: tuple[Copy, ...],
        begun: tuple[int, ...] = (),
    ) -> None:
        """The copies of one place, in the order in which the runtime makes them; at least one point.

        Args:
            begun: stacked results that come into being here, before anything is written into them.
        """
        if call.order == "parallel":
            self.emit("copy", activation, position, copies=copies, writes=begun)
            return
        self.require_order(activation, call, copies)
        whole = [copy for copy in copies if copy.part is None]
        parts = [copy for copy in copies if copy.part is not None]
        for copy in whole:
            self.emit("copy", activation, position, reads=copy.source_storages, copies=(copy,))
        if begun or not copies:
            self.emit("copy", activation, position, writes=begun)
        for copy in parts:
            self.emit("copy", activation, position, reads=copy.source_storages, copies=(copy,))

    def require_order(self, activation: int, call: Call, copies: tuple[Copy, ...]) -> None:
        """Refuse a sequence of copies that is not the same as all of them at once."""
        changed: set[int] = set()
        for copy in copies:
            spoilt = changed.intersection(copy.source_storages)
            if spoilt:
                region = self.program.regions[self.activations[activation].region].name
                name = self.program.storages[min(spoilt)].name
                raise LowtideError(
                    f"region {region}: {name} is copied after a copy has changed it, as the runtime of this "
                    f"{call.kind} makes one copy after another: hold the old value in a step of its own"
                )
            # A new part of a stacked result changes none that is there already.
            stays = copy.source_storages == (copy.target_storage,)
            if copy.target_storage is not None and copy.part is None and not stays:
                changed.add(copy.target_storage)

    def back_to(self, tick: int) -> None:
        for end in self.loose:
            self.drafts[end].successors.append(tick)

    # Binding and resolving.

    def enter(
        self,
        activation: int,
        position: int,
        call: Call,
        region: int,
        *,
        carries: tuple[int | None, ...],
        slices: tuple[int, ...],
        previous: tuple[Binding, ...] = (),
    ) -> int:
        arguments = [
            *previous,
            *(Binding(self.ref(activation, carry)) for carry in carries),
            *(Binding(self.ref(activation, source), part=0) for source in slices),
            *(Binding(self.ref(activation, operand)) for operand in call.operands),
        ]
        target = self.program.regions[region]
        if len(arguments) != len(target.params):
            raise LowtideError(
                f"region {target.name} takes {len(target.params)} values and is called with {len(arguments)}"
            )
        return self.activate(region, activation, position, dict(zip(target.params, arguments, strict=True)))

    def regions(self, call: Call, count: int) -> tuple[int, ...]:
        if len(call.regions) != count:
            raise LowtideError(f"a {call.kind} call has {count} regions, not {len(call.regions)}")
        return call.regions

    def outputs(self, region: int, count: int) -> tuple[int | None, ...]:
        found = self.program.regions[region]
        if len(found.outputs) != count:
            raise LowtideError(
                f"region {found.name} returns {len(found.outputs)} values; its caller takes {count}"
            )
        return found.outputs

    def initial(self, activation: int, call: Call) -> tuple[Copy, ...]:
        pairs = zip(call.carries, call.inits, strict=True)
        return self.copies((self.ref(activation, carry), self.ref(activation, init)) for carry, init in pairs)

    @staticmethod
    def ref(activation: int, value: int | None) -> Ref | None:
        return None if value is None else Ref(activation, value)

    def copies(
        self, pairs: Iterable[tuple[Ref | None, Ref | None]], part: int | None = None
    ) -> tuple[Copy, ...]:
        return tuple(self.copy(target, source, part) for target, source in pairs)

    def copy(self, target: Ref | None, source: Ref | None, part: int | None = None) -> Copy:
        to = self.resolver.bytes(target) if target else Bytes((), "")
        origin = self.resolver.bytes(source) if source else Bytes((), "")
        same = part is None and to.layout != "" and to.layout == origin.layout
        if len(to.storages) > 1:
            assert target is not None
            raise LowtideError(f"{self.program.values[target.value].name} is filled by a copy but is a view")
        return Copy(target, source, to.storages[0] if to.storages else None, origin.storages, same, part)
