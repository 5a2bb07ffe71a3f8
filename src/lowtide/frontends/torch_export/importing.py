"""From an exported program or a graph module to a Program: inputs, outputs, state and what is planned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind as TorchInputKind
from torch.export.graph_signature import OutputKind as TorchOutputKind
from torch.utils._pytree import tree_leaves

from lowtide.base.constants import ROOT
from lowtide.base.errors import InputError, UnsupportedError
from lowtide.frontends.torch_export.bindings import Imported, Input, InputKind
from lowtide.frontends.torch_export.draft import RegionDraft, position_of
from lowtide.frontends.torch_export.effects import is_traced
from lowtide.frontends.torch_export.pt2 import load
from lowtide.frontends.torch_export.storages import Storages, require_memory
from lowtide.frontends.torch_export.walk import Walker
from lowtide.ir.program import Program, StorageKind
from lowtide.ir.request import Request
from lowtide.operators.sizes import Bounds, overlaps_itself, same_places

if TYPE_CHECKING:
    from collections.abc import Iterable

_KINDS: dict[TorchInputKind, InputKind] = {
    TorchInputKind.USER_INPUT: "user",
    TorchInputKind.PARAMETER: "parameter",
    TorchInputKind.BUFFER: "buffer",
    TorchInputKind.CONSTANT_TENSOR: "constant",
    TorchInputKind.CUSTOM_OBJ: "object",
    TorchInputKind.TOKEN: "token",
}
_NOT_RETURNED = frozenset({"BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION", "TOKEN"})


def import_program(
    source: ExportedProgram | fx.GraphModule | str | os.PathLike[str],
    options: Request | None = None,
    *,
    name: str = "program",
) -> Imported:
    """Read a torch program into the form that everything else works on.

    Args:
        source: an exported program, the path of a ``.pt2`` file, or any graph module whose nodes carry
            fake tensors in ``meta['val']``.
        options: what is planned, and how.
        name: name of the program, for messages.

    Raises:
        InputError: the file cannot be read, or a node lacks its fake tensor.
        UnsupportedError: an operator is not known, or cannot be planned; the message names the node.
    """
    options = options or Request()
    if isinstance(source, (str, os.PathLike)):
        source = load(source)
    if isinstance(source, ExportedProgram):
        return _Importer(source.graph_module, source, options).run(name)
    if isinstance(source, fx.GraphModule):
        return _Importer(source, None, options).run(name)
    raise InputError(f"{type(source).__name__} is neither an ExportedProgram, nor a GraphModule, nor a path")


class _Importer:
    """One import: the root's inputs, the walk, then what the whole program tells about each storage."""

    def __init__(self, module: fx.GraphModule, exported: ExportedProgram | None, options: Request) -> None:
        self.module = module
        self.exported = exported
        self.options = options
        constraints = exported.range_constraints if exported is not None else {}
        bounds = Bounds({str(symbol): values for symbol, values in constraints.items()})
        self.memory = Storages(options.alignment, bounds)
        graphs = [m for m in module.modules() if isinstance(m, fx.GraphModule)]
        self.walker = Walker(self.memory, options, self.place_input, self.constant, is_traced(graphs))
        self.inputs: list[Input] = []
        self.shared: dict[int, int] = {}
        self.overlapping: set[int] = set()
        specs = exported.graph_signature.input_specs if exported is not None else []
        self.specs = {spec.arg.name: spec for spec in specs}
        examples = exported.example_inputs if exported is not None else None
        self.example_offsets = {  # fakes that were read from a file have lost them
            k: leaf.storage_offset()
            for k, leaf in enumerate(tree_leaves(examples or ()))
            if isinstance(leaf, torch.Tensor)
        }

    def run(self, name: str) -> Imported:
        self.walker.walk(self.module, ROOT, "root", None)
        self.walker.check_scratch()
        root = self.walker.regions[0]
        returned, writebacks = self.split_outputs(root)
        root.outputs = returned
        self.settle(
            [p for p in (position_of(root, o) for o in returned) if p is not None],
            [state for state, _ in writebacks],
        )
        frozen = [draft.freeze() for draft in self.walker.regions]
        program = Program(
            regions=tuple(region for region, _ in frozen),
            values=tuple(self.memory.values),
            storages=tuple(self.memory.storages),
            writebacks=tuple(writebacks),
            name=name,
        )
        return Imported(
            program=program,
            regions=tuple(binding for _, binding in frozen),
            inputs=tuple(self.inputs),
            tensors=self.walker.tensors,
            fakes=self.memory.fakes,
            outputs=tuple(returned),
            graph_module=self.module,
            options=self.options,
            exported=self.exported,
        )

    def place_input(self, root: RegionDraft, node: fx.Node, fake: Any) -> int | None:
        """The value of a root placeholder: the caller's, or one that comes with the program."""
        kind, target, real = self.origin(node)
        position: int | None = None
        if isinstance(fake, torch.Tensor):
            path = f"{root.name}/{node.name}"
            if kind == "user":
                position = self.memory.own(path, 0, fake, "input")
                root.params.append(position)
                if self.example_offsets.get(sum(i.kind == "user" for i in self.inputs)):
                    self.memory.parts.add(position)
            else:
                position = self.constant(path, fake, real)
        self.inputs.append(Input(node, kind, position, target, real))
        return position

    def constant(self, path: str, fake: torch.Tensor, real: Any) -> int:
        """A value that comes with the program; tensors that are one in memory are one storage."""
        if not isinstance(real, torch.Tensor):
            position = self.memory.own(path, 0, fake, "constant")
            self.walker.tensors[position] = torch.empty(0) if real is None else real
            return position
        require_memory(path, real)
        address = _address(real)
        first = self.shared.get(address) if address else None
        if first is None:
            position = self.memory.own(path, 0, fake, "constant")
            self.shared[address] = position
        elif _same_place(self.walker.tensors[first], real):
            position = self.memory.view(path, 0, fake, first)
        else:
            position = self.memory.own(path, 0, fake, "constant")
            self.overlapping |= {first, position}
        self.walker.tensors[position] = real
        if real.storage_offset():
            self.memory.parts.add(position)
        return position

    def origin(self, node: fx.Node) -> tuple[InputKind, str | None, Any]:
        """What a root placeholder is, its name in the program's tables, and what these hold for it."""
        if self.exported is None:
            return "user", None, None
        spec = self.specs.get(node.name)
        if spec is None:
            raise InputError(
                f"input {node.name!r} is not in the program's signature: export the program again"
            )
        kind = _KINDS[spec.kind]
        if kind == "user" or spec.target is None:
            return kind, spec.target, None
        for table in (self.exported.state_dict, self.exported.constants):
            if spec.target in table:
                return kind, spec.target, table[spec.target]
        if kind == "token":
            return kind, spec.target, None
        raise InputError(
            f"{kind} {spec.target!r} is missing from the program: export it again with its weights"
        )

    def split_outputs(self, root: RegionDraft) -> tuple[list[Any], list[tuple[int, int]]]:
        """What the root returns to the user, and what it writes back to state and inputs."""
        if self.exported is None:
            return root.outputs, []
        returned: list[Any] = []
        writebacks: list[tuple[int, int]] = []
        by_target = {i.target: i.value for i in self.inputs if i.target is not None}
        by_name = {i.node.name: i.value for i in self.inputs}
        for spec, output in zip(self.exported.graph_signature.output_specs, root.outputs, strict=True):
            if spec.kind.name not in _NOT_RETURNED:
                returned.append(output)
            elif spec.kind is not TorchOutputKind.TOKEN:
                names = by_name if spec.kind is TorchOutputKind.USER_INPUT_MUTATION else by_target
                state, new = names.get(spec.target), position_of(root, output)
                if state is None or new is None:
                    raise InputError(
                        f"output {output}: {spec.target!r}, which it updates, is no tensor input"
                    )
                writebacks.append((state, new))
        return returned, writebacks

    def settle(self, outputs: Iterable[int], updated: Iterable[int]) -> None:
        """Fix the kind of every storage, and whether it is planned, now that all uses are known."""
        points_to = self.memory.points_to()
        options = self.options
        written = {*self.walker.written, *updated}
        if written & self.overlapping:
            names = sorted(self.memory.values[p].name for p in written & self.overlapping)
            raise UnsupportedError(
                f"{', '.join(names)}: changed, but shares part of its memory with another tensor"
            )
        self.refuse_overlaps(written, points_to)
        state = {s for v in written for s in points_to[v] if self.memory.storages[s].kind == "constant"}
        returned = {s for v in outputs for s in points_to[v]}
        planned_by_kind: Mapping[StorageKind, bool] = {
            "input": options.plan_inputs,
            "state": options.plan_state,
        }
        for position, storage in enumerate(self.memory.storages):
            kind: StorageKind = "state" if position in state else storage.kind
            if kind in ("temporary", "result", "carry") and position in returned:
                kind = "output"
            planned = kind != "constant" and storage.size is not None and planned_by_kind.get(kind, True)
            if position in returned and kind != "state":  # state has to stay, wherever the caller has outputs
                planned = planned and options.plan_outputs
            persistent = kind == "state" and not options.reset_state
            self.memory.change(position, kind=kind, planned=planned, persistent=persistent)

    def refuse_overlaps(self, written: Iterable[int], points_to: list[set[int]]) -> None:
        """Refuse inputs and state that are changed where several of their elements are one in memory.

        Raises:
            UnsupportedError: naming the first such.
        """
        storages, owner = self.memory.storages, {v.storage: p for p, v in enumerate(self.memory.values)}
        for storage in sorted({s for v in written for s in points_to[v]}):
            fake = self.memory.fakes.get(owner.get(storage, -1))
            if fake is None or storages[storage].kind not in ("input", "constant"):
                continue
            if overlaps_itself(fake):
                raise UnsupportedError(
                    f"{storages[storage].name} is changed, but several of its elements are one in memory: "
                    "export the program with a clone of it"
                )


def _address(tensor: torch.Tensor) -> int:
    """Where a tensor's memory is; of a fake or meta tensor, which has none, the identity of its storage."""
    storage = tensor.untyped_storage()
    unreal = isinstance(tensor, FakeTensor) or tensor.device.type == "meta"
    return int(storage._cdata if unreal else storage.data_ptr())


def _same_place(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors that share memory are the same elements of it."""
    return bool(a.storage_offset() == b.storage_offset() and same_places(a, b) and a.dtype == b.dtype)
