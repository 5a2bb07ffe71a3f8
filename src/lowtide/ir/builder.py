"""Programs written down region by region: what front ends, and compilers of yours, build Programs with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lowtide.base.constants import ROOT
from lowtide.ir.problem import align_up
from lowtide.ir.program import Program, Region, Step, Storage, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.ir.program import Call, Match


class ProgramBuilder:
    """Collects regions, values and steps; ``build`` freezes them.

    Values, regions and storages are positions, as everywhere in a Program. The root region is there from the
    start, as region 0::

        builder = ProgramBuilder()
        x = builder.input("x", 64)
        y = builder.op("relu", "aten.relu", x, size=64)
        builder.returns(y)
        program = builder.build()

    Args:
        name: of the program, for messages.
        alignment: bytes; sizes are rounded up to it, and offsets will be multiples of it.
    """

    def __init__(self, name: str = "program", *, alignment: int = 1) -> None:
        self.name, self.alignment = name, alignment
        self.names: list[str] = []
        self.kinds: list[str] = []
        self.parents: list[int | None] = []
        self.params: list[list[int]] = []
        self.steps: list[list[Step]] = []
        self.outputs: list[tuple[int | None, ...]] = []
        self.values: list[Value] = []
        self.storages: list[Storage] = []
        self.writebacks: list[tuple[int, int]] = []
        self.region(ROOT, None, kind="root")

    def region(self, name: str, parent: int | None = 0, *, kind: str = "call") -> int:
        """A region below another.

        Args:
            name: unqualified.
            parent: position of the region whose steps call it first.
            kind: what it is to its caller: branch, condition, body, delegate...
        """
        self.names.append(name if parent is None else f"{self.names[parent]}/{name}")
        self.kinds.append(kind)
        self.parents.append(parent)
        self.params.append([])
        self.steps.append([])
        self.outputs.append(())
        return len(self.names) - 1

    def new(self, name: str, size: int | None, *, region: int = 0, layout: str = "", **more: Any) -> int:
        """A value with a storage of its own.

        Args:
            name: unqualified; unique in its region.
            size: bytes; None if unbounded, and then it is not planned.
            region: where it is defined.
            layout: how its elements lie, as an opaque key: copies between equal keys can be saved. Empty for
                what no copy may be saved of.
            more: fields of the Storage: kind, planned, persistent, arena, dtype, shape, operator, source.
        """
        qualified = f"{self.names[region]}/{name}"
        more.setdefault("planned", size is not None and more.get("kind") != "constant")
        rounded = None if size is None else align_up(size, self.alignment)
        more.setdefault("alignment", self.alignment)
        self.storages.append(Storage(qualified, rounded, region=region, **more))
        self.values.append(Value(qualified, region, storage=len(self.storages) - 1, layout=layout))
        return len(self.values) - 1

    def input(self, name: str, size: int, **more: Any) -> int:
        """A value that the caller of the program passes; ``more`` as for ``new``."""
        value = self.new(name, size, kind="input", **more)
        self.params[0].append(value)
        return value

    def constant(self, name: str, size: int, **more: Any) -> int:
        """A value that comes with the program, outside every arena; ``more`` as for ``new``."""
        return self.new(name, size, kind="constant", **more)

    def state(self, name: str, size: int, **more: Any) -> int:
        """A value whose bytes matter from one invocation to the next; ``more`` as for ``new``."""
        return self.new(name, size, kind="state", persistent=True, **more)

    def param(self, name: str, region: int) -> int:
        """A value that each call of a region binds anew, in the order that ``Call`` describes."""
        self.values.append(Value(f"{self.names[region]}/{name}", region))
        self.params[region].append(len(self.values) - 1)
        return len(self.values) - 1

    def view(self, name: str, *bases: int, region: int = 0, layout: str = "") -> int:
        """A value that is other values' bytes: of one for a view, of several for a pointer that moves."""
        self.values.append(Value(f"{self.names[region]}/{name}", region, aliases=bases, layout=layout))
        return len(self.values) - 1

    def scratch(self, name: str, size: int, *, region: int = 0) -> int:
        """Bytes that one step uses while it runs: a storage, to be named in its ``scratch``."""
        value = self.new(name, size, region=region, kind="scratch")
        storage = self.values.pop(value).storage
        assert storage is not None
        return storage

    def step(
        self,
        name: str,
        operator: str = "",
        *,
        region: int = 0,
        reads: Sequence[int] = (),
        writes: Sequence[int] = (),
        partial: Sequence[int] = (),
        scratch: Sequence[int] = (),
        effects: bool = False,
        call: Call | None = None,
        source: str | None = None,
        overwrites: Sequence[tuple[int, int]] = (),
        matches: Sequence[Match] = (),
    ) -> None:
        """One operation at the end of a region; the arguments are those of ``Step``."""
        self.steps[region].append(
            Step(
                name,
                operator or name,
                tuple(reads),
                tuple(writes),
                tuple(partial),
                tuple(scratch),
                effects,
                call,
                source,
                tuple(overwrites),
                tuple(matches),
            )
        )

    def op(self, name: str, operator: str, *reads: int, size: int, region: int = 0, **more: Any) -> int:
        """A step that reads some values and makes a new one, of its own name; ``more`` as for ``new``."""
        value = self.new(name, size, region=region, operator=operator, **more)
        self.step(name, operator, region=region, reads=reads, writes=(value,))
        return value

    def returns(self, *values: int | None, region: int = 0) -> None:
        """What a region hands to its caller; None for what holds no tensor."""
        self.outputs[region] = values

    def writes_back(self, state: int, new: int) -> None:
        """When the program is done, ``new`` is copied to ``state``."""
        self.writebacks.append((state, new))

    def build(self) -> Program:
        """The Program. What the root returns, and was a temporary until now, becomes an output.

        Raises:
            LowtideError: positions do not fit together, or names occur twice.
        """
        for output in self.outputs[0]:
            storage = None if output is None else self._owner(output)
            if storage is not None and self.storages[storage].kind == "temporary":
                self.storages[storage] = replace(self.storages[storage], kind="output")
        regions = tuple(
            Region(name, tuple(params), tuple(steps), outputs, kind, parent)
            for name, params, steps, outputs, kind, parent in zip(
                self.names, self.params, self.steps, self.outputs, self.kinds, self.parents, strict=True
            )
        )
        return Program(
            regions, tuple(self.values), tuple(self.storages), tuple(self.writebacks), name=self.name
        )

    def _owner(self, value: int) -> int | None:
        """The one storage behind a value, views followed; None for a parameter, or several."""
        seen = 0
        while self.values[value].storage is None:
            aliases = self.values[value].aliases
            seen += 1
            if len(aliases) != 1 or seen > len(self.values):
                return None
            (value,) = aliases
        return self.values[value].storage
