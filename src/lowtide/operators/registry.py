"""Operators by name: those that ship with this package, then those that PyTorch's registry has.

PyTorch is imported only for one that the table lacks; what declares such a one is imported too.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from contextlib import suppress
from functools import cache
from typing import Any

from lowtide.base.lazy import quiet_imports
from lowtide.operators.schemas import signature_of
from lowtide.operators.signatures import Signature, name_in, parse_signature
from lowtide.operators.table import shipped

NAMESPACES: dict[str, tuple[str, ...]] = {
    "aten": (),
    "quantized_decomposed": ("torch.ao.quantization.fx._decomposed", "executorch.kernels.quantized"),
    "quantized": ("executorch.kernels.quantized",),
    "llama": ("executorch.extension.llm.custom_ops.custom_ops",),
    "dim_order_ops": ("executorch.exir.passes.dim_order_ops_registry",),
}
"""What ``.pte`` files call, with the modules of ExecuTorch and PyTorch that declare its operators."""

_LISTED_IN = {"cortex_m": "backends/cortex_m/ops/operators.yaml"}
"""Files of ExecuTorch that list a namespace's kernels. The module that declares these needs packages that
only those who lower for such a target have."""

_NO_OPERATORS = frozenset({"executorch_prim"})
"""Namespaces of functions of the runtime, which nobody declares."""


@cache
def operator_named(name: str) -> Signature | None:
    """The operator that goes by a name such as ``aten::add.out``; None if nobody declared it."""
    space = name.partition("::")[0]
    found = shipped(name.removesuffix(".default")) or _listed(space).get(name)
    if found is not None or space in _NO_OPERATORS:
        return found
    overload = overload_named(name)
    return None if overload is None else signature_of(overload)


@cache
def overload_named(name: str) -> Any:
    """PyTorch's own operator of that name; None if it has none, or is not installed."""
    qualified, _, overload = name.partition(".")
    space, separator, packet = qualified.partition("::")
    if not separator or not packet.isidentifier() or not space.isidentifier() or packet.startswith("__"):
        return None
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    for module in (None, *NAMESPACES.get(space, ())):
        if module is not None:
            with suppress(Exception), quiet_imports():  # a library that is not there declares nothing
                importlib.import_module(module)
        with suppress(AttributeError, RuntimeError):
            found = getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
            if isinstance(found, torch._ops.OpOverload):
                return found
    return None


@cache
def _listed(space: str) -> dict[str, Signature]:
    """The operators that a namespace's list of kernels has, by name."""
    spec = importlib.util.find_spec("executorch") if space in _LISTED_IN else None
    found = {}
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        with suppress(OSError), open(os.path.join(folder, _LISTED_IN[space]), encoding="utf-8") as file:
            for line in file:
                _, func, text = line.partition("- func: ")
                if func:
                    found[name_in(text)] = parse_signature(text.strip())
    return found
