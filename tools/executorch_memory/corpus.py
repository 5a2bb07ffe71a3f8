"""Programs whose loading is measured: the tests' models, held-out ones, and one for every kind of value.

PyTorch leaves checks of inputs out of a graph only where a file in the call stack has ``executorch`` in its
path, and the Cortex-M backend does not lower such checks: hence the name of this folder.
"""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass as StockPass
from torch import nn
from torch.export import Dim, export

from cortex_m import MLPERF_TINY, lower_to_cortex_m, small_net
from lowtide.executorch import MemoryPlanningPass
from lowtide.ir.memory_map import Bank, MemoryMap
from models import CONTROL_FLOW_MODELS, REAL_MODELS
from runtime import edge_of, lower
from stock_files import methods_file
from zoo import ZOO, Run


def files() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every program; those that the stock planner does not lower are Lowtide's alone."""
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    for name, build in {**ZOO, **CONTROL_FLOW_MODELS}.items():
        torch.manual_seed(0)
        model, calls = build()
        yield from _both(f"zoo-{name}", model, calls[0])
    for name, make in {**REAL_MODELS, **held_out()}.items():
        torch.manual_seed(0)
        model, inputs = make()
        yield f"real-{name}", lower(edge_of(model, inputs), MemoryPlanningPass()).buffer
    for name, make in {**MLPERF_TINY, "small_net": small_net}.items():
        torch.manual_seed(0)
        yield f"cortex-{name}", lower(lower_to_cortex_m(*make()), MemoryPlanningPass()).buffer
    for name, special in SPECIALS.items():
        torch.manual_seed(0)
        yield f"special-{name}", special()


def _both(name: str, model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Iterator[tuple[str, bytes]]:
    """The stock planner's file and Lowtide's, of what ExecuTorch can lower."""
    try:
        edge = edge_of(model, inputs)
    except Exception as error:
        print(f"{name}: left out, it is not exported: {type(error).__name__}", file=sys.stderr)
        return
    for suffix, planning in (("-stock", StockPass()), ("", MemoryPlanningPass())):
        try:
            yield f"{name}{suffix}", lower(edge, planning).buffer
        except Exception as error:  # noqa: PERF203
            print(f"{name}{suffix}: left out, it is not lowered: {type(error).__name__}", file=sys.stderr)


def held_out() -> dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]]:
    """Models that no test of Lowtide's uses, at random weights."""
    import transformers as t

    from models import Pick

    def image(config: Any, kind: Any) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        return Pick(kind(config), ("pixel_values",), ("logits",)).eval(), (torch.randn(1, 3, 64, 64),)

    def text(config: Any, kind: Any, field: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        return Pick(kind(config), ("input_ids",), (field,)).eval(), (torch.randint(0, 128, (1, 12)),)

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    return {
        "albert": lambda: text(
            t.AlbertConfig(vocab_size=128, embedding_size=16, **small), t.AlbertModel, "last_hidden_state"
        ),
        "electra": lambda: text(
            t.ElectraConfig(vocab_size=128, embedding_size=16, **small), t.ElectraModel, "last_hidden_state"
        ),
        "mobilenet_v1": lambda: image(
            t.MobileNetV1Config(image_size=64, depth_multiplier=0.25, num_labels=4),
            t.MobileNetV1ForImageClassification,
        ),
        "regnet": lambda: image(
            t.RegNetConfig(
                embedding_size=8,
                hidden_sizes=[8, 16, 24, 32],
                depths=[1, 1, 2, 1],
                groups_width=8,
                num_labels=4,
            ),
            t.RegNetForImageClassification,
        ),
        "dinov2": lambda: image(
            t.Dinov2Config(image_size=64, patch_size=16, num_labels=4, **small),
            t.Dinov2ForImageClassification,
        ),
        "poolformer": lambda: image(
            t.PoolFormerConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=4),
            t.PoolFormerForImageClassification,
        ),
    }


class Partitioned(nn.Module):
    """Layers for a delegate, and running sums for a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.cumsum(torch.relu(self.a(x))[:, :16], 1)).sigmoid()


def _partitioned(**config: Any) -> bytes:
    edge = to_edge_transform_and_lower(
        export(Partitioned().eval(), (torch.randn(4, 16),)), partitioner=[XnnpackPartitioner()]
    )
    return bytes(edge.to_executorch(ExecutorchBackendConfig(**config)).buffer)


def _made(function: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> bytes:
    return lower(edge_of(Run(function), inputs, **options), StockPass()).buffer


def _external() -> bytes:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    edge = edge_of(model, (torch.randn(2, 8),))
    config = ExecutorchBackendConfig(external_constants=True)
    return bytes(copy.deepcopy(edge).to_executorch(config).buffer)


class Embedded(nn.Module):
    """Constants for a kernel and for a delegate."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(10, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.table(x))


class Counting(nn.Module):
    """State, and weights."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, 8))
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x)
        return self.layer(x) + self.seen


def _named() -> bytes:
    """Constants of a kernel in a file that comes along, those of a delegate in the program's named data."""
    program = export(Embedded().eval(), (torch.tensor([[1, 2, 3]]),))
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    return bytes(edge.to_executorch(ExecutorchBackendConfig(external_constants=True)).buffer)


def _external_methods() -> bytes:
    """Two methods: one has constants in a file that comes along, one a delegate with named data."""
    plain = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).eval()
    programs = {
        "plain": export(plain, (torch.randn(2, 8),)),
        "delegated": export(Partitioned().eval(), (torch.randn(4, 16),)),
    }
    edge = to_edge_transform_and_lower(programs, partitioner={"delegated": [XnnpackPartitioner()]})
    return bytes(edge.to_executorch(ExecutorchBackendConfig(external_constants=True)).buffer)


def _unplanned(**options: bool) -> bytes:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    return lower(edge_of(net, (torch.randn(2, 8),)), StockPass(**options)).buffer


def _external_mutable() -> bytes:
    edge = edge_of(Counting(), (torch.randn(1, 8),))
    config = ExecutorchBackendConfig(external_mutable_weights=True)
    return bytes(copy.deepcopy(edge).to_executorch(config).buffer)


def _lstm() -> bytes:
    return lower(edge_of(nn.LSTM(8, 16, batch_first=True), (torch.randn(1, 5, 8),)), StockPass()).buffer


def _banks() -> bytes:
    sizes = {"first": 2048, "second": 1040, "third": 1 << 20}
    banks = (Bank(name, size, i, read_cost=2.0**i) for i, (name, size) in enumerate(sizes.items(), 1))
    net = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 16))
    edge = edge_of(net, (torch.randn(4, 16),))
    return lower(edge, MemoryPlanningPass(memory_map=MemoryMap(tuple(banks)))).buffer


SPECIALS: dict[str, Callable[[], bytes]] = {
    "methods": lambda: methods_file(StockPass()),
    "methods_share_state": lambda: methods_file(MemoryPlanningPass(share_mutable_buffers=True)),
    "banks": _banks,
    "delegates": _partitioned,
    "delegates_inline": lambda: _partitioned(extract_delegate_segments=False),
    "external": _external,
    "external_named": _named,
    "external_methods": _external_methods,
    "external_mutable": _external_mutable,
    "unplanned_inputs": lambda: _unplanned(alloc_graph_input=False),
    "unplanned_ends": lambda: _unplanned(alloc_graph_input=False, alloc_graph_output=False),
    "topk_of_nothing": lambda: _made(lambda x: torch.topk(x, 0)[0].sum() + x, torch.randn(4, 10)),
    "dynamic": lambda: _made(
        lambda x, y: (x * 2 + y).view(-1, 8).sin().sum(0),
        torch.randn(4, 8),
        torch.randn(4, 8),
        dynamic_shapes={"inputs": ({0: Dim("n", max=16)},) * 2},
    ),
    "optional_list": lambda: _made(lambda x, i: x[:, i] + 1, torch.randn(3, 4, 5), torch.tensor([0, 2])),
    "tensor_lists": lambda: _made(
        lambda x, y: torch.cat([*torch.split(x, 2), torch.stack([y, y]), torch.stack((y, y + 1))]),
        torch.randn(4, 3),
        torch.randn(3),
    ),
    "strings": lambda: _made(lambda x: nn.functional.gelu(x, approximate="tanh"), torch.randn(3)),
    "double_list": lambda: _made(
        lambda x: nn.functional.interpolate(x, scale_factor=[2.0, 1.5], mode="bilinear"),
        torch.randn(1, 2, 4, 4),
    ),
    "topk": lambda: _made(lambda x: torch.topk(x, 3)[0] * 2, torch.randn(4, 10)),
    "scalars": lambda: _made(lambda x: x.reshape(()) + 1, torch.randn(1)),
    "no_inputs": lambda: _made(lambda: torch.arange(4) * 2),
    "constant_only": lambda: _made(lambda x: (x, torch.ones(2)), torch.randn(2)),
    "lstm": _lstm,
}
"""Files of every kind of value, and of what the runtime loads in another way."""


if __name__ == "__main__":
    folder, *wanted = Path(sys.argv[1]), *sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    made = files() if not wanted else ((f"special-{name}", SPECIALS[name]()) for name in wanted)
    for name, data in made:
        (folder / f"{name}.pte").write_bytes(data)
