"""Everything that is known of a method before anyone asks where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lowtide.frontends.pte.allowances import Allowance, allowance_of
from lowtide.frontends.pte.instruction_effects import computed_numbers, effects_of
from lowtide.frontends.pte.methods import methods_of
from lowtide.frontends.pte.paths import paths_of
from lowtide.frontends.pte.scratch import settle_scratch
from lowtide.frontends.pte.views import find_views

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.pte.instruction_effects import PteEffect
    from lowtide.frontends.pte.methods import Method
    from lowtide.frontends.pte.paths import Paths
    from lowtide.frontends.pte.reading import PteFile
    from lowtide.frontends.pte.views import Views


@dataclass(frozen=True)
class Analysis:
    """A method and what its instructions mean.

    Args:
        method: values and instructions.
        effects: what each instruction does.
        paths: where control may go.
        views: which tensors are views, and which are state.
        begins: for an edge into a loop, the tensors that the loop fills part by part.
        computed: numbers that the program computes.
    """

    method: Method
    effects: tuple[PteEffect, ...]
    paths: Paths
    views: Views
    begins: dict[tuple[int, int], tuple[int, ...]]
    computed: frozenset[int]
    _allowances: dict[int, Allowance] = field(default_factory=dict, repr=False, compare=False)

    def allowance(self, at: int) -> Allowance:
        """What the kernel of an instruction allows; looked up when somebody asks, as it seldom matters."""
        if at not in self._allowances:
            self._allowances[at] = allowance_of(self.method, self.method.instructions[at], self.computed)
        return self._allowances[at]

    @property
    def unknown(self) -> tuple[int, ...]:
        """Instructions of which the worst is assumed."""
        return tuple(at for at, effect in enumerate(self.effects) if effect.unknown)


def analyse(file: PteFile) -> tuple[Analysis, ...]:
    """All methods of a file, in order."""
    found = []
    for method in methods_of(file.program, file.name):
        effects = settle_scratch(method, effects_of(file, method))
        paths = paths_of(method)
        begins = _begins(effects, paths)
        views = find_views(method, effects, paths, begins)
        found.append(Analysis(method, effects, paths, views, begins, computed_numbers(method)))
    return tuple(found)


def _begins(effects: Sequence[PteEffect], paths: Paths) -> dict[tuple[int, int], tuple[int, ...]]:
    """A tensor that is gathered belongs to the innermost loop around; its bytes are its own from there."""
    found: dict[tuple[int, int], dict[int, None]] = {}
    for at, effect in enumerate(effects):
        around = [loop for loop in paths.loops if loop[0] <= at <= loop[1]]
        if not effect.gathers or not around:
            continue
        first, last = min(around, key=lambda loop: loop[1] - loop[0])
        for before in paths.predecessors[first]:
            if not first <= before <= last:
                found.setdefault((before, first), {}).update(dict.fromkeys(effect.gathers))
    return {edge: tuple(values) for edge, values in found.items()}


def shared_arenas(analyses: Sequence[Analysis]) -> frozenset[int]:
    """Memory ids other than the default that several methods have and one keeps state in.

    Whoever runs the methods may give them one block of memory for such an arena, so that state is shared;
    the file does not say. Its tensors stay where they are in all methods.
    """
    used: dict[int, int] = {}
    stateful: set[int] = set()
    for analysis in analyses:
        for memory in analysis.method.arenas:
            used[memory] = used.get(memory, 0) + 1
        for value in analysis.views.state:
            place = analysis.method.tensors[value].place
            if place is not None:
                stateful.add(place.memory)
    return frozenset(memory for memory in stateful if memory > 1 and used.get(memory, 0) > 1)
