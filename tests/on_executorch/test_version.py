"""Versions that were never tried are refused in one line."""

from __future__ import annotations

import importlib.metadata

import pytest

from lowtide.errors import UnsupportedError
from lowtide.executorch.version import require_supported


@pytest.mark.parametrize(
    ("package", "version", "message"),
    [
        ("executorch", "1.3.0", r"executorch 1.3.0 is installed.*pip install executorch==1\.4\.1"),
        ("executorch", "2.0.0+cpu", r"executorch 2.0.0\+cpu is installed"),
        ("executorch", None, r"executorch is not installed.*pip install '\.\[executorch\]'"),
        ("torch", "2.14.1+cpu", r"torch 2.14.1\+cpu is installed"),
    ],
)
def test_other_versions_are_refused(
    monkeypatch: pytest.MonkeyPatch, package: str, version: str | None, message: str
) -> None:
    real = importlib.metadata.version

    def told(name: str) -> str:
        if name != package:
            return real(name)
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    require_supported()
    monkeypatch.setattr(importlib.metadata, "version", told)
    with pytest.raises(UnsupportedError, match=message) as caught:
        require_supported()
    assert "\n" not in str(caught.value)
