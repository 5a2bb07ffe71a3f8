"""Which tensors are views, and which are state: what a ``.pte`` does not say and its code implies.

A static view costs nothing at run time: it is a tensor of its own at its base's bytes, and no instruction
makes it. So a planned tensor that is read, and that nothing ever fills, is a view; its base is a tensor of
the same bytes and type that has surely been filled, on every path and in the same loops, where it is read.
Values are numbered as they were emitted, so of several bases the latest before the view is meant.

A tensor that is read before anything in the program fills it, and that the program changes in place,
keeps its bytes from one run to the next: it is state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.lifetimes.liveness import bits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lowtide.frontends.pte.instruction_effects import PteEffect
    from lowtide.frontends.pte.methods import Method
    from lowtide.frontends.pte.paths import Paths

Edge = tuple[int, int]
"""Two points, the second of which may come right after the first."""


@dataclass(frozen=True)
class Views:
    """What the code implies.

    Args:
        base: for each static view the tensor that fills its bytes, which is no view itself.
        guessed: views whose base is inferred although it lies elsewhere; see ``find_views``.
        lost: views that no tensor can be the base of.
        state: tensors that keep their bytes from one run to the next.
        targets: tensors that a move gives another's pointer.
    """

    base: dict[int, int]
    guessed: frozenset[int]
    lost: frozenset[int]
    state: frozenset[int]
    targets: frozenset[int]


def find_views(
    method: Method, effects: Sequence[PteEffect], paths: Paths, begins: Mapping[Edge, tuple[int, ...]]
) -> Views:
    """Find views and state of a method.

    A view of which nothing at its own place can be the base reads bytes that nobody wrote. What it was
    meant to be a view of can still be told if there is just one tensor of its size and type that it can
    have been made of, or just one of these that nothing else reads: programs are exported without dead
    code.
    """
    return _Finder(method, effects, paths, begins).run()


class _Finder:
    def __init__(
        self,
        method: Method,
        effects: Sequence[PteEffect],
        paths: Paths,
        begins: Mapping[Edge, tuple[int, ...]],
    ) -> None:
        self.method, self.effects, self.paths = method, effects, paths
        self.filled: dict[int, list[int]] = {}
        self.changed: dict[int, list[int]] = {}
        self.used: dict[int, list[int]] = {}
        self.targets: set[int] = set()
        end = len(method.instructions)
        for at, effect in enumerate(effects):
            for value in (*effect.defines, *effect.overwrites):
                self.filled.setdefault(value, []).append(at)
            for value in (*effect.updates, *effect.overwrites):
                self.changed.setdefault(value, []).append(at)
            for to, source in (*effect.moves, *effect.views):
                self.filled.setdefault(to, []).append(at)
                self.used.setdefault(source, []).append(at)
            for _, source in effect.may_view:
                self.used.setdefault(source, []).append(at)
            self.targets.update(to for to, _ in effect.moves)
            for value in (*effect.reads, *effect.updates):
                self.used.setdefault(value, []).append(at)
        for (before, _), gathered in begins.items():
            for value in gathered:
                self.filled.setdefault(value, []).append(before)
        for value in method.outputs:
            self.used.setdefault(value, []).append(end)
        tensors = method.tensors.values()
        # What has a name and never got any bytes is a mutable buffer that the caller fills, or other methods.
        self.provided = {t.index for t in tensors if t.name and not (t.initialised or t.constant)}
        given = (t.index for t in tensors if t.initialised or t.constant)
        self.entering = {*method.inputs, *given, *self.provided}
        self.assigned = self.solve()

    def run(self) -> Views:
        base = self.views_of_state()
        state = {t.index for t in self.method.planned if t.initialised and t.index not in base}
        state |= self.uninitialised_state() | (self.provided - base.keys())
        self.entering = {*self.entering, *state} - base.keys()
        self.assigned = self.solve()
        orphans = []
        for tensor in self.method.planned:
            view = tensor.index
            if view in self.filled or view in self.entering or view in base or view not in self.used:
                continue
            found = self.base_at_place(view)
            if found is None:
                orphans.append(view)
            else:
                base[view] = base.get(found, found)
        guessed = self.guess(orphans, base)
        lost = frozenset(orphans) - guessed.keys()
        return Views({**base, **guessed}, frozenset(guessed), lost, frozenset(state), frozenset(self.targets))

    def solve(self) -> list[int]:
        """At each point, the tensors that have surely been filled, as a bit set."""
        made = [0] * self.paths.count
        for value, points in self.filled.items():
            for at in points:
                made[at] |= 1 << value
        return self.paths.surely(bits(self.entering), made)

    def views_of_state(self) -> dict[int, int]:
        """Views of state lie where it lies and have its name; without a name, the same first bytes."""
        first: dict[object, int] = {}
        found = {}
        for tensor in self.method.planned:
            if tensor.initialised or tensor.index in self.provided:
                base = first.setdefault((tensor.place, tensor.name or tensor.stored), tensor.index)
                if base != tensor.index:
                    found[tensor.index] = base
        return found

    def uninitialised_state(self) -> set[int]:
        """Planned tensors that are changed in place and, on some path, looked at before they are filled.

        What has the place of a tensor that was filled before is a view of that.
        """
        found = set()
        for tensor in self.method.planned:
            value = tensor.index
            if value not in self.changed or value in self.entering or value in self.targets:
                continue
            early = any(not (self.assigned[at] >> value) & 1 for at in self.used.get(value, ()))
            if early and (value in self.filled or self.base_at_place(value) is None):
                found.add(value)
        return found

    def base_at_place(self, view: int) -> int | None:
        tensor = self.method.tensors[view]
        for value in sorted(self.method.tensors, reverse=True):
            other = self.method.tensors[value]
            if value >= view or other.place != tensor.place or other.dtype != tensor.dtype:
                continue
            if self.can_be_seen(value, view):
                return value
        return None

    def can_be_seen(self, value: int, view: int) -> bool:
        """Whether one value has surely been filled, in loops that go on, wherever another is looked at."""
        looks = self.used[view]
        if not all((self.assigned[at] >> value) & 1 for at in looks):
            return False
        makers = self.filled.get(value, ())
        return value in self.entering or all(
            any(self.paths.same_loops(made, look) for made in makers) for look in looks
        )

    def guess(self, orphans: list[int], base: dict[int, int]) -> dict[int, int]:
        """Bases of views that lie elsewhere, where just one tensor can be meant."""
        found: dict[int, int] = {}
        by_place: dict[object, list[int]] = {}
        for view in orphans:
            tensor = self.method.tensors[view]
            by_place.setdefault((tensor.place, tensor.dtype), []).append(view)
        for views in by_place.values():
            fits = {base.get(value, value) for value in self.candidates(views)}
            if len(fits) > 1:
                fits = {value for value in fits if self.idle(value, views, base)}
            if len(fits) == 1 and fits.isdisjoint(found.values()):
                found.update(dict.fromkeys(views, fits.pop()))
        return found

    def candidates(self, views: list[int]) -> list[int]:
        """Tensors that views without a base can have been made of.

        Stock planners give bytes to the parameters of loops, and of branches to those that stand for state.
        What is made inside a loop only is none of its parameters.
        """
        tensor = self.method.tensors[views[0]]
        loop = self.innermost(views)
        found = []
        for other in self.method.tensors.values():
            value = other.index
            if value in views or (other.size, other.dtype) != (tensor.size, tensor.dtype):
                continue
            if value not in self.entering and value not in self.filled:
                continue
            makers = self.filled.get(value, ())
            if loop is None:
                fits = value in self.entering and value not in self.method.inputs and not other.constant
            else:
                fits = value in self.entering or any(not loop[0] <= at <= loop[1] for at in makers)
            if fits and all(self.can_be_seen(value, view) for view in views):
                found.append(value)
        return found

    def innermost(self, views: list[int]) -> Edge | None:
        """The smallest loop that all looks at some views are in."""
        looks = [at for view in views for at in self.used[view]]
        around = [loop for loop in self.paths.loops if all(loop[0] <= at <= loop[1] for at in looks)]
        return min(around, key=lambda loop: loop[1] - loop[0], default=None)

    def idle(self, value: int, views: list[int], base: dict[int, int]) -> bool:
        """Whether nothing that is known looks at a tensor; at what a loop carries, nothing in the loop."""
        names = [value, *(view for view, root in base.items() if root == value)]
        looks = [at for name in names for at in self.used.get(name, ())]
        loop = self.innermost(views)
        if loop is not None and any(loop[0] <= at <= loop[1] for at in self.filled.get(value, ())):
            looks = [at for at in looks if loop[0] <= at <= loop[1]]
        return not looks
