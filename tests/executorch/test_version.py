"""Versions that are too old are refused in one line; newer ones are warned of once, and tried."""

from __future__ import annotations

import importlib.metadata
import warnings

import pytest

from lowtide.base.errors import UnsupportedError, UntestedVersionWarning
from lowtide.executorch import version
from lowtide.executorch.version import TESTED, require_supported


def install(monkeypatch: pytest.MonkeyPatch, **versions: str | None) -> None:
    """Have other versions installed as far as one can tell by asking; None for not at all."""
    real = importlib.metadata.version

    def told(name: str) -> str:
        found = versions.get(name, "") or ""
        if name in versions and not found:
            raise importlib.metadata.PackageNotFoundError(name)
        return found or real(name)

    monkeypatch.setattr(importlib.metadata, "version", told)
    version._warn.cache_clear()


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ({"executorch": "1.3.0"}, r"executorch 1.3.0 is installed.*pip install 'executorch>=1\.4\.1'"),
        ({"executorch": "0.7.0a0+git"}, r"executorch 0.7.0a0\+git is installed"),
        ({"executorch": None}, r"executorch is not installed.*pip install '\.\[executorch\]'"),
        ({"torch": "2.12.1+cpu"}, r"torch 2.12.1\+cpu is installed.*pip install 'torch>=2\.13\.0'"),
    ],
)
def test_old_versions_are_refused(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str | None], message: str
) -> None:
    install(monkeypatch, **versions)
    with pytest.raises(UnsupportedError, match=message) as caught:
        require_supported()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("executorch", "torch"), [*TESTED, ("1.4.0", "2.13.1+cpu"), ("1.5.7", "2.14.0+cu130")]
)
def test_tested_series_are_taken_in_silence(
    monkeypatch: pytest.MonkeyPatch, executorch: str, torch: str
) -> None:
    install(monkeypatch, executorch=executorch, torch=torch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_supported()


@pytest.mark.parametrize(
    ("executorch", "torch"),
    [("1.6.0", "2.14.1"), ("2.0.0.dev20270101+cpu", "2.13.0"), ("1.5.1", "2.15.0+cpu"), ("1.4.1", "2.14.1")],
)
def test_untested_versions_are_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, executorch: str, torch: str
) -> None:
    install(monkeypatch, executorch=executorch, torch=torch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            require_supported()
    (warning,) = caught
    assert warning.category is UntestedVersionWarning
    message = str(warning.message)
    assert f"not tested with executorch {executorch} and torch {torch}" in message
    assert "executorch 1.5.1 with torch 2.14.1" in message
    assert "verify_program" in message
    assert "\n" not in message


def test_what_is_installed_is_tested() -> None:
    """These tests run on the versions that the package says it is tested with, and no others."""
    installed = tuple(importlib.metadata.version(name).split("+")[0] for name in ("executorch", "torch"))
    assert installed in TESTED
