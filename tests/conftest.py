"""Settings that every test shares."""

from __future__ import annotations

import signal
import sys

import pytest
from hypothesis import settings

# A busy machine is no reason to fail: how long a case takes is for benchmarks to say.
settings.register_profile("lowtide", deadline=None)
settings.load_profile("lowtide")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--ops`` takes a slice of the slow trial of operators."""
    parser.addoption("--ops", default="*", help="operators to try, as a pattern: fft*")


@pytest.fixture(autouse=True, scope="session")
def heeded_interrupts() -> None:
    """Let Ctrl-C interrupt: a runner started in the background hands down that SIGINT is to be ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def fresh_tracer() -> None:
    """Forget what PyTorch's tracer has seen.

    It remembers shapes by code object and makes those that changed dynamic, so that what a test exports
    would depend on which tests ran before it in the same process.
    """
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()
