"""Program -> Rewriting: every rule that makes the packed arena smaller, until none does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.export import ExportedProgram

from lowtide.transforms.rewrites.dialect import dialect_of
from lowtide.transforms.rewrites.rules import chosen_rules

if TYPE_CHECKING:
    from lowtide.transforms.rewrites.rule import Change, Rule

Judge = Callable[[ExportedProgram], int]
"""Bytes of the packed arena of a program."""

_SHARE_WORTH = 8
"""Rules that add steps look at tensors of at least the arena over this."""


@dataclass(frozen=True)
class Win:
    """What one rule won.

    Args:
        rule: its name.
        keeps_bits: whether every output bit stays.
        before, after: bytes of the packed arena.
        changes: where it changed the program.
    """

    rule: str
    keeps_bits: bool
    before: int
    after: int
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Rewriting:
    """A program with the rewrites that pay.

    Args:
        program: the new program; the given one if no rule pays.
        wins: the rules that were used, in order; one that won nothing itself was needed by a later one, or
            leaves fewer steps to run.
        arena_before, arena_after: bytes of the packed arena.
    """

    program: ExportedProgram
    wins: tuple[Win, ...]
    arena_before: int
    arena_after: int

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every place that was changed, in order."""
        return tuple(change for win in self.wins for change in win.changes)


def rewrite(
    program: ExportedProgram,
    *,
    allow_rounding: bool = False,
    rules: Iterable[str] | None = None,
    judge: Judge | None = None,
    kernels: Iterable[str] = (),
) -> Rewriting:
    """Rewrite what takes more memory than it needs, where the packed arena gets smaller.

    Rules are tried one after the other, each everywhere at once, and kept while the arena does not grow. What
    comes after the last one that made it smaller is dropped again. That is repeated until nothing pays, so
    that what is given back is not changed by another call. The same program gives the same one everywhere.

    Args:
        program: an export, in core ATen or the edge dialect, at any depth of branches and loops; it is left
            as it is. Names, shapes, types, signature and state of the new one are the same.
        allow_rounding: whether rules may be used that may round differently.
        rules: names of the rules that may be used; None for all.
        judge: packs an arena and gives its bytes; None for a plan with in-place reuse and elided copies.
        kernels: names of operators that the kernel library has beyond ExecuTorch's portable ones, such as
            ``linear``.

    Raises:
        InputError: a rule is not known, or not allowed.
        UnsupportedError: the program cannot be planned.
    """
    chosen = chosen_rules(rules, allow_rounding=allow_rounding, kernels=kernels)
    if judge is None:
        from lowtide.transforms.rewrites.judging import planned_arena

        judge = planned_arena
    before = arena = judge(program)
    wins: list[Win] = []
    while True:
        found = _round(program, arena, chosen, judge)
        if not found.wins:
            return Rewriting(program, tuple(wins), before, arena)
        program, arena = found.program, found.arena_after
        wins += found.wins


def _round(program: ExportedProgram, arena: int, rules: Iterable[Rule], judge: Judge) -> Rewriting:
    """Every rule once; what comes after the last that won is left out."""
    before, dialect = arena, dialect_of(program)
    best = Rewriting(program, (), before, before)
    wins: list[Win] = []
    for rule in rules:
        tried = rule.apply(program, dialect, worth=arena // _SHARE_WORTH)
        if not tried.changes:
            continue
        after = judge(tried.program)
        if after > arena:
            continue
        wins.append(Win(rule.name, rule.keeps_bits, arena, after, tried.changes))
        program = tried.program
        if after < arena:
            best = Rewriting(program, tuple(wins), before, after)
        arena = after
    return best
