"""The operators that a program is written in: ATen's own, or those of ExecuTorch's edge dialect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_VIEWS = frozenset({"expand", "permute", "select", "slice", "view"})


@dataclass(frozen=True)
class Dialect:
    """Operators by ATen's names.

    Args:
        is_edge: whether views are copies, as in the edge dialect.
    """

    is_edge: bool

    def operator(self, name: str, overload: str = "default") -> Any:
        """The operator that stands for one of ATen's in this dialect."""
        if not self.is_edge:
            return getattr(getattr(torch.ops.aten, name), overload)
        from executorch.exir.dialects._ops import ops

        name = f"{name}_copy" if name in _VIEWS else name
        return getattr(getattr(ops.edge.aten, name), overload)

    def verifiers(self, program: ExportedProgram, beyond: Iterable[str]) -> list[Any]:
        """The verifiers of a program, with leave for operators beyond core ATen.

        ExecuTorch refuses these in edge programs unless they are named.
        """
        allowed = [getattr(torch.ops.aten, name).default for name in sorted(beyond)]
        if not allowed or not self.is_edge:
            return list(program.verifiers)
        from executorch.exir.capture._config import EdgeCompileConfig
        from executorch.exir.verification.verifier import EXIREdgeDialectVerifier

        current = program.verifiers[0]()
        config = EdgeCompileConfig(
            _check_ir_validity=getattr(current, "enable", True),
            _skip_dim_order=not getattr(current, "use_dim_order", True),
            _core_aten_ops_exception_list=list(getattr(current, "_core_aten_ops_exception_list", [])),
            preserve_ops=list(dict.fromkeys([*getattr(current, "_preserve_ops", []), *allowed])),
        )
        return [EXIREdgeDialectVerifier(edge_compile_config=config, class_only=True)]


def dialect_of(program: ExportedProgram) -> Dialect:
    """The dialect that a program's own steps are in."""
    return Dialect(any(_is_edge(node.target) for node in _calls(program.graph_module)))


def _is_edge(target: Any) -> bool:
    return type(target).__name__ == "EdgeOpOverload"


def _calls(module: fx.GraphModule) -> Iterator[fx.Node]:
    for part in module.modules():
        if isinstance(part, fx.GraphModule):
            yield from (node for node in part.graph.nodes if node.op == "call_function")
