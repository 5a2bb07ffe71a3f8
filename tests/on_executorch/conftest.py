"""Where ExecuTorch is not installed, there is nothing to test here."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

# Models and programs that other tests use as well are one directory up.
sys.path.append(str(Path(__file__).parents[1]))

try:
    importlib.metadata.version("executorch")
except importlib.metadata.PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]
