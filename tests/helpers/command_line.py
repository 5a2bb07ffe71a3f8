"""The command line as tests run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CSV = "id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\nd,9,21,4\ne,0,21,4\n"


def run(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lowtide", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=300)
