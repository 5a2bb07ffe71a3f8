"""Programs written down by hand for tests that want exact ticks: every value is 16 bytes unless it says."""

from __future__ import annotations

from typing import Any

from lowtide.ir.builder import ProgramBuilder


class Sketch(ProgramBuilder):
    """A ProgramBuilder with sizes, layouts and operators that need not be said."""

    root = 0

    def new(self, name: str, region: int = 0, size: int | None = 16, layout: str = "C", **more: Any) -> int:
        return super().new(name, size, region=region, layout=layout, **more)

    def input(self, name: str, size: int = 16, **more: Any) -> int:
        value = self.new(name, 0, size, kind="input", **more)
        self.params[0].append(value)
        return value

    def view(self, name: str, *bases: int, region: int = 0, layout: str = "C") -> int:
        return super().view(name, *bases, region=region, layout=layout)

    def step(self, name: str, region: int = 0, **more: Any) -> None:
        super().step(name, "op", region=region, **more)

    def op(self, name: str, *reads: int, region: int = 0, size: int = 16, **more: Any) -> int:
        value = self.new(name, region, size, **more)
        self.step(name, region, reads=reads, writes=(value,))
        return value
