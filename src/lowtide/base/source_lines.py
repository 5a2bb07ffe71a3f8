"""Where in the user's code a node comes from."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import fx

_TORCH = re.compile(r"[/\\]site-packages[/\\]torch[/\\]")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def source_of(node: fx.Node) -> str | None:
    """The innermost line of user code behind a node: ``model.py:12 in forward (encoder.layer.0)``.

    The module's path is added because one line of code serves many modules. None if unknown.
    """
    line = _innermost(node.meta.get("stack_trace") or "")
    path = _module_path(node)
    if line is None:
        return f"({path})" if path else None
    return f"{line} ({path})" if path else line


@lru_cache(maxsize=4096)
def _innermost(trace: str) -> str | None:
    frames = [frame for frame in _FRAME.findall(trace) if not frame[0].startswith("<")]
    users = [frame for frame in frames if not _TORCH.search(frame[0])] or frames
    if not users:
        return None
    file, line, function = users[-1]
    name = re.split(r"[/\\]", file)[-1]
    return f"{name}:{line} in {function}"


def _module_path(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = list(stack.values())[-1][0]
    if not isinstance(path, str):
        return ""
    for root in ("L['self']", "_export_root"):
        path = path.removeprefix(root)
    return path.removeprefix(".")
