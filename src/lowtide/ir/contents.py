"""What a file or program takes beside its arenas, as far as its format tells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contents:
    """Memory beside the arenas.

    Args:
        constant_bytes: of weights and other tensors that come with the program.
        delegates: how many delegates it calls.
        delegate_bytes: of each delegate's blob; fewer than there are delegates where some sizes are not told.
        computed: buffers, by id, that are computed from constants alone, at every run.
        computed_bytes: of those of them that anything else reads.
    """

    constant_bytes: int
    delegates: int = 0
    delegate_bytes: tuple[int, ...] = ()
    computed: tuple[str, ...] = ()
    computed_bytes: int = 0
