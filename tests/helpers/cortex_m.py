"""The four networks of MLPerf Tiny, quantised and lowered as ExecuTorch's Cortex-M backend lowers them.

Layers and widths are the benchmark's; weights are random. The result is an edge program whose convolutions,
poolings and matrix products are operators of ``cortex_m`` with a ``memory.alloc`` each for their scratch.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from unittest.mock import MagicMock

import torch
from executorch.exir import EdgeCompileConfig, to_edge
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

# Its passes import another backend's serialiser, which nothing here calls; it need not be installed.
stand_in = MagicMock()
sys.modules.setdefault("tosa_serializer", stand_in)

from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager  # noqa: E402
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer  # noqa: E402
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig  # noqa: E402

if sys.modules["tosa_serializer"] is stand_in:
    del sys.modules["tosa_serializer"]

Inputs = tuple[torch.Tensor, ...]


def _convolution(
    inside: int, outside: int, kernel: Any, *, stride: Any = 1, padding: Any, groups: int = 1
) -> Any:
    """A convolution with its norm and a rectifier; the quantiser makes one kernel of all three."""
    return nn.Sequential(
        nn.Conv2d(inside, outside, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(),
    )


def _separable(inside: int, outside: int, stride: int = 1) -> Any:
    """A convolution of every channel by itself, then one of single points."""
    return nn.Sequential(
        _convolution(inside, inside, 3, stride=stride, padding=1, groups=inside),
        _convolution(inside, outside, 1, padding=0),
    )


class _Residual(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        stride = outside // inside
        self.first = _convolution(inside, outside, 3, stride=stride, padding=1)
        self.second = nn.Sequential(
            nn.Conv2d(outside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside)
        )
        self.past = nn.Identity() if stride == 1 else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.second(self.first(x)) + self.past(x)).relu()


def keyword_net() -> tuple[nn.Module, Inputs]:
    """Keyword spotting: a depthwise-separable network over 49 frames of 10 coefficients."""
    model = nn.Sequential(
        _convolution(1, 64, (10, 4), stride=(2, 2), padding=(5, 1)),
        *(_separable(64, 64) for _ in range(4)),
        nn.AvgPool2d((25, 5)),
        nn.Flatten(),
        nn.Linear(64, 12),
    )
    return model, (torch.randn(1, 1, 49, 10),)


def visual_wake_words() -> tuple[nn.Module, Inputs]:
    """Is there a person: MobileNetV1, a quarter as wide, on pictures of 96 x 96."""
    widths = [8, 16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256]
    strides = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1]
    model = nn.Sequential(
        _convolution(3, 8, 3, stride=2, padding=1),
        *(_separable(a, b, stride) for a, b, stride in zip(widths, widths[1:], strides, strict=False)),
        nn.AvgPool2d(3),
        nn.Flatten(),
        nn.Linear(256, 2),
    )
    return model, (torch.randn(1, 3, 96, 96),)


def resnet_8() -> tuple[nn.Module, Inputs]:
    """Image classification: three residual blocks on pictures of 32 x 32."""
    model = nn.Sequential(
        _convolution(3, 16, 3, padding=1),
        _Residual(16, 16),
        _Residual(16, 32),
        _Residual(32, 64),
        nn.AvgPool2d(8),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    return model, (torch.randn(1, 3, 32, 32),)


def autoencoder() -> tuple[nn.Module, Inputs]:
    """Anomaly detection: dense layers only, with eight numbers in the middle."""
    widths = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
    layers = [nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()) for a, b in pairwise(widths)]
    return nn.Sequential(*layers, nn.Linear(128, 640)), (torch.randn(1, 640),)


def small_net() -> tuple[nn.Module, Inputs]:
    """A network of every operator that takes scratch on its way, for the fast tests."""
    model = nn.Sequential(
        _convolution(1, 8, 3, padding=1),
        _Residual(8, 8),
        _separable(8, 8, 2),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    return model, (torch.randn(1, 1, 8, 8),)


MLPERF_TINY: dict[str, Callable[[], tuple[nn.Module, Inputs]]] = {
    "keyword_net": keyword_net,
    "visual_wake_words": visual_wake_words,
    "resnet_8": resnet_8,
    "autoencoder": autoencoder,
}


def lower_to_cortex_m(model: nn.Module, inputs: Inputs) -> Any:
    """The edge program of a model, for a Cortex-M55."""
    inputs = tuple(x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(
            torch.export.export(model.eval(), inputs, strict=True).module(), CortexMQuantizer()
        )
        prepared(*inputs)
        converted = convert_pt2e(prepared)
        edge = to_edge(
            torch.export.export(converted, inputs, strict=True),
            compile_config=EdgeCompileConfig(
                preserve_ops=[torch.ops.aten.linear.default],
                _check_ir_validity=False,
                _core_aten_ops_exception_list=[torch.ops.aten.max_pool2d.default],
            ),
        )
        manager = CortexMPassManager(
            edge.exported_program(), target_config=CortexMTargetConfig(cpu=CortexM.M55)
        )
        edge._edge_programs["forward"] = manager.transform()
    return edge
