"""Models as they are put on microcontrollers: batch norms folded, clamps instead of other activations."""

from __future__ import annotations

import torch
from torch import nn

Model = tuple[nn.Module, tuple[torch.Tensor, ...]]

_BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Of MobileNetV2: widening, channels, repeats, stride of the first."""


class _Inverted(nn.Module):
    def __init__(self, wide: int, narrow: int, stride: int, factor: int) -> None:
        super().__init__()
        hidden = wide * factor
        layers: list[nn.Module] = []
        if factor != 1:
            layers += [nn.Conv2d(wide, hidden, 1), nn.ReLU6()]
        layers += [nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden), nn.ReLU6()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(hidden, narrow, 1))
        self.residual = stride == 1 and wide == narrow

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet_v2(size: int = 96, classes: int = 1000, blocks: int = 7) -> Model:
    """MobileNetV2 1.0."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU6()]
    wide = 32
    for factor, channels, repeats, stride in _BLOCKS[:blocks]:
        for i in range(repeats):
            layers.append(_Inverted(wide, channels, stride if i == 0 else 1, factor))
            wide = channels
    layers += [nn.Conv2d(wide, 4 * wide, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(4 * wide, classes))
    return model.eval(), (torch.randn(1, 3, size, size),)


def keyword_net() -> Model:
    """A depthwise-separable net over 49 × 10 coefficients of sound (DS-CNN, small)."""
    layers: list[nn.Module] = [nn.Conv2d(1, 64, (10, 4), 2, (5, 1)), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Conv2d(64, 64, 3, 1, 1, groups=64), nn.ReLU(), nn.Conv2d(64, 64, 1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))
    return model.eval(), (torch.randn(1, 1, 49, 10),)


class TransformerBlock(nn.Module):
    """Attention over tokens, then a feed-forward net four times as wide."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        q, k, v = (self._split(layer(y)) for layer in (self.query, self.key, self.value))
        weights = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


def transformer(tokens: int = 196, width: int = 192, heads: int = 3, blocks: int = 1) -> Model:
    """Blocks one after the other."""
    model = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(blocks)))
    return model.eval(), (torch.randn(1, tokens, width),)
