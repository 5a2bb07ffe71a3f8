"""What a value stands for while a region runs: storages, found through views, parameters and callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.errors import LowtideError
from lowtide.ir.flow import Bytes, Ref, SameBytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lowtide.ir.flow import Activation
    from lowtide.ir.program import Program, Step


class Resolver:
    """Follows values to storages.

    Args:
        program: what runs.
        activations: what each parameter stands for; more may be added as they are entered.
    """

    def __init__(self, program: Program, activations: Sequence[Activation]) -> None:
        self.program, self.activations = program, activations
        self.cache: dict[tuple[int, int], Bytes] = {}

    def storages(self, activation: int, values: Iterable[int]) -> tuple[int, ...]:
        """All storages where the bytes of some values may be."""
        found: dict[int, None] = {}
        for value in values:
            found.update(dict.fromkeys(self.bytes(Ref(activation, value)).storages))
        return tuple(found)

    def bytes(self, ref: Ref) -> Bytes:
        """Follow views and parameters to the storages that hold a value's bytes."""
        key = (ref.activation, ref.value)
        if key not in self.cache:
            self.cache[key] = self.resolve(ref)
        return self.cache[key]

    def resolve(self, ref: Ref) -> Bytes:
        value = self.program.values[ref.value]
        activation = self.activations[ref.activation]
        if value.region != activation.region:
            if activation.parent is None:
                raise LowtideError(f"{value.name} is used outside the region that defines it")
            return self.bytes(Ref(activation.parent, ref.value))
        binding = activation.bindings.get(ref.value)
        if binding is not None:
            if binding.ref is None:
                return Bytes((), "")
            origin = self.bytes(binding.ref)
            return origin if binding.part is None else Bytes(origin.storages, "")
        found: dict[int, None] = {} if value.storage is None else {value.storage: None}
        layout = value.layout
        for alias in value.aliases:
            origin = self.bytes(Ref(ref.activation, alias))
            found.update(dict.fromkeys(origin.storages))
            if not origin.layout:  # a view of a part covers no storage, whatever it covers of the part
                layout = ""
        return Bytes(tuple(found), layout if len(found) == 1 else "")

    def written(self, activation: int, step: Step) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Storages that a step writes from end to end, and those of which it may leave some bytes.

        To write the whole of a value is to write the whole of the storage that it owns. Through a view, or
        a parameter, it is so only if the value covers the storage and can be nowhere else.
        """
        whole = dict.fromkeys(step.scratch)
        some = dict.fromkeys(self.storages(activation, step.partial))
        for value in step.writes:
            own = self.program.values[value].storage
            found = self.bytes(Ref(activation, value))
            if own is not None:
                whole[own] = None
            elif found.layout and len(found.storages) == 1:
                whole.update(dict.fromkeys(found.storages))
            else:
                some.update(dict.fromkeys(found.storages))
        return tuple(whole), tuple(s for s in some if s not in whole)

    def overwrites(self, activation: int, step: Step) -> tuple[tuple[int, int], ...]:
        """Storages that the kernel may write over those that it reads.

        A storage that the step also reads through a value that does not allow it, such as a transposed view,
        may not be written over.
        """
        found = []
        for written in dict.fromkeys(written for written, _ in step.overwrites):
            target = self.whole(activation, written)
            allowed = {read for other, read in step.overwrites if other == written}
            refused = set(self.storages(activation, (v for v in step.reads if v not in allowed)))
            for read in allowed:
                source = self.whole(activation, read)
                if target is not None and source is not None and source not in refused and source != target:
                    found.append((target, source))
        return tuple(sorted(set(found)))

    def matches(self, activation: int, step: Step) -> tuple[SameBytes, ...]:
        """Storages that are the same bytes afterwards, without those that match at several distances."""
        found: dict[tuple[int, int], set[int]] = {}
        for match in step.matches:
            inner, outer = self.whole(activation, match.inner), self.whole(activation, match.outer)
            if inner is not None and outer is not None and inner != outer:
                found.setdefault((inner, outer), set()).add(match.distance)
        return tuple(
            SameBytes(inner, outer, distances.pop())
            for (inner, outer), distances in found.items()
            if len(distances) == 1
        )

    def whole(self, activation: int, value: int) -> int | None:
        """The one storage that a value covers from end to end; None if there is none."""
        found = self.bytes(Ref(activation, value))
        return found.storages[0] if found.layout and len(found.storages) == 1 else None
