"""Higher-order operators: which run graphs of their own, and what they pass to them.

One table for everything under ``torch._higher_order_ops``. An operator that is missing here, or that
cannot be planned, is refused by name: guessing what it runs would give wrong lifetimes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import fx

from lowtide.base.errors import UnsupportedError

if TYPE_CHECKING:
    from lowtide.ir.program import CallKind


@dataclass(frozen=True, slots=True)
class CallSignature:
    """The arguments of a node that runs graphs, sorted by what they are for.

    All are raw arguments: nodes, or constants such as numbers and None.

    Args:
        kind: as in ``lowtide.ir.program.Call``.
        graphs: the ``get_attr`` nodes, or graph modules, that it runs.
        roles: what each graph is to its caller, for reports.
        operands: passed by reference.
        inits: what the carries start from.
        slices: of which every iteration sees one slice.
        selector: cond: the predicate.
        mode: what the graph runs under: ``("grad", enabled)`` or ``("autocast", arguments)``.
    """

    kind: CallKind
    graphs: tuple[Any, ...]
    roles: tuple[str, ...]
    operands: tuple[Any, ...] = ()
    inits: tuple[Any, ...] = ()
    slices: tuple[Any, ...] = ()
    selector: Any = None
    mode: tuple[str, Any] | None = None


def signature(node: fx.Node) -> CallSignature | None:
    """What a node calls; None if it is a plain operator, a delegate, or a higher-order operator run as one.

    Raises:
        UnsupportedError: a higher-order operator that Lowtide does not know, or cannot plan.
    """
    if not is_higher_order(node):
        return None
    name = hop_name(node)
    if name in _CALLS:
        return _CALLS[name](tuple(node.args), dict(node.kwargs))
    if name in OPAQUE or name in DELEGATES:
        return None
    if name in _REFUSED:
        raise UnsupportedError(f"node {node.name!r}: operator {name!r} cannot be planned: {_REFUSED[name]}")
    raise UnsupportedError(
        f"node {node.name!r}: higher-order operator {name!r} is not known: "
        "export the program without it, or report it with the torch version"
    )


def is_higher_order(node: fx.Node) -> bool:
    """Whether a node's target is a higher-order operator."""
    from torch._ops import HigherOrderOperator

    return node.op == "call_function" and isinstance(node.target, HigherOrderOperator)


def hop_name(node: fx.Node) -> str:
    """Name of a node's higher-order operator."""
    return str(node.target.name() if callable(node.target.name) else node.target.name)


def _cond(args: Sequence[Any], kwargs: dict[str, Any]) -> CallSignature:
    predicate, on_true, on_false, *rest = args
    return CallSignature(
        "cond",
        (on_true, on_false),
        ("branch", "branch"),
        operands=tuple(rest[0]) if rest else (),
        selector=predicate,
    )


def _while(args: Sequence[Any], kwargs: dict[str, Any]) -> CallSignature:
    condition, body, carried, *rest = args
    return CallSignature(
        "while",
        (condition, body),
        ("condition", "body"),
        operands=tuple(rest[0]) if rest else (),
        inits=tuple(carried),
    )


def _map(args: Sequence[Any], kwargs: dict[str, Any]) -> CallSignature:
    body, slices, *rest = args
    return CallSignature(
        "scan", (body,), ("body",), operands=tuple(rest[0]) if rest else (), slices=tuple(slices)
    )


def _scan(args: Sequence[Any], kwargs: dict[str, Any]) -> CallSignature:
    body, inits, slices, *rest = args
    return CallSignature(
        "scan",
        (body,),
        ("body",),
        operands=tuple(rest[0]) if rest else (),
        inits=tuple(inits),
        slices=tuple(slices),
    )


def _associative_scan(args: Sequence[Any], kwargs: dict[str, Any]) -> CallSignature:
    body, slices, *rest = args
    return CallSignature(
        "associative_scan", (body,), ("body",), operands=tuple(rest[0]) if rest else (), slices=tuple(slices)
    )


def _graph_then_operands(args: Sequence[Any], kwargs: dict[str, Any]) -> CallSignature:
    graph, *operands = args
    return CallSignature("call", (graph,), ("call",), operands=tuple(operands))


def _graph_and_tuple(args: Sequence[Any], kwargs: dict[str, Any]) -> CallSignature:
    graph, *rest = args
    return CallSignature("call", (graph,), ("call",), operands=tuple(rest[0]) if rest else ())


def _invoke_subgraph(args: Sequence[Any], kwargs: dict[str, Any]) -> CallSignature:
    graph, _identifier, *operands = args
    return CallSignature("call", (graph,), ("call",), operands=tuple(operands))


def _set_grad(args: Sequence[Any], kwargs: dict[str, Any]) -> CallSignature:
    enabled, graph, *operands = args
    return CallSignature("call", (graph,), ("call",), operands=tuple(operands), mode=("grad", enabled))


def _autocast(args: Sequence[Any], kwargs: dict[str, Any]) -> CallSignature:
    *how, graph = args[:5]
    return CallSignature("call", (graph,), ("call",), operands=tuple(args[5:]), mode=("autocast", tuple(how)))


_CALLS: dict[str, Callable[[Sequence[Any], dict[str, Any]], CallSignature]] = {
    "cond": _cond,
    "while_loop": _while,
    "map_impl": _map,
    "scan": _scan,
    "associative_scan": _associative_scan,
    "invoke_subgraph": _invoke_subgraph,
    "wrap": _graph_then_operands,
    "wrap_activation_checkpoint": _graph_then_operands,
    "tag_activation_checkpoint": _graph_then_operands,
    "invoke_quant": _graph_then_operands,
    "invoke_quant_packed": _graph_then_operands,
    "strict_mode": _graph_and_tuple,
    "hints_wrapper": _graph_and_tuple,
    "run_const_graph": _graph_and_tuple,
    "wrap_with_set_grad_enabled": _set_grad,
    "wrap_with_autocast": _autocast,
}

OPAQUE = frozenset(
    {
        "auto_functionalized",
        "auto_functionalized_v2",
        "call_torchbind",
        "flat_apply",
        "flex_attention",
        "flex_attention_backward",
        "graphsafe_run_with_rng_state",
        "inline_asm_elementwise",
        "invoke_leaf_function",
        "out_dtype",
        "print",
        "run_and_save_rng_state",
        "run_with_rng_state",
        "triton_kernel_wrapper_functional",
        "triton_kernel_wrapper_mutation",
        "with_effects",
        "_export_tracepoint",
    }
)
"""Run as one step: they read every tensor they are given and make new ones. ``flex_attention`` runs its
score function inside the kernel, an element at a time, with no buffers of its own."""

DELEGATES = frozenset({"executorch_call_delegate", "aoti_call_delegate"})
"""Run somebody else's code, as one step with declared scratch."""

WITH_EFFECTS = frozenset(
    {
        "call_torchbind",
        "invoke_leaf_function",
        "print",
        "run_and_save_rng_state",
        "run_with_rng_state",
        "graphsafe_run_with_rng_state",
        "with_effects",
    }
)
"""Opaque operators that must run even if nobody reads their results."""

WRITE_ARGUMENTS = frozenset({"triton_kernel_wrapper_mutation", "invoke_leaf_function"})
"""Opaque operators that may write any tensor they are given."""

PASS_THROUGH = frozenset({"_export_tracepoint"})
"""Opaque operators whose results are their arguments."""

_REFUSED = {
    "autograd_function_apply": "it is for training; export without gradients",
    "custom_function_call": "it is for training; export without gradients",
    "dynamo_bypassing_wrapper": "what its wrapper does to the graph is not known before it runs",
    "foreach_map": "only torch.compile can run it; export the unfused program",
    "inductor_compiled_code": "it is compiled already; plan the program before compilation",
    "local_map_hop": "it is for distributed tensors; plan the local program",
    "register_hook": "it is for training; export without gradients",
    "run_dtensor_rng_op": "it is for distributed tensors; plan the local program",
    "trace_wrapped": "it is for tracing backward hooks; export without gradients",
    "while_loop_stack_output": "it saves every iteration for the backward pass; export without gradients",
}
