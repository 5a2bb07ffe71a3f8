"""The operators that ship with this package: what is asked about them needs no PyTorch.

``known.txt`` has a declaration a line, as PyTorch writes it, after ``~`` if it moves memory instead of
writing it. ``tools/known_operators.py`` makes it from the installed PyTorch and ExecuTorch.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from lowtide.operators.signatures import Signature, name_in, parse_signature

MOVES_MEMORY = "~"
"""Stands before declarations of operators that move memory."""


@cache
def shipped(name: str) -> Signature | None:
    """The operator of a name such as ``aten::add.out``; None if the table lacks it."""
    line = _lines().get(name)
    if line is None:
        return None
    return parse_signature(line.removeprefix(MOVES_MEMORY), moves_memory=line.startswith(MOVES_MEMORY))


@cache
def _lines() -> dict[str, str]:
    text = (resources.files("lowtide.operators") / "known.txt").read_text(encoding="utf-8")
    return {name_in(line.removeprefix(MOVES_MEMORY)): line for line in text.splitlines() if line}
