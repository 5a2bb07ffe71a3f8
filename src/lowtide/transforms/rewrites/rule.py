"""What a rule is, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.transforms.copying import copy_program, with_module
from lowtide.transforms.rewrites.constants import values_of_constants
from lowtide.transforms.rewrites.editing import Editor, is_functional, modules_of

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.export import ExportedProgram

    from lowtide.transforms.rewrites.dialect import Dialect


@dataclass(frozen=True)
class Change:
    """One place where a rule changed a program.

    Args:
        rule: name of the rule.
        nodes: names of the nodes that it replaced or changed; nodes of branches and loops are named as there.
        note: what was done, for people.
    """

    rule: str
    nodes: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class Rewritten:
    """A changed program.

    Args:
        program: the new program; the given one if nothing was changed.
        changes: what was done, in the order of the program.
    """

    program: ExportedProgram
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Site:
    """A graph that a rule may change.

    Args:
        edit: makes nodes in it and takes them away.
        constants: the tensors of its parameters and constants, where they are known and no run changes them.
        worth: tensors of fewer bytes than this are left alone by rules that add steps.
    """

    edit: Editor
    constants: Mapping[fx.Node, torch.Tensor]
    worth: int


Changed = tuple[tuple[str, ...], str]
"""Names of nodes, and what was done to them."""


@dataclass(frozen=True)
class Rule:
    """A rewrite with a name, which can be switched on and off.

    Args:
        name: for people and for ``rules=``.
        summary: what it does, in one sentence.
        run: changes one graph.
        keeps_bits: whether every output bit stays, whatever the inputs. Other rules run only on request.
        adds_steps: whether it pays with further steps, so that it is of use only at a peak.
        needs: kernels beyond ExecuTorch's portable ones that its result calls.
        difference: of a rule that may round differently, how far outputs were measured to differ.
    """

    name: str
    summary: str
    run: Callable[[Site], list[Changed]]
    keeps_bits: bool = True
    adds_steps: bool = False
    needs: frozenset[str] = frozenset()
    difference: str = ""

    def apply(self, program: ExportedProgram, dialect: Dialect, *, worth: int = 0) -> Rewritten:
        """Change a copy of a program wherever the rule fits, in its branches and loops too.

        Args:
            program: what to change; it is left as it is.
            dialect: whose operators the new steps call.
            worth: bytes; a rule that adds steps leaves smaller tensors alone.
        """
        copy = copy_program(program)
        found: list[Change] = []
        for module in modules_of(copy.graph_module):
            if not is_functional(module.graph):
                continue  # what a name means there depends on when it is read
            is_root = module is copy.graph_module
            constants = values_of_constants(copy) if is_root else {}
            edit = Editor(module.graph, dialect)
            changed = self.run(Site(edit, constants, worth if self.adds_steps else 0))
            if changed:
                edit.finish()
                module.recompile()
                found += [Change(self.name, nodes, note) for nodes, note in changed]
        if not found:
            return Rewritten(program, ())
        verifiers = dialect.verifiers(copy, self.needs)
        return Rewritten(with_module(copy, copy.graph_module, verifiers=verifiers), tuple(found))
