"""In-place reuse that ExecuTorch asks for: honoured where nothing reads the old bytes, refused elsewhere.

Its reinplace pass asks in two ways: it rewrites an operator to the one that changes its argument
(``index_put`` to ``index_put_``), or notes on the node that the result should take the argument's bytes.
It looks at one graph and at names only: a live view of the argument, or a branch that reads it, escapes it.
Here every request is first taken for the functional operator that it was, and granted if liveness over the
whole tree shows that neither tensor is written while the other is still to be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.memory_planning import (
    _alias_inplace_result_specs,
    _is_inplace_node,
    _is_out_var_node,
)
from executorch.exir.operator.convert import is_inplace_variant
from torch import fx

from lowtide.base.constants import ROOT
from lowtide.base.errors import UnsupportedError
from lowtide.executorch.control_flow import tree
from lowtide.executorch.copies import KEPT_META, clone_before
from lowtide.executorch.specs import Groups, nodes_in, spec_of
from lowtide.lifetimes.liveness import solve
from lowtide.lifetimes.lowering import lower
from lowtide.operators.schemas import schema_holder

if TYPE_CHECKING:
    from lowtide.executorch.programs import ImportedModules
    from lowtide.ir.flow import FlowGraph
    from lowtide.lifetimes.liveness import Liveness

_COPY = torch.ops.aten.copy_.default


@dataclass(frozen=True)
class InPlace:
    """One request.

    Args:
        region: qualified name of the graph.
        node: the operator.
        base: the node of the argument whose bytes the result should take.
        specs: of the argument and of the result, as they were when the request was found.
        rewritten: whether the operator itself writes over its argument; otherwise it writes wherever its
            result is put.
    """

    region: str
    node: fx.Node
    base: fx.Node
    specs: tuple[Any, Any]
    rewritten: bool


def find_requests(root: fx.GraphModule) -> list[InPlace]:
    """All requests in a tree of graphs. Where a user wrote in place, both names become one tensor at once.

    Raises:
        UnsupportedError: a result is to lie in the midst of an argument.
    """
    found = []
    for region, module in tree(root, ROOT):
        for node in module.graph.nodes:
            if node.op != "call_function":
                continue
            if _is_inplace(node.target):
                base = _changed_argument(node)
                if base is not None and spec_of(base) is not spec_of(node):
                    specs = spec_of(base), spec_of(node)
                    found.append(InPlace(region, node, base, specs, rewritten=True))
                else:
                    _alias_inplace_result_specs(node)
            elif "_share_alloc_with_arg_idx" in node.meta and _is_out_var_node(node):
                base = node.args[node.meta["_share_alloc_with_arg_idx"]]
                if distance := node.meta.get("_shared_alloc_offset"):
                    raise UnsupportedError(
                        f"{region}/{node.name}: a pass before this one wants it {distance} bytes in "
                        f"{base.name}, which Lowtide's pass cannot prove: plan with "
                        "lowtide.executorch.algorithm() inside ExecuTorch's own pass"
                    )
                specs = spec_of(base), spec_of(node)
                if None not in specs:
                    found.append(InPlace(region, node, base, specs, rewritten=False))
    return found


@cache
def _is_inplace(target: Any) -> bool:
    schema = getattr(schema_holder(target), "_schema", None)
    return schema is not None and is_inplace_variant(schema.name, schema.overload_name)


def _changed_argument(node: fx.Node) -> fx.Node | None:
    """The argument that a core operator changes; None for ``copy_`` and for operators of other libraries.

    Core operators are functional until the reinplace pass rewrites them, so whoever reads the old name wants
    the old bytes. ``copy_`` is how state is written back, and users of a custom in-place operator read its
    argument to see what it did.
    """
    schema = schema_holder(node.target)._schema
    if not schema.name.startswith("aten::") or schema.name == "aten::copy_":
        return None
    for argument, passed in zip(schema.arguments, node.args, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write:
            nodes = nodes_in(passed)
            return nodes[0] if len(nodes) == 1 and spec_of(node) is not None else None
    return None


def settle_requests(requests: list[InPlace], imported: ImportedModules, groups: Groups) -> list[str]:
    """Grant or refuse each request, in order, and make the graphs say so.

    Args:
        requests: as found.
        imported: the tree with every request taken for its functional form.
        groups: granted pairs are joined here.

    Returns:
        The reason for each refusal.
    """
    refused = []
    judge = _Judge(imported)
    for request in requests:
        base, result = request.specs
        reason = judge.objection(request)
        if reason is None:
            judge.grant(request)
            groups.join(base, result)
        else:
            refused.append(f"{request.region}/{request.node.name}: not in place: {reason}")
            result.inplace_base = None
        if request.rewritten:
            if reason is not None:
                _undo(request)
            _alias_inplace_result_specs(request.node)
    return refused


def _undo(request: InPlace) -> None:
    """Let a refused operator change a clone, and write the outcome back if it was to be an input's new value.

    Where an input is changed in place all along, ExecuTorch leaves out the copy at the end.
    """
    origin = request.base
    while origin.op == "call_function" and _is_inplace_node(origin):
        origin = origin.args[0]
    request.node.replace_input_with(request.base, clone_before(request.node, request.base))
    written_back = any(user.target is _COPY and user.args[0] is origin for user in origin.users)
    if origin.op == "placeholder" and not written_back:
        last, following = request.node, [request.node]
        while following:
            last = following[0]
            following = [user for user in last.users if _is_inplace_node(user) and user.args[0] is last]
        graph = request.node.graph
        with graph.inserting_before(graph.output_node()):
            back = graph.call_function(_COPY, (origin, last))
        back.meta.update({key: value for key, value in last.meta.items() if key in KEPT_META})
        back.meta["spec"] = spec_of(origin)


class _Judge:
    """Decides whether two storages can be one; grants add up."""

    def __init__(self, imported: ImportedModules) -> None:
        self.imported = imported
        self.flow: FlowGraph = lower(imported.program)
        # What changes state in place all along has no copy at the end that would show where the last value
        # comes from: for an operator that writes over its argument, nobody looks at state at the end. One
        # whose result takes other bytes than the argument's unless it is granted them does not change state.
        self.liveness = {
            False: solve(self.flow),
            True: solve(_without_final_state(self.flow)),
        }
        self.merged: dict[int, frozenset[int]] = {}

    def members(self, storage: int) -> frozenset[int]:
        return self.merged.get(storage, frozenset((storage,)))

    def storages(self, request: InPlace) -> tuple[int | None, int | None]:
        base, result = request.specs
        return self.imported.storage_of(base), self.imported.storage_of(result)

    def grant(self, request: InPlace) -> None:
        base, result = self.storages(request)
        assert base is not None
        assert result is not None
        both = self.members(base) | self.members(result)
        for member in both:
            self.merged[member] = both

    def objection(self, request: InPlace) -> str | None:
        """Why the result cannot take the argument's bytes; None if it can."""
        storages = self.imported.program.storages
        a, b = self.storages(request)
        if a is None or b is None:
            return "the argument is another tensor at every call"
        base, result = storages[a], storages[b]
        if base.kind == "constant":
            return f"{base.name} is a constant"
        if base.size != result.size or base.arena != result.arena:
            return f"{base.name} has another size or memory id"
        if base.planned != result.planned and not request.rewritten:
            return f"only one of {base.name} and {result.name} is planned"
        for first in self.members(a):
            for second in self.members(b):
                for written, other in ((first, second), (second, first)):
                    for tick in self.clashes(written, other, self.liveness[request.rewritten]):
                        return (
                            f"{storages[other].name} is read after "
                            f"{self.flow.describe(tick)} has written {storages[written].name}"
                        )
        return None

    def clashes(self, written: int, other: int, liveness: Liveness) -> Iterator[int]:
        """Ticks at which one storage is written while the other is still to be read."""
        for tick, point in enumerate(self.flow.points):
            is_written = written in point.full_writes or written in point.partial_writes
            if is_written and liveness.is_live_after(other, tick):
                yield tick


def _without_final_state(flow: FlowGraph) -> FlowGraph:
    """The program as if nobody looked at state once it is done."""
    last = flow.points[-1]
    storages = flow.program.storages
    reads = tuple(storage for storage in last.reads if storages[storage].kind != "state")
    return replace(flow, points=(*flow.points[:-1], replace(last, reads=reads)))
