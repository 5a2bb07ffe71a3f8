"""Where the interpreter of TensorFlow Lite Micro is not installed, there is nothing to test here."""

from __future__ import annotations

import importlib.metadata

try:
    importlib.metadata.version("tflite_micro")
except importlib.metadata.PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]
