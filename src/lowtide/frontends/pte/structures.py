"""What ExecuTorch's runtime allocates when it loads a method: sizes of its structures, and rules, by version.

Each figure was printed by the runtime's own headers (``tools/executorch_memory``), for 64-bit Linux and
for the 32-bit procedure call standard of Arm, which Cortex-M follows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lowtide.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Structure(NamedTuple):
    """Bytes that one takes, and what its address is a multiple of."""

    size: int
    alignment: int


def _structures(**given: tuple[int, int]) -> dict[str, Structure]:
    return {name: Structure(*figures) for name, figures in given.items()}


DEVICES: Mapping[str, Mapping[str, Structure]] = {
    "cortex-m": _structures(
        pointer=(4, 4),
        value=(16, 8),
        flag=(1, 1),
        integer=(8, 8),
        size=(4, 4),
        order=(1, 1),
        tensor=(4, 4),
        optional_tensor=(8, 4),
        tensor_impl=(32, 4),
        boxed_list=(12, 4),
        array=(8, 4),
        external=(40, 8),
        delegate=(40, 8),
        compile_spec=(12, 4),
        merged_data_map=(12, 4),
        chain=(16, 4),
        kernel=(4, 4),
        arguments=(8, 4),
        tensor_meta=(12, 4),
        platform_allocator=(28, 4),
    ),
    "host": _structures(
        pointer=(8, 8),
        value=(16, 8),
        flag=(1, 1),
        integer=(8, 8),
        size=(4, 4),
        order=(1, 1),
        tensor=(8, 8),
        optional_tensor=(16, 8),
        tensor_impl=(64, 8),
        boxed_list=(24, 8),
        array=(16, 8),
        external=(48, 8),
        delegate=(56, 8),
        compile_spec=(24, 8),
        merged_data_map=(24, 8),
        chain=(32, 8),
        kernel=(8, 8),
        arguments=(16, 8),
        tensor_meta=(24, 8),
        platform_allocator=(48, 8),
    ),
}
"""The same in every version that is known."""

MOST_DIMENSIONS = 16
"""``kTensorDimensionLimit``."""


@dataclass(frozen=True)
class Runtime:
    """One version of the runtime.

    Args:
        version: major and minor number.
        passes_over_small_pools: looking a kernel up takes memory from the method allocator where the pool for
            temporary memory has not room for the largest tensors; else that fails.
        fast_memory: memory id that Arm's executor_runner has a pool of its own for; 0 if it has none.
    """

    version: str
    passes_over_small_pools: bool
    fast_memory: int

    @property
    def name(self) -> str:
        """For people."""
        return f"ExecuTorch {self.version}"


RUNTIMES = (
    Runtime("1.4", passes_over_small_pools=False, fast_memory=0),
    Runtime("1.5", passes_over_small_pools=True, fast_memory=3),
)
"""Oldest first."""


def runtime_of(version: object) -> tuple[Runtime, str]:
    """The runtime of a version, and a note where its figures are another's.

    Args:
        version: such as ``1.4`` or ``1.5.1``; None for the newest.

    Raises:
        InputError: it is no version.
    """
    oldest, newest = RUNTIMES[0], RUNTIMES[-1]
    if version is None:
        return newest, f"A file does not say which runtime loads it: figures are those of {newest.name}."
    if not isinstance(version, str) or not re.fullmatch(r"\d{1,4}(\.\d{1,6}){1,2}", version, re.ASCII):
        raise InputError(f"runtime {version!r} is no version: write one such as {newest.version!r}")
    known = ".".join(version.split(".")[:2])
    for runtime in RUNTIMES:
        if runtime.version == known:
            return runtime, ""
    nearest, which = (oldest, "oldest") if _parts(version) < _parts(oldest.version) else (newest, "newest")
    return (
        nearest,
        f"ExecuTorch {version} is not known: figures are those of {nearest.name}, the {which} that is.",
    )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
