"""Make ``src/lowtide/operators/known.txt`` from the installed PyTorch and ExecuTorch.

python tools/known_operators.py            # writes it
python tools/known_operators.py --check    # exit 1 if it would be another one
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from lowtide.operators.registry import NAMESPACES, overload_named
from lowtide.operators.table import MOVES_MEMORY

PATH = Path(__file__).parents[1] / "src/lowtide/operators/known.txt"


def lines() -> list[str]:
    """A line an operator of the namespaces that programs are made of, sorted."""
    for space in NAMESPACES:
        overload_named(f"{space}::none")  # imports what declares the namespace
    names = sorted(n for n in torch._C._dispatch_get_all_op_names() if n.partition("::")[0] in NAMESPACES)
    overloads = [found for found in map(overload_named, names) if found is not None]
    return [MOVES_MEMORY * (torch.Tag.inplace_view in found.tags) + str(found._schema) for found in overloads]


def main() -> int:
    """Write the file, or compare it."""
    text = "".join(f"{line}\n" for line in lines())
    if "--check" in sys.argv[1:]:
        same = PATH.read_text(encoding="utf-8") == text
        print(f"{PATH.name} is {'as' if same else 'not as'} the installed packages have it")
        return not same
    PATH.write_text(text, encoding="utf-8")
    print(f"{PATH.name}: {text.count(chr(10))} operators, {len(text)} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
