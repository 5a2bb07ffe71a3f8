"""Reading ``.pt2`` files."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING, BinaryIO

import torch

from lowtide.base.errors import InputError

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def load(file: str | os.PathLike[str] | BinaryIO, name: str | None = None) -> ExportedProgram:
    """The exported program in a ``.pt2`` file.

    Args:
        file: its path, or the open file itself.
        name: what messages call it; its path if not given.

    Raises:
        InputError: the file cannot be read, is no such archive, or was written by a torch that
            this one does not understand.
    """
    if not hasattr(file, "read"):
        file = os.fspath(file)
    name = name or str(file)
    try:
        with zipfile.ZipFile(file) as archive:
            broken = archive.testzip()
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
        raise InputError(
            f"{name}: not a .pt2 file, or cut short: export it again with torch.export.save"
        ) from error
    if broken is not None:
        raise InputError(f"{name}: entry {broken!r} is damaged: export it again with torch.export.save")
    try:
        return torch.export.load(file)
    except Exception as error:  # torch raises whatever its deserializer stumbles over
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise InputError(
            f"{name}: torch {torch.__version__} cannot load it ({reason[:200]}): "
            "export it again with torch.export.save"
        ) from error
