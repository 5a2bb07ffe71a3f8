"""What runs: Program, Region, Step, Call, Value, Storage.

A *region* is an ordered list of steps (a graph module). A *step* reads and writes values and may
*call* other regions. A *value* is a name for bytes: it has a *storage* of its own, or is a view of
another value, or is a region's parameter, bound anew by every call. A *storage* is a block of bytes
with an identity; planning gives storages their places.

Everything refers to everything else by position: ``program.values[v]``, ``program.storages[s]``,
``program.regions[r]``. Front ends make Programs; nothing downstream changes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from lowtide.base.constants import DEFAULT_ARENA, ROOT
from lowtide.base.errors import LowtideError

if TYPE_CHECKING:
    from collections.abc import Iterator

StorageKind = Literal["temporary", "input", "output", "state", "constant", "result", "carry", "scratch"]
CallKind = Literal["call", "cond", "while", "scan", "associative_scan"]
CopyOrder = Literal["parallel", "sequential"]


@dataclass(frozen=True, slots=True)
class Storage:
    """A block of bytes with an identity of its own.

    Args:
        name: qualified by region, such as ``root/true_graph_0/mul``; unique.
        size: bytes, already rounded up to the alignment; None if unbounded.
        kind: what it is for. A ``constant`` lives outside every arena and is never written.
        region: position of the region that owns it.
        planned: whether it is to get an offset. Unbounded, constant and user-provided memory is not.
        persistent: whether its bytes matter across invocations (mutable state).
        arena, alignment, dtype, shape, operator, source: passed on to its Buffer.
    """

    name: str
    size: int | None
    kind: StorageKind = "temporary"
    region: int = 0
    planned: bool = True
    persistent: bool = False
    alignment: int = 1
    arena: int = DEFAULT_ARENA
    dtype: str | None = None
    shape: tuple[int | str, ...] | None = None
    operator: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A name for bytes.

    Args:
        name: qualified by region.
        region: position of the region that defines it.
        storage: the storage that it owns, or None.
        aliases: values whose bytes it may be: one for a view, several where a runtime moves a pointer.
            A value with neither storage nor aliases is a region's parameter, or holds no tensor at all.
        layout: how its elements lie in its bytes, as an opaque key; two values whose keys are equal can
            take each other's bytes as they are. Empty if it does not cover its storage from end to end.
    """

    name: str
    region: int = 0
    storage: int | None = None
    aliases: tuple[int, ...] = ()
    layout: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """How a step runs other regions.

    Parameters of the regions are bound by reference, in the order carries, slices, operands:

    ==================  ==================================  ============================================
    kind                parameters of its regions           outputs of its regions
    ==================  ==================================  ============================================
    call                operands                            copied to ``results``
    cond                operands                            each region's outputs are copied to ``results``
    while               carries, operands (of both the      the condition's only output decides; the
                        condition and the body)             body's outputs are copied to ``carries``
    scan                carries, slices, operands           first copied to ``carries``, the others
                                                            written into ``results``, a part each time
    associative_scan    the previous part of each result,   written into ``results``, a part each time;
                        slices, operands                    the first part is the first slice itself
    ==================  ==================================  ============================================

    How the runtime makes the copies of one place, which are those from the inits and those of one region's
    outputs, is its ``order``:

    - ``parallel``: all at once; every source is read before any target is written. PyTorch's own semantics.
    - ``sequential``: one after another, carries before results, each in the order in which it is listed
      here; a kernel that copies reads while it writes, so its ends lie apart or in exactly one place, where
      it changes nothing. Stacked results come into being between the inits' copies and the first part.
      ExecuTorch does so, and TensorFlow Lite Micro.

    What a call computes is the same in either order: where a source is a carry or result that an earlier copy
    of the sequence has changed, the front end must hold the old value in a step of the region, since lowering
    refuses the program otherwise.

    Args:
        kind: one of the above; a ``map`` is a scan without carries.
        regions: positions of the regions: one; for cond one a branch; for while condition and body.
        operands: values passed by reference; None for what holds no tensor.
        carries: values with storage of their own, filled from ``inits``, then from each iteration.
        inits: what each carry starts from.
        slices: values of which every iteration sees one slice, by reference.
        results: values with storage of their own; None for what holds no tensor.
        selector: cond: the value that picks the branch.
        order: in which the runtime makes copies.
    """

    kind: CallKind
    regions: tuple[int, ...]
    operands: tuple[int | None, ...] = ()
    carries: tuple[int | None, ...] = ()
    inits: tuple[int | None, ...] = ()
    slices: tuple[int, ...] = ()
    results: tuple[int | None, ...] = ()
    selector: int | None = None
    order: CopyOrder = "parallel"

    @property
    def values(self) -> Iterator[int]:
        """Every value that the call names; one may come twice."""
        for group in (self.operands, self.carries, self.inits, self.slices, self.results, (self.selector,)):
            yield from (value for value in group if value is not None)


@dataclass(frozen=True, slots=True)
class Match:
    """After the step ``inner`` holds what ``outer`` holds from ``distance`` bytes on, in the same order.

    So the copy that the step makes is no work if ``inner`` lies there: a clone is a match at distance 0, each
    part of a ``cat`` one at the part's place, each slice that is cut out of a whole as well.

    Args:
        inner, outer: values, one written by the step and one read.
        distance: bytes.
    """

    inner: int
    outer: int
    distance: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a region.

    Args:
        name: unqualified, unique in its region.
        operator: what it runs, such as ``aten.add.Tensor``.
        reads: values whose bytes it reads.
        writes: values whose bytes it writes from end to end.
        partial: values of which it writes some bytes and leaves the others.
        scratch: storages that it uses while it runs and nobody else sees.
        effects: whether it must run even if nobody reads what it writes.
        call: the regions that it runs, if any.
        source: where in the user's code it comes from.
        overwrites: pairs ``(written, read)`` of values: the kernel is right with the one exactly over the
            other.
        matches: what is the same bytes afterwards.
    """

    name: str
    operator: str
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    partial: tuple[int, ...] = ()
    scratch: tuple[int, ...] = ()
    effects: bool = False
    call: Call | None = None
    source: str | None = None
    overwrites: tuple[tuple[int, int], ...] = ()
    matches: tuple[Match, ...] = ()

    @property
    def values(self) -> Iterator[int]:
        """Every value that the step names, as an argument of a call too; one may come twice."""
        yield from (*self.reads, *self.writes, *self.partial)
        if self.call is not None:
            yield from self.call.values


@dataclass(frozen=True, slots=True)
class Region:
    """An ordered list of steps.

    Args:
        name: qualified, such as ``root/true_graph_0``; unique.
        params: values bound by each call, in the order that Call describes.
        outputs: values handed to the caller; None for what holds no tensor. A value may occur twice.
        kind: what it is to its caller, for pictures and reports: root, branch, condition, body, delegate...
        parent: position of the region whose steps call it first; None for the root.
    """

    name: str = ROOT
    params: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()
    outputs: tuple[int | None, ...] = ()
    kind: str = "root"
    parent: int | None = None


@dataclass(frozen=True)
class Program:
    """A tree of regions; ``regions[0]`` is the root, parents come before children.

    The root's ``params`` are the program's inputs, each with a storage; its ``outputs`` leave it.
    Storages of kind input, state and constant hold their bytes when the program starts.

    Args:
        writebacks: pairs of values ``(state, new)``: when the root is done, ``new`` is copied to ``state``.

    Raises:
        LowtideError: positions do not fit together, names occur twice, or unbounded memory is to be planned.
    """

    regions: tuple[Region, ...]
    values: tuple[Value, ...]
    storages: tuple[Storage, ...]
    writebacks: tuple[tuple[int, int], ...] = ()
    name: str = field(default="program", compare=False)

    def __post_init__(self) -> None:
        _check_storages(self)
        _check_values(self)
        _check_regions(self)

    def storages_of(self, value: int) -> frozenset[int]:
        """Storages that hold a value's bytes, views followed; a parameter has none of its own."""
        return self._behind[value][0]

    def rests_on_caller(self, value: int) -> bool:
        """Whether a value is a region's parameter, or a view of one, so that each call says where it is."""
        return self._behind[value][1]

    @cached_property
    def _behind(self) -> tuple[tuple[frozenset[int], bool], ...]:
        found: list[tuple[frozenset[int], bool]] = []
        for value in self.values:  # a view comes after what it is a view of
            own = frozenset() if value.storage is None else frozenset((value.storage,))
            origins = [found[alias] for alias in value.aliases]
            bound = value.storage is None and not value.aliases
            found.append(
                (
                    own.union(*(storages for storages, _ in origins)),
                    bound or any(rests for _, rests in origins),
                )
            )
        return tuple(found)

    def value(self, name: str) -> int:
        """Position of the value with this qualified name.

        Raises:
            LowtideError: there is none.
        """
        for position, value in enumerate(self.values):
            if value.name == name:
                return position
        raise LowtideError(f"{self.name}: there is no value {name!r}")


def _check_storages(program: Program) -> None:
    seen: set[str] = set()
    for storage in program.storages:
        if storage.name in seen:
            raise LowtideError(f"storage {storage.name!r} occurs twice: names must be unique")
        seen.add(storage.name)
        if not 0 <= storage.region < len(program.regions):
            raise LowtideError(
                f"storage {storage.name!r} is in region {storage.region}, which does not exist"
            )
        if storage.planned and (storage.size is None or storage.kind == "constant"):
            raise LowtideError(f"storage {storage.name!r} is unbounded or constant: it cannot be planned")


def _check_values(program: Program) -> None:
    for position, value in enumerate(program.values):
        if value.storage is not None and not 0 <= value.storage < len(program.storages):
            raise LowtideError(f"value {value.name!r} has storage {value.storage}, which does not exist")
        if any(not 0 <= alias < position for alias in value.aliases):
            raise LowtideError(f"value {value.name!r} must come after the values that it is a view of")


def _check_regions(program: Program) -> None:
    if not program.regions:
        raise LowtideError("a program has at least its root region")
    values, storages, regions = len(program.values), len(program.storages), len(program.regions)
    for position, region in enumerate(program.regions):
        if region.parent is not None and not 0 <= region.parent < position:
            raise LowtideError(f"region {region.name!r} must come after its parent")
        named = [*region.params, *(output for output in region.outputs if output is not None)]
        for step in region.steps:
            named += step.values
            _check_permissions(region, step)
            if any(not 0 <= scratch < storages for scratch in step.scratch):
                raise LowtideError(f"step {region.name}/{step.name} has scratch that does not exist")
            if step.call is not None and any(not 0 <= callee < regions for callee in step.call.regions):
                raise LowtideError(f"step {region.name}/{step.name} calls a region that does not exist")
        if any(not 0 <= value < values for value in named):
            raise LowtideError(f"region {region.name!r} names a value that does not exist")
    if any(not 0 <= value < values for pair in program.writebacks for value in pair):
        raise LowtideError("a writeback names a value that does not exist")


def _check_permissions(region: Region, step: Step) -> None:
    """What may share bytes is one value that the step writes and one that it reads."""
    pairs = [*step.overwrites, *((match.inner, match.outer) for match in step.matches)]
    for a, b in pairs:
        if not ((a in step.writes and b in step.reads) or (a in step.reads and b in step.writes)):
            raise LowtideError(
                f"step {region.name}/{step.name} may share the bytes of two values, "
                "of which it does not write one and read the other"
            )
    if any(match.distance < 0 for match in step.matches):
        raise LowtideError(f"step {region.name}/{step.name} matches bytes at a negative distance")
