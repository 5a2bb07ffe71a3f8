"""What an operator really does to its arguments' memory, found by running it on fake tensors.

Most operators say in their schema what they alias and write. Some cannot (``reshape`` copies if it
must), some do not (composite operators such as ``type_as`` or ``dropout`` may return their input as
it is), and Python functions, methods and modules have no schema at all. These are run once on
fresh fake tensors, which have shapes and storages but no bytes, and watched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from lowtide.operators.conjugates import PLAIN, Bits, bits_of, with_bits
from lowtide.operators.schemas import is_view, roles, schema_arguments, signature_of
from lowtide.operators.sizes import extent_of, has_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Observation:
    """What a run on fake tensors showed; arguments are counted as tensors occur in the flat arguments.

    Args:
        aliases: for each leaf of the result: the arguments whose storage it shares.
        read: arguments whose bytes were looked at.
        written: arguments whose storage was written.
        bits: for each leaf of the result: whether it is a conjugate or a negative that is not computed.
    """

    aliases: tuple[tuple[int, ...], ...]
    read: frozenset[int]
    written: frozenset[int]
    bits: tuple[Bits, ...]


class _Watch(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed by mypy
    """Notes every storage that an operator underneath reads or writes."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[int] = set()
        self.written: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        for _, value, role in roles(func, schema_arguments(func, args, kwargs)):
            touched = set(map(_storage_id, _tensors(value)))
            if role in ("changed", "filled", "out"):
                self.written |= touched
            copied = role == "viewed" and not (signature_of(func).moves_memory or is_view(func))
            if copied or role in ("read", "changed"):
                self.read |= touched
        return func(*args, **kwargs)


class Prober:
    """Runs operators on fake tensors, each combination of shapes once."""

    def __init__(self) -> None:
        self._known: dict[Any, Observation | None] = {}
        self._modes: dict[int, FakeTensorMode] = {}

    def observe(
        self, node: fx.Node, function: Callable[..., Any], fakes: Mapping[fx.Node, Any]
    ) -> Observation | None:
        """What ``function`` does with the arguments of ``node``.

        Args:
            node: its arguments are used; nodes among them stand for their fake tensors.
            function: what to run.
            fakes: fake result of every node among the arguments.

        Returns:
            None if the run failed, as with sizes that only real data would tell.
        """
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: fakes[n])
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = None
        if not isinstance(function, torch.nn.Module):
            key = (function, str(spec), tuple(map(_describe, leaves)), _sharing(node))
            if key in self._known:
                return self._known[key]
        observation = self._run(function, leaves, spec)
        if key is not None:
            self._known[key] = observation
        return observation

    def _run(self, function: Callable[..., Any], leaves: list[Any], spec: Any) -> Observation | None:
        env = next((e for e in map(_environment, leaves) if e is not None), None)
        mode = self._modes.setdefault(id(env), FakeTensorMode(shape_env=env, allow_non_fake_inputs=True))
        if env is None:
            return self._watched(mode, function, leaves, spec)
        with env.suppress_guards(), env.ignore_fresh_unbacked_symbols():
            return self._watched(mode, function, leaves, spec)

    def _watched(
        self, mode: FakeTensorMode, function: Callable[..., Any], leaves: list[Any], spec: Any
    ) -> Observation | None:
        fresh: dict[int, torch.Tensor] = {}
        try:
            with torch.no_grad(), mode:
                for leaf in leaves:
                    if isinstance(leaf, torch.Tensor) and id(leaf) not in fresh:
                        bare = torch.empty_strided(
                            leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device
                        )
                        fresh[id(leaf)] = with_bits(bare, bits_of(leaf))
                arguments = [fresh.get(id(leaf), leaf) for leaf in leaves]
                args, kwargs = pytree.tree_unflatten(arguments, spec)
                with _Watch() as watch:
                    result = function(*args, **kwargs)
        except Exception:  # whatever a fake kernel raises: the answer is that nothing was learnt
            return None
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        storages = list(map(_storage_id, tensors))
        leaves = pytree.tree_leaves(result)
        return Observation(
            aliases=tuple(_same(storages, leaf) for leaf in leaves),
            read=frozenset(i for i, storage in enumerate(storages) if storage in watch.read),
            written=frozenset(i for i, storage in enumerate(storages) if storage in watch.written),
            bits=tuple(bits_of(leaf) if isinstance(leaf, torch.Tensor) else PLAIN for leaf in leaves),
        )


def _tensors(value: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and has_memory(leaf)]


def _storage_id(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _same(storages: list[int], leaf: Any) -> tuple[int, ...]:
    if not isinstance(leaf, torch.Tensor) or not has_memory(leaf):
        return ()
    mine = _storage_id(leaf)
    return tuple(i for i, storage in enumerate(storages) if storage == mine)


def _describe(leaf: Any) -> Any:
    """All of an argument that can change what it aliases, as a hashable key."""
    if isinstance(leaf, torch.Tensor):
        shape, stride = map(extent_of, leaf.shape), map(extent_of, leaf.stride())
        return (leaf.dtype, leaf.device, tuple(shape), tuple(stride), bits_of(leaf), id(_environment(leaf)))
    if isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return ("symbol", leaf.node.expr, id(leaf.node.shape_env))
    return (type(leaf), leaf if isinstance(leaf, (int, float, str, bool, type(None))) else str(leaf))


def _sharing(node: fx.Node) -> tuple[int, ...]:
    """Which arguments are one and the same node."""
    first: dict[fx.Node, int] = {}
    nodes = [leaf for leaf in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(leaf, fx.Node)]
    return tuple(first.setdefault(n, len(first)) for n in nodes)


def _environment(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return next(
            (s.node.shape_env for s in (*leaf.shape, *leaf.stride()) if isinstance(s, torch.SymInt)), None
        )
    if isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return leaf.node.shape_env
    return None
