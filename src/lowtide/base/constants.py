"""What everything agrees on: limits, defaults, and the names in files."""

from __future__ import annotations

LIMIT = 2**63
"""Every offset, size and time is below this: the kernel counts in signed 64-bit integers."""

DEFAULT_ARENA = 1
"""Memory id 0 is for constants in ExecuTorch, so planned memory starts at 1."""

ROOT = "root"
"""Name of the outermost region."""

VERSION = 1
"""Of both JSON formats; changed when a reader of the old version would misread the new one."""

PROBLEM_FORMAT = "lowtide.problem"
PLAN_FORMAT = "lowtide.plan"

DEFAULT_TIMEOUT = 5.0
"""Seconds that search may take when the caller does not say."""
