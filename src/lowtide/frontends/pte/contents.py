"""What a method takes beside its arenas: constants, delegates, and what it computes of constants alone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lowtide.frontends.pte.delegates import blob_of
from lowtide.ir.contents import Contents
from lowtide.operators.names import is_random

if TYPE_CHECKING:
    from lowtide.frontends.pte.analysis import Analysis
    from lowtide.frontends.pte.reading import PteFile


def contents_of(file: PteFile, analysis: Analysis) -> Contents:
    """What the file tells of one of its methods; buffers are named as in its plan."""
    method = analysis.method
    constants = {tensor.stored: tensor.size for tensor in method.tensors.values() if tensor.constant}
    delegates = range(len(method.plan.delegates or ()))
    computed = computed_of(analysis)
    base = analysis.views.base
    read = {
        base.get(value, value)
        for at, effect in enumerate(analysis.effects)
        if at not in computed
        for value in effect.reads
    }
    made = sorted({value for values in computed.values() for value in values})
    return Contents(
        constant_bytes=sum(constants.values()),
        delegates=len(delegates),
        delegate_bytes=tuple(len(blob_of(file, method, delegate)) for delegate in delegates),
        computed=tuple(f"{method.name}/%{value}" for value in made),
        computed_bytes=sum(method.tensors[value].size for value in made if value in read),
    )


def computed_of(analysis: Analysis) -> dict[int, tuple[int, ...]]:
    """Instructions that depend on constants alone, and the tensors that they make."""
    method, base = analysis.method, analysis.views.base
    known = {tensor.index for tensor in method.tensors.values() if tensor.constant}
    kept = {base.get(value, value) for value in (*method.outputs, *method.inputs, *analysis.views.state)}
    writers = Counter(
        base.get(value, value)
        for effect in analysis.effects
        for value in (*effect.writes, *(to for to, _ in (*effect.moves, *effect.views, *effect.may_view)))
    )
    found: dict[int, tuple[int, ...]] = {}
    for at, (instruction, effect) in enumerate(zip(method.instructions, analysis.effects, strict=True)):
        made = tuple(base.get(value, value) for value in effect.defines)
        only_defines = effect.writes == effect.defines and not (
            effect.moves or effect.views or effect.may_view
        )
        if (
            instruction.kind == "kernel"
            and made
            and only_defines
            and not effect.unknown
            and not is_random(instruction.operator)
            and all(base.get(value, value) in known for value in effect.reads)
            and all(writers[value] == 1 and value not in kept for value in made)
            and all(method.tensors[value].static for value in made)
        ):
            found[at] = made
            known.update(made)
    return found
