"""Room for recursion that follows the nesting of programs, which Python's default limit is too low for."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRAMES = 12_000
"""Three to four frames a level: regions nested thousands deep, within the usual stack of 8 MiB."""


@contextlib.contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise the recursion limit for a while; it is never lowered."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
