"""Working memory that kernels are given as an argument: nothing fills it before, and nobody sees it after.

In a file it looks like any other tensor that is read. Bytes that are read and that nothing wrote are a fault,
or a static view whose base is still to be found; so only what the schema of an operator calls by such a name
is taken for scratch, and only if all that the program does with it is to hand it over so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.operators.registry import operator_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.frontends.pte.instruction_effects import PteEffect
    from lowtide.frontends.pte.methods import Method, PteInstruction
    from lowtide.operators.signatures import Parameter

_NAMES = frozenset({"scratch", "workspace", "tmp"})
"""Words that stand in the names of such arguments; Cortex-M's kernels have ``scratch`` and
``output_scratch``."""


def settle_scratch(method: Method, effects: Sequence[PteEffect]) -> tuple[PteEffect, ...]:
    """The effects of a method's instructions, with scratch told from what they read.

    Where several instructions are given the same scratch, one may leave something there for the next: the
    first fills it, and the others change what they find.

    Args:
        method: which has the instructions.
        effects: as the schemas have them.
    """
    settled = list(effects)
    met: set[int] = set()
    handed = [_scratch_of(method, instruction) for instruction in method.instructions]
    uses = Counter(value for values in handed for value in values)
    mentions = Counter(
        value for instruction in method.instructions for value in method.tensors_in(instruction.args)
    )
    outside = {*method.inputs, *method.outputs}
    for at, values in enumerate(handed):
        for value in values:
            tensor = method.tensors[value]
            if (
                tensor.place is None
                or tensor.initialised
                or value in outside
                or uses[value] != mentions[value]
            ):
                continue
            effect = settled[at]
            others = tuple(v for v in effect.reads if v != value)
            if uses[value] == 1:
                settled[at] = replace(effect, reads=others, scratch=(*effect.scratch, value))
            elif value not in met:
                settled[at] = replace(effect, reads=others, defines=(*effect.defines, value))
            else:
                settled[at] = replace(effect, updates=(*effect.updates, value))
            met.add(value)
    return tuple(settled)


def _scratch_of(method: Method, instruction: PteInstruction) -> tuple[int, ...]:
    """Tensors that a call hands over as what its schema calls scratch."""
    operator = operator_named(instruction.operator) if instruction.kind == "kernel" else None
    if operator is None or len(instruction.args) < len(operator.arguments):
        return ()
    declared = zip(operator.arguments, instruction.args, strict=False)
    return tuple(value for argument, value in declared if value in method.tensors and _is_scratch(argument))


def _is_scratch(argument: Parameter) -> bool:
    return not argument.alias and not _NAMES.isdisjoint(argument.name.split("_"))
