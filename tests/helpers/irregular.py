"""Irregular networks, where order may matter: randomly wired, cells, skeletons of pyramids, many heads."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import torch
from torch import nn

Model = tuple[nn.Module, tuple[torch.Tensor, ...]]


class RandomlyWired(nn.Module):
    """A random directed graph of convolutions (Xie et al., ICCV 2019), of unequal widths.

    Args:
        seed: of the graph.
        nodes: how many convolutions.
    """

    def __init__(self, seed: int, nodes: int = 14) -> None:
        super().__init__()
        random = Random(seed)
        self.inputs: list[list[int]] = []
        self.convolutions = nn.ModuleList()
        widths: list[int] = []
        for node in range(nodes):
            count = random.randint(1, min(3, node)) if node else 0
            self.inputs.append(sorted(random.sample(range(node), count)))
            widths.append(random.choice((4, 8, 16, 32)))
            taken = sum(widths[i] for i in self.inputs[node]) if node else 3
            self.convolutions.append(nn.Conv2d(taken, widths[node], 3, padding=1))
        used = {i for inputs in self.inputs for i in inputs}
        self.ends = [node for node in range(nodes) if node not in used]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: list[torch.Tensor] = []
        for inputs, convolution in zip(self.inputs, self.convolutions, strict=True):
            taken = [made[i] for i in inputs] or [x]
            made.append(convolution(torch.cat(taken, 1) if len(taken) > 1 else taken[0]).relu())
        return torch.cat([made[end].mean((2, 3)) for end in self.ends], 1)


class Separable(nn.Module):
    """A separable convolution."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.deep = nn.Conv2d(width, width, size, padding=size // 2, groups=width)
        self.point = nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.point(self.deep(x.relu()))


class Cell(nn.Module):
    """The normal cell of NASNet-A (Zoph et al., CVPR 2018): five pairs of operations, concatenated."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.operations = nn.ModuleList(Separable(width, size) for size in (3, 5, 3, 5, 3))
        self.squeeze = nn.Conv2d(6 * width, width, 1)

    def forward(self, h: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        a, b, c, d, e = self.operations
        pool = nn.functional.avg_pool2d
        parts = [
            a(h) + h,
            b(before) + c(h),
            pool(h, 3, 1, 1) + before,
            pool(before, 3, 1, 1) + pool(before, 3, 1, 1),
            d(before) + e(before),
            before,
        ]
        return self.squeeze(torch.cat(parts, 1))


class Cells(nn.Module):
    """Cells in a row, each fed by the two before it."""

    def __init__(self, cells: int = 3, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.cells = nn.ModuleList(Cell(width) for _ in range(cells))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = h = self.stem(x)
        for cell in self.cells:
            before, h = h, cell(h, before)
        return h.mean((2, 3))


class UNet(nn.Module):
    """A U-Net whose skip connections are squeezed: when to squeeze them is for the order to say."""

    def __init__(self, width: int = 8, depth: int = 3) -> None:
        super().__init__()
        sizes = [width * 2**i for i in range(depth + 1)]
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in pairwise(sizes))
        self.skip = nn.ModuleList(nn.Conv2d(a, a // 4, 1) for a in sizes[:-1])
        self.up = nn.ModuleList(nn.Conv2d(b + a // 4, a, 3, padding=1) for a, b in pairwise(sizes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = [self.stem(x).relu()]
        for down in self.down:
            levels.append(down(levels[-1]).relu())
        y = levels.pop()
        skips = [skip(level) for skip, level in zip(self.skip, levels, strict=True)]
        for skip, up in zip(reversed(skips), reversed(self.up), strict=True):
            y = up(torch.cat([nn.functional.interpolate(y, scale_factor=2.0), skip], 1)).relu()
        return y


class Pyramid(nn.Module):
    """A feature pyramid (Lin et al., CVPR 2017) and what is detected on each level.

    Args:
        heads: how many branches each level has.
    """

    def __init__(self, heads: int = 2, width: int = 16) -> None:
        super().__init__()
        sizes = (8, 16, 32, 64)
        self.stem = nn.Conv2d(3, sizes[0], 3, 2, 1)
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in pairwise(sizes))
        self.lateral = nn.ModuleList(nn.Conv2d(a, width, 1) for a in sizes)
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in sizes)
        self.towers = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, 2 * width, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(2 * width, 4 + head, 3, padding=1),
            )
            for head in range(heads)
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        levels = [self.stem(x).relu()]
        for down in self.down:
            levels.append(down(levels[-1]).relu())
        features = [lateral(level) for lateral, level in zip(self.lateral, levels, strict=True)]
        for i in range(len(features) - 2, -1, -1):
            features[i] = features[i] + nn.functional.interpolate(features[i + 1], scale_factor=2.0)
        features = [smooth(feature) for smooth, feature in zip(self.smooth, features, strict=True)]
        return [tower(feature).flatten(2) for tower in self.towers for feature in features]


class Branches(nn.Module):
    """Inception-like branches that widen before they narrow, and a series of them."""

    def __init__(self, blocks: int = 3, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                nn.Sequential(
                    nn.Conv2d(width, wide, 1), nn.ReLU(), nn.Conv2d(wide, width, 3, padding=1), nn.ReLU()
                )
                for wide in (4, 12, 32, 20)
            )
            for _ in range(blocks)
        )
        self.joins = nn.ModuleList(nn.Conv2d(4 * width, width, 1) for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.stem(x)
        for block, join in zip(self.blocks, self.joins, strict=True):
            opened = [branch[0](y) for branch in block]
            y = join(torch.cat([branch[1:](part) for branch, part in zip(block, opened, strict=True)], 1))
        return y.mean((2, 3))


def _image(model: nn.Module, size: int = 32) -> Model:
    return model.eval(), (torch.randn(1, 3, size, size),)


IRREGULAR: dict[str, Callable[[], Model]] = {
    **{f"random wired {seed}": lambda seed=seed: _image(RandomlyWired(seed)) for seed in range(4)},
    "random wired, 30 nodes": lambda: _image(RandomlyWired(10, 30)),
    "random wired, 60 nodes": lambda: _image(RandomlyWired(11, 60)),
    "NAS cells": lambda: _image(Cells()),
    "U-Net": lambda: _image(UNet()),
    "pyramid": lambda: _image(Pyramid(1)),
    "detection heads": lambda: _image(Pyramid(3)),
    "branches": lambda: _image(Branches()),
}
"""Networks by name: a function that makes the module and one set of inputs."""
