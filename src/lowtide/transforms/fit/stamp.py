"""What a fitted program says of itself, so that fitting it again changes nothing and is priced honestly.

Work is counted over the program that was there before any part was computed twice; a second search would
otherwise have a new budget, and a third another. The stamp lies in the metadata of the first step, which
survives copying, saving and loading.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import fx
    from torch.export import ExportedProgram

    from lowtide.transforms.fit.values import Limits

_KEY = "lowtide_fit"


@dataclass(frozen=True, slots=True)
class Stamp:
    """A search that a program has been through.

    Args:
        runtime: whose.
        macs: multiply-adds before it.
        max_macs: what was allowed.
        exhausted: whether it looked for the smallest arena, and was not cut short.
        allow_rounding: whether changes that round differently were allowed.
        parts: whether chains run in parts, which are joined in place.
    """

    runtime: str
    macs: int
    max_macs: float
    exhausted: bool
    allow_rounding: bool
    parts: bool

    def covers(self, runtime: str, limits: Limits) -> bool:
        """Whether a search under these limits has nothing to find."""
        return (
            self.exhausted
            and self.runtime == runtime
            and limits.max_macs <= self.max_macs
            and (self.allow_rounding or not limits.allow_rounding)
        )


def stamp_of(program: ExportedProgram | fx.GraphModule) -> Stamp | None:
    """The stamp of a program, or of a graph module that it became; None if it has none that can be read."""
    for node in _steps(program):
        found = node.meta.get("custom", {}).get(_KEY)
        if isinstance(found, dict):
            try:
                return Stamp(**found)
            except TypeError:  # of another version
                return None
    return None


def put_stamp(program: ExportedProgram, stamp: Stamp) -> None:
    """Write a stamp on a program, in the place of any that it has."""
    first = True
    for node in _steps(program):
        custom: dict[str, Any] = {k: v for k, v in node.meta.get("custom", {}).items() if k != _KEY}
        if first:
            custom[_KEY] = asdict(stamp)
            first = False
        if custom:
            node.meta["custom"] = custom
        else:
            node.meta.pop("custom", None)


def _steps(program: ExportedProgram | fx.GraphModule) -> list[fx.Node]:
    return [node for node in program.graph.nodes if node.op == "call_function"]
