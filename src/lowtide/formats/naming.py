"""What readers of text formats have in common: errors that name the file, and no needless collection."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lowtide.base.errors import LowtideError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 300
"""Characters of a message: an id may be a page long, and its end says no more."""


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Put ``name`` before the message of any error that Lowtide raises inside.

    The garbage collector pauses meanwhile: it would walk millions of fresh values, none of which
    is in a cycle, for a third of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    except LowtideError as error:
        raise type(error)(f"{name}: {_clipped(str(error))}") from None
    finally:
        if enabled:
            gc.enable()


def _clipped(message: str) -> str:
    """A message of bearable length: where it begins and what to do stay."""
    if len(message) <= _LONGEST:
        return message
    return f"{message[: _LONGEST * 2 // 3]} … {message[-_LONGEST // 3 :]}"
