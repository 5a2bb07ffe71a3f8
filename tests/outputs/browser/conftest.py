"""A browser for the tests that open pages in one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest


def find_chromium() -> str | None:
    """Path of a Chromium: the one that ``LOWTIDE_CHROMIUM`` names, or the system's."""
    named = os.environ.get("LOWTIDE_CHROMIUM")
    names = [named] if named else ["chromium", "chromium-browser", "google-chrome"]
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    path = find_chromium()
    if path is None:
        pytest.skip("no chromium is installed: apt-get install chromium, or set LOWTIDE_CHROMIUM")
    with api.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()
