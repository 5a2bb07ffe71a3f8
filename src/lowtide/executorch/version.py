"""Which versions of ExecuTorch this package is written and tested for.

What the emitter and the runtime do with specs is no documented interface: it is read off one version.
"""

from __future__ import annotations

import importlib.metadata

from lowtide.errors import UnsupportedError

SUPPORTED = ("1.4.1",)
"""Versions on whose runtime every test of this package is run."""

SUPPORTED_TORCH = ("2.13.0",)
"""Versions of PyTorch that these were tested with."""


def require_supported() -> None:
    """Refuse a version of ExecuTorch whose emitter is not known, or a PyTorch that it was not tried with.

    Raises:
        UnsupportedError: ExecuTorch is missing, or another version is installed.
    """
    wanted = " or ".join(SUPPORTED)
    try:
        found = importlib.metadata.version("executorch")
    except importlib.metadata.PackageNotFoundError:
        raise UnsupportedError(
            f"executorch is not installed: lowtide.executorch needs version {wanted}; "
            "pip install '.[executorch]' in a checkout of Lowtide"
        ) from None
    if found.split("+")[0] not in SUPPORTED:
        raise UnsupportedError(
            f"executorch {found} is installed, but lowtide.executorch is made for {wanted}: "
            f"pip install executorch=={SUPPORTED[-1]}"
        )
    torch = importlib.metadata.version("torch")
    if torch.split("+")[0] not in SUPPORTED_TORCH:
        raise UnsupportedError(
            f"torch {torch} is installed, but lowtide.executorch is made for {' or '.join(SUPPORTED_TORCH)}: "
            f"pip install torch=={SUPPORTED_TORCH[-1]}"
        )
