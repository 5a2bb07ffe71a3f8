"""A call as a program: its arguments are made and die in it, its results are copied out of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from operator_facts.cases import Case


class NoCall(Exception):
    """The call itself raises: no operator takes these arguments in this way."""


class Untraced(Exception):
    """PyTorch does not trace the call."""


def program_of(case: Case) -> Any:
    """A program that makes the call on copies of its arguments.

    Raises:
        NoCall: it raises.
        Untraced: PyTorch makes no program of it.
    """
    tensors = case.tensors
    numbers = {id(tensor): i for i, tensor in enumerate(tensors)}

    def function(*given: torch.Tensor) -> list[torch.Tensor]:
        made = [_made(tensor, case.how) for tensor in given]
        leaves = [made[numbers[id(leaf)]] if isinstance(leaf, torch.Tensor) else leaf for leaf in case.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, case.spec)
        results = pytree.tree_leaves(case.function(*args, **kwargs))
        return [result.clone() for result in results if isinstance(result, torch.Tensor)]

    torch.manual_seed(0)
    with torch.no_grad():
        try:
            function(*tensors)
        except Exception as error:
            raise NoCall(str(error)) from error
        try:
            return make_fx(function, tracing_mode="fake", pre_dispatch=not case.decomposed)(*tensors)
        except Exception:
            return _exported(function, case)


def _exported(function: Any, case: Case) -> Any:
    """The road for results whose shapes depend on data."""

    class Module(nn.Module):
        def forward(self, *given: torch.Tensor) -> Any:
            return function(*given)

    try:
        exported = torch.export.export(Module(), tuple(case.tensors), strict=False)
        return exported.run_decompositions() if case.decomposed else exported
    except Exception as error:
        raise Untraced(repr(error)[:200]) from error


def _made(tensor: torch.Tensor, how: str) -> torch.Tensor:
    """A tensor of the program's own with the same elements."""
    if how == "lazy" and tensor.is_complex():
        return tensor.conj().resolve_conj().conj()
    if how == "lazy" and tensor.is_floating_point():
        return torch._neg_view(tensor.neg())
    return tensor.clone()


def graph_of(program: Any) -> fx.GraphModule:
    """The graph of either kind of program."""
    return program if isinstance(program, fx.GraphModule) else program.graph_module
