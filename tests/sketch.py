"""Programs written down by hand, region by region, for tests that want exact ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowtide.ir.program import Call, Program, Region, Step, Storage, Value


class Sketch:
    """Collects regions, values and steps; ``build`` freezes them. Every value is 16 bytes unless it says."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.parents: list[int | None] = []
        self.params: list[list[int]] = []
        self.steps: list[list[Step]] = []
        self.outputs: list[tuple[int | None, ...]] = []
        self.values: list[Value] = []
        self.storages: list[Storage] = []
        self.writebacks: list[tuple[int, int]] = []
        self.root = self.region("root", None)

    def region(self, name: str, parent: int | None = 0) -> int:
        self.names.append(name if parent is None else f"{self.names[parent]}/{name}")
        self.parents.append(parent)
        self.params.append([])
        self.steps.append([])
        self.outputs.append(())
        return len(self.names) - 1

    def new(self, name: str, region: int = 0, size: int | None = 16, layout: str = "C", **more: Any) -> int:
        """A value with a storage of its own."""
        qualified = f"{self.names[region]}/{name}"
        more.setdefault("planned", size is not None)
        self.storages.append(Storage(qualified, size, region=region, **more))
        self.values.append(Value(qualified, region, storage=len(self.storages) - 1, layout=layout))
        return len(self.values) - 1

    def input(self, name: str, size: int = 16, **more: Any) -> int:
        value = self.new(name, 0, size, kind="input", **more)
        self.params[0].append(value)
        return value

    def view(self, name: str, *bases: int, region: int = 0, layout: str = "C") -> int:
        self.values.append(Value(f"{self.names[region]}/{name}", region, aliases=bases, layout=layout))
        return len(self.values) - 1

    def param(self, name: str, region: int) -> int:
        self.values.append(Value(f"{self.names[region]}/{name}", region))
        self.params[region].append(len(self.values) - 1)
        return len(self.values) - 1

    def step(
        self,
        name: str,
        region: int = 0,
        reads: Sequence[int] = (),
        writes: Sequence[int] = (),
        partial: Sequence[int] = (),
        call: Call | None = None,
    ) -> None:
        self.steps[region].append(Step(name, "op", tuple(reads), tuple(writes), tuple(partial), call=call))

    def op(self, name: str, *reads: int, region: int = 0, size: int = 16, **more: Any) -> int:
        """A step that reads some values and makes a new one."""
        value = self.new(name, region, size, **more)
        self.step(name, region, reads=reads, writes=(value,))
        return value

    def returns(self, *values: int | None, region: int = 0) -> None:
        self.outputs[region] = values

    def build(self) -> Program:
        regions = [
            Region(name, tuple(params), tuple(steps), outputs, "root" if parent is None else "call", parent)
            for name, parent, params, steps, outputs in zip(
                self.names, self.parents, self.params, self.steps, self.outputs, strict=True
            )
        ]
        return Program(tuple(regions), tuple(self.values), tuple(self.storages), tuple(self.writebacks))
