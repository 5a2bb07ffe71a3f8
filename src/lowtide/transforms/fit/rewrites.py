"""Rewrites: changes of single operators that make them need less memory, one list for all runtimes.

A rewrite takes a program and gives it back changed, or None where there is nothing for it to do; it leaves
what it is given alone. The search packs what it made, and keeps it only if the arena is smaller. To add one,
write a function of this type and put it in ``REWRITES``, the cheapest first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from lowtide.transforms.fit.values import Target


@dataclass(frozen=True)
class Rewritten:
    """A program after a rewrite.

    Args:
        program: the new program.
        nodes: names of the nodes that it changed.
        file_bytes: bytes by which constants grew.
    """

    program: ExportedProgram
    nodes: tuple[str, ...]
    file_bytes: int = 0


@dataclass(frozen=True)
class Rewrite:
    """One rewrite.

    Args:
        name: what it does, in a few words.
        run: makes the new program, in the operators of a target's dialect.
        rounds: whether outputs may differ in their last bits.
    """

    name: str
    run: Callable[[ExportedProgram, Target], Rewritten | None]
    rounds: bool = False


REWRITES: list[Rewrite] = []
"""All of them, in the order in which they are tried."""
