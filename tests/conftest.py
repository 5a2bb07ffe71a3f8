"""Settings that every test shares."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no reason to fail: how long a case takes is for benchmarks to say.
settings.register_profile("lowtide", deadline=None)
settings.load_profile("lowtide")
