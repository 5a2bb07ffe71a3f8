"""Which versions of ExecuTorch and PyTorch this package is tested with, and what becomes of others.

What the emitter and the runtime do with specs is no documented interface: it is read off these versions.
Older ones are refused; newer ones are tried, with a warning, because ``verify_program`` can prove each
program.
"""

from __future__ import annotations

import importlib.metadata
import re
import warnings
from functools import cache

from lowtide.base.errors import UnsupportedError, UntestedVersionWarning

TESTED = (("1.4.1", "2.13.0"), ("1.5.1", "2.13.0"), ("1.5.1", "2.14.1"))
"""Versions of ExecuTorch with those of PyTorch on which every test of this package is run, the oldest first.

Each stands for its series: what is said of 1.4.1 holds for all of 1.4.
"""

_OLDEST = dict(zip(("executorch", "torch"), TESTED[0], strict=True))


def require_supported() -> None:
    """Refuse versions that are too old; warn, once in a process, of those that were never tried.

    Raises:
        UnsupportedError: ExecuTorch is missing, or it or PyTorch is older than what is supported.
    """
    try:
        executorch = importlib.metadata.version("executorch")
    except importlib.metadata.PackageNotFoundError:
        raise UnsupportedError(
            f"executorch is not installed: lowtide.executorch needs version {_OLDEST['executorch']} or "
            "newer; pip install '.[executorch]' in a checkout of Lowtide"
        ) from None
    torch = importlib.metadata.version("torch")
    for package, found in (("executorch", executorch), ("torch", torch)):
        if _series(found) < _series(_OLDEST[package]):
            raise UnsupportedError(
                f"{package} {found} is installed, but lowtide.executorch needs {_OLDEST[package]} or newer: "
                f"pip install '{package}>={_OLDEST[package]}'"
            )
    if (_series(executorch), _series(torch)) not in {(_series(e), _series(t)) for e, t in TESTED}:
        _warn(executorch, torch)


def _series(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, which tell what is the same but for repairs: ``(1, 5)``."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


@cache
def _warn(executorch: str, torch: str) -> None:
    tested = ", ".join(f"executorch {e} with torch {t}" for e, t in TESTED)
    warnings.warn(
        f"Lowtide was not tested with executorch {executorch} and torch {torch}, but with {tested}: "
        "prove each program with lowtide.executorch.verify_program(manager, planning)",
        UntestedVersionWarning,
        stacklevel=2,
    )
