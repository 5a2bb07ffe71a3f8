"""What a node of an ExecuTorch graph does to memory, by what its operator declares."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from executorch.exir import memory
from torch import fx

from lowtide.executorch.specs import nodes_in, spec_of, specs_of
from lowtide.operators.schemas import known_name, roles, schema_arguments, schema_holder

_NO_STEP = (memory.alloc, memory.view, memory.free, operator.getitem)
"""Nodes that run nothing: they name tensors that others write."""


@dataclass(frozen=True, slots=True)
class NodeEffect:
    """What a node does.

    Args:
        reads: arguments whose tensors' bytes it reads.
        writes: specs of the tensors that it writes from end to end.
        partial: arguments whose tensors it changes in place.
        scratch: specs of tensors that it uses while it runs and nobody else sees.
    """

    reads: tuple[Any, ...]
    writes: tuple[Any, ...]
    partial: tuple[Any, ...] = ()
    scratch: tuple[Any, ...] = ()


def effect_of(node: fx.Node) -> NodeEffect | None:
    """What a node does; None if it runs nothing.

    A node that changes an argument in place, and whose result still has a spec of its own, is taken for the
    functional operator that it was made of: it reads the argument and writes the result (see ``inplace``).
    """
    if node.target in _NO_STEP:
        return None
    schema = schema_holder(node.target)
    results = [spec for spec in specs_of(node) if spec is not None]
    if schema is None:  # a delegate, or arithmetic on sizes
        return NodeEffect((node.args, node.kwargs), tuple(results))
    reads: list[Any] = []
    writes: list[Any] = []
    partial: list[Any] = []
    changed: list[Any] = []
    scratch: list[Any] = []
    named = known_name(schema)
    for parameter, passed, role in roles(schema, schema_arguments(schema, node.args, node.kwargs)):
        if role == "shape":
            continue
        if role in ("read", "viewed"):
            used = None if named else _first_user_of_alloc(passed)
            if used is None:
                reads.append(passed)
            elif len(passed.users) == 1:
                scratch.append(spec_of(passed))
            elif used is node:
                writes.append(spec_of(passed))
            else:
                reads.append(passed)
                partial.append(passed)
            continue
        mine = [spec for n in nodes_in(passed) for spec in specs_of(n) if spec is not None]
        if role == "out":
            writes += mine
            continue
        functional = parameter.is_write and bool(results) and not any(spec in results for spec in mine)
        changed += mine
        if role == "filled" and not functional:
            writes += mine
        else:
            reads.append(passed)
            if not functional:
                partial.append(passed)
    if results:
        writes += [spec for spec in results if spec not in changed]
    return NodeEffect(tuple(reads), tuple(dict.fromkeys(writes)), tuple(partial), tuple(scratch))


def _first_user_of_alloc(passed: Any) -> fx.Node | None:
    """The first node that uses an argument as scratch; None if it is none.

    It is scratch if it is bytes without content, which no node that uses them says that it fills. Where
    several nodes use them, one may leave something there for the next.
    """
    if not isinstance(passed, fx.Node) or passed.target is not memory.alloc:
        return None
    if any(_fills(user, passed) for user in passed.users):
        return None
    user = passed.next
    while user not in passed.users:
        user = user.next
    return user


def _fills(node: fx.Node, argument: fx.Node) -> bool:
    """Whether a node may give an argument content, or is no kernel."""
    schema = schema_holder(node.target) if node.op == "call_function" else None
    if schema is None:
        return True
    return any(
        role in ("changed", "filled", "out") and argument in nodes_in(passed)
        for _, passed, role in roles(schema, schema_arguments(schema, node.args, node.kwargs))
    )
