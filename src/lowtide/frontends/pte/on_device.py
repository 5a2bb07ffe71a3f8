"""All the memory that a method of a ``.pte`` takes on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError
from lowtide.base.files import show_name
from lowtide.base.units import amount, parse_size
from lowtide.frontends.pte.allocating import Target, allocations, filled, has_external_data, is_bounded
from lowtide.frontends.pte.analysis import shared_arenas
from lowtide.frontends.pte.segments import segments_of
from lowtide.frontends.pte.structures import DEVICES, runtime_of
from lowtide.frontends.pte.temporaries import HANDLES, HEAPS, handle_of
from lowtide.frontends.pte.temporary_pool import fitted, savings, temporary_parts
from lowtide.ir.device_memory import DeviceMemory, RamPart, check_device
from lowtide.ir.problem import align_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lowtide.frontends.pte.analysis import Analysis
    from lowtide.frontends.pte.methods import Method
    from lowtide.frontends.pte.reading import PteFile

_NO_POOL = "none"
_MOST_NOTES = 3
"""Other methods of a file that notes speak of."""

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
        all_methods: whether all methods of the file are loaded at once.
    """

    device: str
    target: Target
    given: bool
    copied: bool
    note: str
    all_methods: bool = False


def loading_of(options: Mapping[str, Any]) -> Loading | None:
    """What the options of a request say of the device; None if they name none.

    Raises:
        InputError: one is not right, or means nothing without a device.
    """
    device = options.get("device")
    if device is None:
        idle = [name for name in ("runtime", "temp_pool", "copied", "all_methods") if options.get(name)]
        if idle:
            raise InputError(f"--{idle[0].replace('_', '-')} says more of a device: give --device as well")
        return None
    check_device(str(device))
    runtime, note = runtime_of(options.get("runtime"))
    switches = {name: options.get(name) or False for name in ("copied", "all_methods")}
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise InputError(f"{name} {value!r}: give True or False")
    text = options.get("temp_pool")
    pool = _pool_of(text, str(device))
    handles = {name: handle for name in HANDLES if (handle := handle_of(name, str(device)))}
    target = Target(DEVICES[str(device)], runtime, pool, handles)
    return Loading(str(device), target, text is not None, note=note, **switches)


def _pool_of(text: Any, device: str) -> int | None:
    """Bytes of the pool that an option names; None for no pool.

    Raises:
        InputError: it is no size, or more than the device has addresses.
    """
    if text is None:
        return 0
    if text == _NO_POOL:
        return None
    pool = parse_size(str(text))
    limit = 1 << 8 * DEVICES[device]["pointer"].size
    if pool >= limit:
        raise InputError(f"a pool of {amount(pool)} for temporary memory: {device} has only {amount(limit)}")
    return pool


def device_memory(
    file: PteFile, analysis: Analysis, analyses: Sequence[Analysis], loading: Loading
) -> DeviceMemory:
    """Everything that a method takes.

    Args:
        file: which holds it.
        analysis: of the method.
        analyses: of all methods of the file.
        loading: how it is loaded.

    Raises:
        InputError: the pool for temporary memory is too small for it.
    """
    method = analysis.method
    others = [other.method for other in analyses if other is not analysis]
    loaded = [method, *(others if loading.all_methods else ())]
    target = fitted(file, loaded, loading.target, given=loading.given)
    shared = shared_arenas(analyses)
    parts = [
        *_arenas(method),
        *_given(method),
        *_method_parts(file, method, target),
        *_unknown_handles(method, loading.device),
        *temporary_parts(file, loaded, target),
        *_heaps(loaded),
        *segments_of(file, method, copied=loading.copied),
    ]
    if loading.all_methods:
        for other in others:
            end = sum(part.bytes or 0 for part in parts if part.pool == "method")
            parts += _parts_of_another(file, other, target, loading.device, shared, end)
    found = savings(file, analysis, loaded, target, parts)
    notes = [loading.note, *_notes(file, target, loading, others, shared)]
    return DeviceMemory(
        loading.device,
        target.runtime.name,
        tuple(parts),
        tuple(sorted((saving for saving in found if saving.wins > 0), key=lambda saving: -saving.wins)),
        tuple(note for note in notes if note),
        runner_pools(file, method, target) if loading.device == "cortex-m" else (),
        has_temporary_pool=target.pool is not None,
    )


def _arena_name(memory: int) -> str:
    return f"arena {memory}"


def _arenas(method: Method) -> Iterator[RamPart]:
    for memory, size in method.arenas.items():
        count = sum(tensor.place is not None and tensor.place.memory == memory for tensor in method.planned)
        yield RamPart("arena", _arena_name(memory), size, count, remark="as the file plans it")


def _given(method: Method) -> Iterator[RamPart]:
    """Inputs and outputs that the file plans no bytes for, and that whoever runs the method must hold."""
    ends = dict.fromkeys((*method.inputs, *method.outputs))
    outside = [method.tensors[value] for value in ends if value in method.tensors]
    outside = [tensor for tensor in outside if tensor.place is None and not tensor.constant]
    what = "inputs and outputs that the caller gives"
    unbounded = [tensor for tensor in outside if not is_bounded(method, tensor.index)]
    bounded = [tensor for tensor in outside if is_bounded(method, tensor.index)]
    if bounded:
        size = sum(tensor.size for tensor in bounded)
        yield RamPart("caller", what, size, len(bounded), remark="outside the arenas")
    if unbounded:
        yield RamPart("caller", f"{what}, of no bound", None, len(unbounded), remark="outside the arenas")


def _method_parts(file: PteFile, method: Method, target: Target, end: int = 0) -> Iterator[RamPart]:
    """Allocations by kind, of an allocator filled to an end; padding counts as that of the kind after it."""
    sizes: dict[str, int] = {}
    counts: dict[str, int] = {}
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


def _heaps(methods: Sequence[Method]) -> Iterator[RamPart]:
    """What backends take from the heap, which nothing tells the size of."""
    ids = [str(delegate.id) for method in methods for delegate in method.plan.delegates or ()]
    for name in sorted(set(ids)):
        remark = HEAPS.get(name, "its backend alone knows")
        yield RamPart("heap", f"heap of {show_name(name)}", None, ids.count(name), remark=remark)


def _parts_of_another(
    file: PteFile, method: Method, target: Target, device: str, shared: frozenset[int], end: int
) -> Iterator[RamPart]:
    """What a method takes that is loaded as well; arenas with shared state are there once.

    Args:
        file, method: the method, and the file that holds it.
        target, device: where it is loaded.
        shared: memory ids of which all methods have the same block.
        end: how far the method allocator, which all methods share, is filled by those before.
    """
    own = (part for part in _arenas(method) if part.what not in {_arena_name(memory) for memory in shared})
    parts = [
        *own,
        *_given(method),
        *_method_parts(file, method, target, end),
        *_unknown_handles(method, device),
    ]
    return (replace(part, method=method.name) for part in parts)


def _notes(
    file: PteFile, target: Target, loading: Loading, others: Sequence[Method], shared: frozenset[int]
) -> Iterator[str]:
    if target.pool is None:
        yield "Without a pool for temporary memory, kernels are looked up in the method allocator's memory."
    if not loading.copied:
        yield "The program, its constants and blobs are read where the file is; --copied counts them as RAM."
    if has_external_data(file):
        yield "The file of data (.ptd) that its constants are in is taken to be given to every method."
    elif file.program.named_data is not None:
        merged = target.structures["merged_data_map"].size
        yield f"A method that is loaded with a file of data (.ptd) takes {amount(merged)} more."
    if loading.all_methods:
        return
    for other in others[:_MOST_NOTES]:
        size = filled(allocations(file, other, target))
        planned = sum(held for memory, held in other.arenas.items() if memory not in shared)
        yield (
            f"If method {show_name(other.name)} is loaded as well, it takes {amount(size)} of the method "
            f"allocator and {amount(planned)} of arenas besides; the pool for temporary memory serves both."
        )
    if others:
        more = f", and so for {len(others) - _MOST_NOTES} others" if len(others) > _MOST_NOTES else ""
        yield f"--all-methods counts all {len(others) + 1} methods of the file together{more}."


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
