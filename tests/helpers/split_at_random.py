"""Random nets, and a pass that splits them at random by Lowtide's own rules, whether or not it helps."""

from __future__ import annotations

import random
from typing import Any

import torch
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from torch import nn

from lowtide.executorch.fit_pass import edge_dialect
from lowtide.transforms.split.live import Lives
from lowtide.transforms.split.rules import value_of
from lowtide.transforms.split.segments import UNITS, cuts, grow, plan_parts
from lowtide.transforms.split.tape import Tape
from lowtide.transforms.split.writing import write

Net = tuple[nn.Module, tuple[torch.Tensor, ...]]


class RandomSplits(ExportedProgramPassBase):  # type: ignore[misc]
    """Splits ranges of steps that do not overlap, each along a random axis, in a random number of parts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.segments: list[str] = []

    def call(self, exported_program: Any) -> ExportedProgramPassResult:
        steps = Lives(exported_program).steps
        tapes: list[Tape] = []
        for _ in range(60):
            first, last = sorted(self.random.choices(range(len(steps)), k=2))
            if any(first <= t.segment.last and t.segment.first <= last for t in tapes):
                continue
            tape = self._split(steps, first, last)
            if tape is not None:
                tapes.append(tape)
                self.segments.append(f"{steps[first].name} to {steps[last].name}")
        tapes.sort(key=lambda tape: tape.segment.first)
        return ExportedProgramPassResult(write(exported_program, tapes, edge_dialect()), True)

    def _split(self, steps: Any, first: int, last: int) -> Tape | None:
        value = value_of(steps[last])
        if value is None or not value.dim():
            return None
        axis = self.random.randrange(value.dim())
        size = value.shape[axis]
        segment = grow(steps, first, last, axis) if size > 1 else None
        if segment is None:
            return None
        unit = self.random.choice([1, 1, *UNITS])
        parts = cuts(size, self.random.randint(2, min(size, 9)), unit)
        if not parts:
            return None
        plans = plan_parts(segment, parts, keeps=self.random.random() < 0.5)
        return None if plans is None else Tape(segment, plans)


class _Branches(nn.Module):
    """Convolutions of all kinds, one after the other, with residuals and concatenations between them."""

    def __init__(self, seed: int, channels: int) -> None:
        super().__init__()
        chance = random.Random(seed)
        self.layers, self.joins = nn.ModuleList(), []
        for _ in range(chance.randint(4, 8)):
            layer, join = self._layer(chance, channels)
            self.layers.append(layer)
            self.joins.append(join)
            channels = channels * 2 if join == "cat" else channels

    def _layer(self, chance: random.Random, channels: int) -> tuple[nn.Module, str]:
        kind = chance.choice(["conv", "depthwise", "pool", "average", "norm", "pad", "point"])
        kernel, stride, dilation = (
            chance.choice([1, 2, 3, 5]),
            chance.choice([1, 1, 2]),
            chance.choice([1, 1, 2]),
        )
        padding = chance.randint(0, kernel // 2 * dilation)
        act = chance.choice([nn.ReLU(), nn.ReLU6(), nn.Sigmoid(), nn.GELU(), nn.Hardtanh(), nn.Identity()])
        if kind in ("conv", "depthwise"):
            groups = channels if kind == "depthwise" else chance.choice([1, 2])
            conv = nn.Conv2d(channels, channels, kernel, stride, padding, dilation, groups=groups)
            return nn.Sequential(conv, act), ""
        if kind == "pool":
            return nn.MaxPool2d(3, stride, 1), ""
        if kind == "average":
            return nn.AvgPool2d(3, stride, chance.randint(0, 1)), ""
        if kind == "norm":
            norm = nn.BatchNorm2d(channels)
            norm.running_mean.normal_()  # type: ignore[union-attr, operator]
            return nn.Sequential(norm, act), ""
        if kind == "pad":
            pads = tuple(chance.randint(0, 2) for _ in range(4))
            return nn.Sequential(nn.ZeroPad2d(pads), nn.Conv2d(channels, channels, 3, stride)), ""
        join = chance.choice(["add", "cat"]) if channels <= 8 else "add"
        return nn.Sequential(nn.Conv2d(channels, channels, 3, 1, 1), act), join

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, join in zip(self.layers, self.joins, strict=True):
            if min(x.shape[2:]) < 10:
                break
            y = layer(x)
            x = x + y if join == "add" else torch.cat([x, y], 1) if join == "cat" else y
        return x


def convolution_net(seed: int) -> Net:
    """Random convolutions over a random image."""
    chance = random.Random(seed)
    channels = chance.choice([2, 4])
    image = torch.randn(chance.choice([1, 2]), channels, chance.randint(14, 30), chance.randint(14, 30))
    return _Branches(seed, channels).eval(), (image,)


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, chance: random.Random) -> None:
        super().__init__()
        self.heads, self.scaled = heads, chance.random() < 0.5
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=chance.random() < 0.7) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        q, k, v = (
            layer(y).view(*x.shape[:2], self.heads, -1).transpose(1, 2) for layer in list(self.layers)[:3]
        )
        scores = q @ k.transpose(-1, -2)
        weights = torch.softmax(scores * 0.3 if self.scaled else scores, -1)
        x = x + self.layers[3]((weights @ v).transpose(1, 2).reshape(x.shape))
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def attention_net(seed: int) -> Net:
    """Random attention over random tokens."""
    chance = random.Random(seed)
    heads = chance.choice([1, 2, 3])
    width = heads * chance.choice([8, 16])
    blocks = [_Attention(width, heads, chance) for _ in range(chance.randint(1, 2))]
    return nn.Sequential(*blocks).eval(), (torch.randn(chance.choice([1, 2]), chance.randint(17, 50), width),)
