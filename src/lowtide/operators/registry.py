"""PyTorch's registry of operators, asked by name; what declares an operator is imported."""

from __future__ import annotations

import importlib
import importlib.util
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

_DECLARED_BY = {
    "quantized_decomposed": ("torch.ao.quantization.fx._decomposed", "executorch.kernels.quantized"),
    "quantized": ("executorch.kernels.quantized",),
    "llama": ("executorch.extension.llm.custom_ops.custom_ops",),
    "dim_order_ops": ("executorch.exir.passes.dim_order_ops_registry",),
}
"""Modules of ExecuTorch and PyTorch that declare the operators of a namespace."""

_LISTED_IN = {"cortex_m": "backends/cortex_m/ops/operators.yaml"}
"""Files of ExecuTorch that list a namespace's kernels. The module that declares these needs packages that
only those who lower for such a target have."""


@cache
def operator_named(name: str) -> Any:
    """The operator that goes by a name such as ``aten::add.out``; None if nobody declared it."""
    import torch

    qualified, _, overload = name.partition(".")
    space, separator, packet = qualified.partition("::")
    if not separator or not packet.isidentifier() or not space.isidentifier() or packet.startswith("__"):
        return None
    for module in (None, *_DECLARED_BY.get(space, ())):
        if module is not None:
            with suppress(Exception):  # a library that is not there declares nothing
                importlib.import_module(module)
        with suppress(AttributeError, RuntimeError):
            found = getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
            if isinstance(found, torch._ops.OpOverload):
                return found
    return _listed(space).get(name)


@dataclass(frozen=True, eq=False)
class _ListedOperator:
    """An operator that is known by its schema alone."""

    _schema: Any


@cache
def _listed(space: str) -> dict[str, _ListedOperator]:
    """The operators that a namespace's list of kernels has, by name."""
    import torch

    spec = importlib.util.find_spec("executorch")
    found = {}
    for folder in (spec.submodule_search_locations or ()) if spec and space in _LISTED_IN else ():
        with suppress(OSError), open(os.path.join(folder, _LISTED_IN[space]), encoding="utf-8") as file:
            for line in file:
                _, func, schema = line.partition("- func: ")
                if func:
                    parsed = torch._C.parse_schema(schema.strip())
                    name = f"{parsed.name}.{parsed.overload_name}".removesuffix(".")
                    found[name] = _ListedOperator(parsed)
    return found
