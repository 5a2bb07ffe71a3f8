"""All the memory that a method of a ``.pte`` takes on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError
from lowtide.base.files import show_name
from lowtide.base.units import amount, parse_size
from lowtide.frontends.pte.allocating import Target, allocations, filled
from lowtide.frontends.pte.contents import computed_of
from lowtide.frontends.pte.segments import segments_of
from lowtide.frontends.pte.structures import DEVICES, runtime_of
from lowtide.frontends.pte.temporaries import HANDLES, asks_for, handle_of, strangers
from lowtide.ir.device_memory import DeviceMemory, RamPart, Saving, check_device
from lowtide.ir.problem import align_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lowtide.frontends.pte.analysis import Analysis
    from lowtide.frontends.pte.methods import Method
    from lowtide.frontends.pte.reading import PteFile

_NO_POOL = "none"
_RUNNER_ALIGNMENT = 16
"""Of each planned buffer in Arm's executor_runner."""


@dataclass(frozen=True)
class Loading:
    """How methods are loaded, as options say it.

    Args:
        device: name of the target.
        target: sizes, runtime and pool.
        given: whether the size of the pool was told, or is as large as it must be.
        copied: whether the loader copies the file into RAM.
        note: where figures are of another version.
    """

    device: str
    target: Target
    given: bool
    copied: bool
    note: str


def loading_of(options: Mapping[str, Any]) -> Loading | None:
    """What the options of a request say of the device; None if they name none.

    Raises:
        InputError: one is not right, or means nothing without a device.
    """
    device = options.get("device")
    if not device:
        idle = [name for name in ("runtime", "temp_pool", "copied") if options.get(name)]
        if idle:
            raise InputError(f"--{idle[0].replace('_', '-')} says more of a device: give --device as well")
        return None
    check_device(str(device))
    runtime, note = runtime_of(options.get("runtime"))
    text = options.get("temp_pool")
    pool = None if text == _NO_POOL else parse_size(str(text or 0))
    handles = {name: handle for name in HANDLES if (handle := handle_of(name, str(device)))}
    target = Target(DEVICES[str(device)], runtime, pool, handles)
    return Loading(str(device), target, text is not None, bool(options.get("copied")), note)


def device_memory(
    file: PteFile, analysis: Analysis, methods: Sequence[Method], loading: Loading
) -> DeviceMemory:
    """Everything that a method takes.

    Args:
        file: which holds it.
        analysis: of the method.
        methods: all of the file.
        loading: how it is loaded.

    Raises:
        InputError: the pool for temporary memory is too small for it.
    """
    method = analysis.method
    needed, why = _temporary(file, method, loading.target)
    target = _fitted(file, method, loading, needed, why)
    parts = [
        *_arenas(method),
        *_method_parts(file, method, target),
        *_unknown_handles(method, loading.device),
        *_temporary_parts(file, method, target, why),
        *segments_of(file, method, copied=loading.copied),
    ]
    savings = sorted(_savings(file, analysis, target, needed, parts), key=lambda saving: -saving.wins)
    others = [other for other in methods if other.name != method.name]
    notes = [loading.note, *_notes(file, method, target, loading, others)]
    return DeviceMemory(
        loading.device,
        target.runtime.name,
        tuple(parts),
        tuple(saving for saving in savings if saving.wins > 0),
        tuple(note for note in notes if note),
        runner_pools(file, method, target) if loading.device == "cortex-m" else (),
    )


def _fitted(file: PteFile, method: Method, loading: Loading, needed: int, why: str) -> Target:
    """The target with a pool that is large enough, or the given one if it is.

    Raises:
        InputError: it is not.
    """
    target = loading.target
    if not loading.given:
        return replace(target, pool=needed)
    if target.pool is None:
        return target
    asked = _running(file, method, target)
    if target.pool and not target.runtime.passes_over_small_pools:
        asked = max(asked, _looking_up(method, target))
    if asked > target.pool:
        raise InputError(
            f"{file.name}: a pool of {amount(target.pool)} for temporary memory is too small for method "
            f"{show_name(method.name)}, which asks for {amount(asked)} {why}"
        )
    return target


def _temporary(file: PteFile, method: Method, target: Target) -> tuple[int, str]:
    """Bytes that the pool for temporary memory needs, and when."""
    looking_up, running = _looking_up(method, target), _running(file, method, target)
    return max(looking_up, running), "while it runs" if running > looking_up else "while it is loaded"


def _looking_up(method: Method, target: Target) -> int:
    calls = (call for call in method.instructions if call.kind == "kernel")
    return max((target.lookup_pool_bytes(method, call) for call in calls), default=0)


def _running(file: PteFile, method: Method, target: Target) -> int:
    pointer = target.structures["pointer"]
    asked = (asks_for(file, method, call, pointer) for call in method.instructions)
    return max((one.size for one in asked if one is not None), default=0)


def _arenas(method: Method) -> Iterator[RamPart]:
    for memory, size in method.arenas.items():
        count = sum(tensor.place is not None and tensor.place.memory == memory for tensor in method.planned)
        yield RamPart("arena", f"arena {memory}", size, count, remark="as the file plans it")


def _method_parts(file: PteFile, method: Method, target: Target) -> Iterator[RamPart]:
    """Allocations by kind; padding counts as the kind's that needed it."""
    sizes: dict[str, int] = {}
    counts: dict[str, int] = {}
    end = 0
    for allocation in allocations(file, method, target):
        after = filled([allocation], end)
        sizes[allocation.what] = sizes.get(allocation.what, 0) + after - end
        counts[allocation.what] = counts.get(allocation.what, 0) + 1
        end = after
    for what, size in sizes.items():
        yield RamPart("method", what, size, counts[what])


def _unknown_handles(method: Method, device: str) -> Iterator[RamPart]:
    delegates = method.plan.delegates or ()
    names = {str(delegate.id) for delegate in delegates if handle_of(str(delegate.id), device) is None}
    for name in sorted(names):
        count = sum(delegate.id == name for delegate in delegates)
        yield RamPart(
            "method", f"handles of {show_name(name)}", None, count, remark="its backend alone knows"
        )


def _temporary_parts(file: PteFile, method: Method, target: Target, why: str) -> Iterator[RamPart]:
    if target.pool is None:
        running = _running(file, method, target)
        if running:
            yield RamPart(
                "temporary", "from the heap", running, remark="the most that one instruction asks for"
            )
    else:
        yield RamPart("temporary", "pool", target.pool, remark=f"filled most {why}" if target.pool else "")
    if unknown := strangers(method):
        names = ", ".join(map(show_name, unknown[:3])) + (", ..." if len(unknown) > 3 else "")
        yield RamPart("temporary", "what others ask for", None, len(unknown), remark=names)


def _savings(
    file: PteFile, analysis: Analysis, target: Target, needed: int, parts: Sequence[RamPart]
) -> Iterator[Saving]:
    """What would take less RAM; each was counted anew."""
    method = analysis.method
    now = filled(allocations(file, method, target))
    pool = target.pool or 0
    if pool < needed:
        roomy = filled(allocations(file, method, replace(target, pool=needed)))
        yield Saving(
            f"Give the runtime a pool of {amount(needed)} for temporary memory", now - roomy - needed + pool
        )
    elif pool > needed:
        yield Saving(f"Make the pool for temporary memory {amount(needed)}, which is enough", pool - needed)
    if computed := computed_of(analysis):
        after = filled(allocations(file, method, target, without=computed))
        change = "Fold what depends on constants alone before lowering (--fold-constants): fewer instructions"
        yield Saving(change, now - after, exact=False)
    dynamic = sum(part.bytes or 0 for part in parts if part.what == "sizes and orders of dynamic tensors")
    yield Saving("Export with fixed shapes: no copies of sizes and orders", dynamic, exact=False)
    copied = sum(part.bytes or 0 for part in parts if part.pool == "file" and part.in_ram)
    yield Saving("Leave the file in flash, or map it into memory, instead of copying it", copied)


def _notes(
    file: PteFile, method: Method, target: Target, loading: Loading, others: Sequence[Method]
) -> Iterator[str]:
    if target.pool is None:
        yield "Without a pool for temporary memory, kernels are looked up in the method allocator's memory."
    if not loading.copied:
        yield "The program, its constants and blobs are read where the file is; --copied counts them as RAM."
    for other in others:
        size = filled(allocations(file, other, target))
        planned = sum(other.arenas.values())
        yield (
            f"If method {show_name(other.name)} is loaded as well, it takes {amount(size)} of the method "
            f"allocator and {amount(planned)} of arenas besides."
        )


def runner_pools(file: PteFile, method: Method, target: Target) -> tuple[tuple[str, int], ...]:
    """What Arm's executor_runner fills of its pools: planned buffers, the method, and a value an input."""
    fast = target.runtime.fast_memory
    end = 0
    for memory, size in method.arenas.items():
        # The newer runner passes over empty buffers; the older one lets them align what follows.
        if memory != fast and (size or not fast):
            end = align_up(end, _RUNNER_ALIGNMENT) + size
    end = filled(allocations(file, method, target), end)
    end = filled([target.some("inputs", "value", len(method.plan.inputs or ()))], end)
    settings = [
        ("ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE", end),
        ("ET_ARM_BAREMETAL_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE", target.pool or 0),
    ]
    if apart := method.arenas.get(fast, 0):
        settings.append(("ET_ARM_BAREMETAL_PLANNED_FAST_MEMORY_SIZE", apart))
    return tuple(settings)
