"""Bytes that nobody has defined: ``empty`` gives them a pattern, so that two runs can be compared."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lowtide.frontends.torch_export.operands import leaves_bytes_undefined
from lowtide.replay.memory import POISON


class DefineEmpty(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed by mypy
    """Fills what ``empty`` and its kind make, also deep inside composite operators and Python functions.

    The reference and the planned run call such an operator apart, and would find different garbage.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if leaves_bytes_undefined(func) and isinstance(made, torch.Tensor):
            made.untyped_storage().fill_(POISON)
        return made
