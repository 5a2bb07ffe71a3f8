"""Modules with parameters and state for the zoo."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

Inputs = tuple[Any, ...]
Case = tuple[nn.Module, list[Inputs]]


class Weighted(nn.Module):
    """A branch views a constant: its placeholder has no place in any arena."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(24.0))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(
            x.sum() > 0, lambda x, t: x + t.view(4, 6), lambda x, t: x * t.view(6, 4).sum(), (x, self.table)
        )


class Stateful(nn.Module):
    """A running mean and a count; branches read, view and decide by state, results become state."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(4, 6))

    def forward(self, x: Tensor) -> Tensor:
        if self.mode == "read":
            r = torch.cond(self.count.sum() > 1, lambda x, m: x - m, lambda x, m: x + m * 2, (x, self.mean))
            self.mean.mul_(0.5).add_(x)
        elif self.mode == "viewed":
            r = torch.cond(
                self.count.sum() > 1,
                lambda x, m: (x.view(24) - m.view(24)).view(4, 6),
                lambda x, m: x + m.view(24).view(4, 6) * 2,
                (x, self.mean),
            )
            self.mean.add_(r)
        else:
            new = torch.cond(
                self.count.sum() > 1, lambda x, m: m * 0.5 + x, lambda x, m: x.clone() + m, (x, self.mean)
            )
            r = new.view(24).view(4, 6) + self.mean.view(4, 6)
            self.mean.copy_(new)
        self.count.add_(1)
        return r * self.count


class Experts(nn.Module):
    """A router picks one of four experts by nested branches."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.router = nn.Linear(width, 4, bias=False)
        with torch.no_grad():
            self.router.weight.copy_(torch.eye(4, width))
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width))
            for wide in (8, 16, 24, 32)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.router(x.mean(dim=0)).argmax()
        e = self.experts

        def low(c: Tensor, x: Tensor) -> Tensor:
            return torch.cond(c == 0, lambda x: e[0](x), lambda x: e[1](x), (x,))

        def high(c: Tensor, x: Tensor) -> Tensor:
            return torch.cond(c == 2, lambda x: e[2](x), lambda x: e[3](x), (x,))

        mixed = torch.cond(chosen < 2, low, high, (chosen, x))
        return self.norm(x + mixed).view(-1) + mixed.view(-1)


def mixture_of_experts() -> Case:
    picks = [torch.nn.functional.one_hot(torch.tensor(i), 8) * 3.0 + torch.rand(5, 8) for i in range(4)]
    return Experts(), [(pick,) for pick in picks]


class EarlyExit(nn.Module):
    """Stops after the first block if it is sure enough."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.rest = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width), nn.ReLU()
        )
        self.exit, self.head = nn.Linear(width, 5), nn.Linear(width, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.first(x)
        early = self.exit(hidden).softmax(dim=-1)
        scores = torch.cond(
            early.amax() > 0.4,
            lambda e, h: e * 1.0,
            lambda e, h: self.head(self.rest(h)).softmax(-1),
            (early, hidden),
        )
        return scores, (scores.view(5) * 2).argmax() + hidden.sum()


def early_exit() -> Case:
    return EarlyExit(), [(torch.zeros(1, 12),), (torch.randn(1, 12) * 9,), (-torch.randn(1, 12),)]
