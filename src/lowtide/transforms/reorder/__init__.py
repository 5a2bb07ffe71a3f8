"""A better order: independent steps of a region moved so that fewer bytes are alive at the peak.

    >>> found = reorder(program, in_place=True)
    >>> found.before.arena_bytes, found.after.arena_bytes
    >>> found.regions[0].order, found.regions[0].bound, found.regions[0].proved

``fx`` does it to graph modules of torch.export.
"""

from __future__ import annotations

from lowtide.transforms.reorder.branch_and_bound import SearchBudget
from lowtide.transforms.reorder.reordering import RegionOrder, Reordering, reorder

__all__ = ["RegionOrder", "Reordering", "SearchBudget", "reorder"]
