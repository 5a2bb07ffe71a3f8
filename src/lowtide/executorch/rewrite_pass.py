"""Rewrites, as a pass over edge programs, with the planning pass as the judge."""

from __future__ import annotations

from collections.abc import Iterable

from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from torch.export import ExportedProgram

from lowtide.executorch.fit_pass import packed_arena
from lowtide.transforms.rewrites import Rewriting, rewrite
from lowtide.transforms.rewrites.rules import chosen_rules


class Rewrite(ExportedProgramPassBase):  # type: ignore[misc]
    """Rewrites what takes more memory than it needs, where the packed arena gets smaller.

    ::

        edge = edge.transform(ExportedProgramPassManager([Rewrite(), FoldConstants(limit=64 * 1024)]))

    To be run after partitioning and the passes of backends, with ``in_place`` and ``elide_copies`` in the
    planning pass. Not one output bit changes, unless rounding is allowed.

    Args:
        allow_rounding: whether rules may be used that may round differently.
        rules: names of the rules that may be used; None for all.
        kernels: names of operators that the device's kernel library has beyond the portable ones, such as
            ``linear``.

    ``rewritten`` holds what was done, one entry for each method.

    Raises:
        InputError: a rule is not known, or not allowed.
    """

    def __init__(
        self,
        *,
        allow_rounding: bool = False,
        rules: Iterable[str] | None = None,
        kernels: Iterable[str] = (),
    ) -> None:
        self.allow_rounding = allow_rounding
        self.rules = None if rules is None else tuple(rules)
        self.kernels = tuple(kernels)
        chosen_rules(self.rules, allow_rounding=allow_rounding, kernels=self.kernels)
        self.rewritten: list[Rewriting] = []

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """The program with the rewrites that pay."""
        found = rewrite(
            exported_program,
            allow_rounding=self.allow_rounding,
            rules=self.rules,
            judge=packed_arena,
            kernels=self.kernels,
        )
        self.rewritten.append(found)
        return ExportedProgramPassResult(found.program, bool(found.wins))
