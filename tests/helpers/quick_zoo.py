"""The programs of the zoo that are tried every time."""

from __future__ import annotations

import pytest


def quick(names, chosen):
    return [pytest.param(name, marks=() if name in chosen else pytest.mark.slow) for name in names]
