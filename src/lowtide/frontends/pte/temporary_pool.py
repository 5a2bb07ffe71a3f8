"""The pool for temporary memory: how large it must be, what is in it, and what would take less RAM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.base.errors import InputError
from lowtide.base.files import show_name
from lowtide.base.units import amount
from lowtide.frontends.pte.allocating import allocations, filled
from lowtide.frontends.pte.contents import computed_of
from lowtide.frontends.pte.temporaries import ETHOS_U, asks_for, strangers, unread_scratch
from lowtide.ir.device_memory import RamPart, Saving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lowtide.frontends.pte.allocating import Target
    from lowtide.frontends.pte.analysis import Analysis
    from lowtide.frontends.pte.methods import Method
    from lowtide.frontends.pte.reading import PteFile


def fitted(file: PteFile, methods: Sequence[Method], target: Target, *, given: bool) -> Target:
    """The target with a pool that is large enough for some methods, or the given one if it is.

    Raises:
        InputError: it is not.
    """
    if not given:
        return replace(target, pool=_enough(file, methods, target))
    if target.pool is None:
        return target
    for method in methods:
        asked, when = _running(file, method, target), "while it runs"
        looking_up = _looking_up(method, target)
        if target.pool and not target.runtime.passes_over_small_pools and looking_up > asked:
            asked, when = looking_up, "while it is loaded"
        if asked > target.pool:
            raise InputError(
                f"{file.name}: a pool of {amount(target.pool)} for temporary memory is too small for method "
                f"{show_name(method.name)}, which asks for {amount(asked)} {when}"
            )
    return target


def _enough(file: PteFile, methods: Sequence[Method], target: Target) -> int:
    """Bytes of a pool that everything that asks for temporary memory gets it from."""
    return max(max(_looking_up(method, target), _running(file, method, target)) for method in methods)


def _looking_up(method: Method, target: Target) -> int:
    calls = (call for call in method.instructions if call.kind == "kernel")
    return max((target.lookup_pool_bytes(method, call) for call in calls), default=0)


def _running(file: PteFile, method: Method, target: Target) -> int:
    pointer = target.structures["pointer"]
    asked = (asks_for(file, method, call, pointer) for call in method.instructions)
    return max((one.size for one in asked if one is not None), default=0)


def _from_heap(file: PteFile, method: Method, target: Target) -> int:
    """The most that one instruction takes from the heap where there is no pool.

    ``PlatformMemoryAllocator`` puts a node of two pointers in front of each request, and leaves room to
    align what was asked for.
    """
    pointer = target.structures["pointer"]
    asked = (asks_for(file, method, call, pointer) for call in method.instructions)
    sizes = (2 * pointer.size + one.size + one.alignment - 1 for one in asked if one is not None and one.size)
    return max(sizes, default=0)


def temporary_parts(file: PteFile, methods: Sequence[Method], target: Target) -> Iterator[RamPart]:
    """What methods that share a pool, or have none, take of temporary memory."""
    if target.pool is None:
        if heap := max(_from_heap(file, method, target) for method in methods):
            yield RamPart("heap", "temporary memory", heap, remark="the most that one instruction asks for")
    else:
        yield RamPart("temporary", "pool", target.pool, remark=_why(file, methods, target))
    if unread := sum(unread_scratch(file, method) for method in methods):
        remark = "their blobs do not tell it"
        yield RamPart("temporary", f"scratch of {ETHOS_U}", None, unread, remark=remark)
    if unknown := list(dict.fromkeys(name for method in methods for name in strangers(method))):
        names = ", ".join(map(show_name, unknown[:3])) + (", ..." if len(unknown) > 3 else "")
        yield RamPart("temporary", "what others ask for", None, len(unknown), remark=names)


def _why(file: PteFile, methods: Sequence[Method], target: Target) -> str:
    """What a pool is as large as it is for."""
    if not target.pool:
        return ""
    running = max(_running(file, method, target) for method in methods)
    looking_up = max(_looking_up(method, target) for method in methods)
    if running >= looking_up:
        return "filled most while it runs"
    if not target.runtime.passes_over_small_pools:
        return "filled most while it is loaded"
    return "room to look every kernel up in" if target.pool >= looking_up else ""


def savings(
    file: PteFile, analysis: Analysis, methods: Sequence[Method], target: Target, parts: Sequence[RamPart]
) -> Iterator[Saving]:
    """What would take less RAM; each was counted anew.

    Args:
        file: which holds the methods.
        analysis: of the method that is reported.
        methods: those that are loaded, this one first.
        target: where they are loaded.
        parts: what they take.
    """
    method = analysis.method
    yield from _other_pools(file, methods, target)
    for other in dict.fromkeys(part.method for part in parts if part.method):
        held = sum(part.bytes or 0 for part in parts if part.method == other and part.in_ram)
        yield Saving(f"Do not load method {show_name(other)}", held, exact=False)
    if computed := computed_of(analysis):
        now = filled(allocations(file, method, target))
        after = filled(allocations(file, method, target, without=computed))
        change = "Fold what depends on constants alone before lowering (--fold-constants): fewer instructions"
        yield Saving(change, now - after, exact=False)
    dynamic = sum(part.bytes or 0 for part in parts if part.what == "sizes and orders of dynamic tensors")
    yield Saving("Export with fixed shapes: no copies of sizes and orders", dynamic, exact=False)
    copied = sum(part.bytes or 0 for part in parts if part.pool == "file" and part.in_ram)
    yield Saving("Leave the file in flash, or map it into memory, instead of copying it", copied)


def _other_pools(file: PteFile, methods: Sequence[Method], target: Target) -> Iterator[Saving]:
    """The size of the pool that takes the least RAM in all, if it takes less than the given one."""

    def taken(pool: int | None) -> int:
        where = replace(target, pool=pool)
        held = sum(filled(allocations(file, method, where)) for method in methods)
        return held + (max(_from_heap(file, method, where) for method in methods) if pool is None else pool)

    running = max(_running(file, method, target) for method in methods)
    choices: list[int | None] = [_enough(file, methods, target), None]
    if target.runtime.passes_over_small_pools or not running:
        choices.append(running)  # an empty pool, or one that is too small here, is not asked for kernels
    best = min(choices, key=taken)
    wins = taken(target.pool) - taken(best)
    if best is None:
        yield Saving("Give the runtime no pool for temporary memory (--temp-pool none)", wins)
    else:
        yield Saving(f"Make the pool for temporary memory {amount(best)} (--temp-pool {best})", wins)
