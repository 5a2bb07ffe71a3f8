"""What a file tells of memory that it takes beside its arenas."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contents:
    """Beside the arenas.

    Args:
        constant_bytes: of weights and other tensors that come with the program.
        delegate_bytes: of each delegate's blob.
        computed: buffers, by id, that are computed from constants alone, at every run.
        computed_bytes: of those of them that anything else reads.
    """

    constant_bytes: int
    delegate_bytes: tuple[int, ...]
    computed: tuple[str, ...]
    computed_bytes: int
