"""Models that are all control flow, each with inputs that between them take every branch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]


class NestedCond(nn.Module):
    """A branch inside a branch, several results, a value read in one branch only."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.relu(self.first(x))
        aside = torch.tanh(x)

        def large(h: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.cond(h.amax() > 4, lambda h, a: (h * a, a + 1), lambda h, a: (h - a, a * 2), (h, a))

        def small(h: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.second(h).sin(), h.exp()

        left, right = torch.cond(x.sum() > 0, large, small, (hidden, aside))
        return left + hidden, right * left


class SharedWhile(nn.Module):
    """A loop with two carries that change places, and a value captured from outside."""

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from torch._higher_order_ops.while_loop import while_loop

        scale = x.abs().mean(dim=-1, keepdim=True)

        def going(i: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return i < steps

        def body(i: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return i + 1, b.clone(), a * 0.5 + scale

        _, a, b = while_loop(going, body, (torch.zeros_like(steps), x + 1, x - 1))
        return a, a + b


class CondInWhileInCond(nn.Module):
    """Three levels: a branch, a loop in it, a branch in the loop."""

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.while_loop import while_loop

        def loop(x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
            def going(i: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
                return i < steps

            def body(i: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                turned = torch.cond(i % 2 == 0, lambda a: (a.cos(),), lambda a: ((a * 2).sin(),), (a,))[0]
                return i + 1, turned + x

            return while_loop(going, body, (torch.zeros_like(steps), x * 2))[1].clone()

        before = x.tanh()
        after = torch.cond(x.mean() > 0, loop, lambda x, steps: x.neg(), (before, steps))
        return after + before


class ScanWithCond(nn.Module):
    """A recurrence over rows whose cell takes one of two paths, and stacks what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from torch._higher_order_ops.scan import scan

        def cell(state: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            new = torch.cond(
                row.sum() > 0,
                lambda s, r: (self.cell(s + r).tanh(),),
                lambda s, r: ((s * 0.5 - r),),
                (state, row),
            )[0]
            return new, new * row

        last, rows = scan(cell, start, x)
        return last, rows.relu()


class MapRows(nn.Module):
    """The same few operators over every row, with a captured operand."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.map import map as map_rows

        def row(r: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return (r @ w).relu() + r

        return map_rows(row, x, w).sum(dim=0)


class MixtureOfExperts(nn.Module):
    """A router picks one of four experts by nested branches; the rest of the network does not know."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.router = nn.Linear(width, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width))
            for wide in (16, 32, 64, 96)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = self.router(x.mean(dim=0)).argmax()

        def low(chosen: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(chosen == 0, lambda x: self.experts[0](x), lambda x: self.experts[1](x), (x,))

        def high(chosen: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(chosen == 2, lambda x: self.experts[2](x), lambda x: self.experts[3](x), (x,))

        return self.norm(x + torch.cond(chosen < 2, low, high, (chosen, x)))


class EarlyExit(nn.Module):
    """A classifier that stops after the first block if it is sure enough."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.rest = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width), nn.ReLU()
        )
        self.exit, self.head = nn.Linear(width, 5), nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        early = self.exit(hidden).softmax(dim=-1)
        return torch.cond(
            early.amax() > 0.5,
            lambda e, h: e * 1.0,
            lambda e, h: self.head(self.rest(h)).softmax(-1),
            (early, hidden),
        )


class Stateful(nn.Module):
    """A running mean and a counter, kept from one invocation to the next, with a branch on the counter."""

    count: torch.Tensor
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        self.mean.mul_(0.9).add_(x.mean(dim=0), alpha=0.1)
        return torch.cond(self.count > 1, lambda x, m: x - m, lambda x, m: x * 1.0, (x, self.mean.clone()))


class AliasedResults(nn.Module):
    """Outputs that are an input, a view of one, one value twice, a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = x @ self.weight
        return x, x.view(-1), made, made, made.t(), self.weight, made.relu()


Cases = tuple[nn.Module, list[Inputs]]


def _signs(shape: tuple[int, ...], *more: torch.Tensor) -> list[Inputs]:
    """Inputs that are positive, negative, mixed and large."""
    base = torch.randn(shape)
    return [(v, *more) for v in (base.abs(), -base.abs(), base, 50 * base.abs())]


def _nested_cond() -> Cases:
    return NestedCond().eval(), _signs((3, 8))


def _shared_while() -> Cases:
    return SharedWhile(), [(torch.randn(4, 6), torch.tensor(n)) for n in (0, 1, 2, 5)]


def _cond_in_while_in_cond() -> Cases:
    positive = torch.rand(3, 5)
    return CondInWhileInCond(), [
        *((positive, torch.tensor(n)) for n in (0, 1, 2, 5)),
        (-positive, torch.tensor(3)),
    ]


def _scan_with_cond() -> Cases:
    return ScanWithCond().eval(), _signs((5, 6), torch.zeros(6))


def _map_rows() -> Cases:
    return MapRows(), _signs((4, 6), torch.randn(6, 6))


def _mixture_of_experts() -> Cases:
    model = MixtureOfExperts().eval()
    with torch.no_grad():  # expert i is chosen when feature i is the largest
        model.router.weight.copy_(torch.eye(4, 16))
        model.router.bias.zero_()
    return model, [
        (torch.nn.functional.one_hot(torch.tensor(i), 16) * 3.0 + torch.rand(5, 16),) for i in range(4)
    ]


def _early_exit() -> Cases:
    model = EarlyExit().eval()
    with torch.no_grad():
        model.exit.weight.mul_(20)  # sure of large inputs; of zeros, not at all
        for bias in (model.first[0].bias, model.exit.bias):
            bias.zero_()
    return model, [(torch.zeros(1, 24),), (torch.randn(1, 24) * 20,), (torch.randn(1, 24),)]


def _stateful() -> Cases:
    return Stateful(), [(torch.randn(4, 6),) for _ in range(3)]


def _aliased_results() -> Cases:
    return AliasedResults(), [(torch.randn(4, 4),), (-torch.rand(4, 4),)]


CONTROL_FLOW_MODELS: dict[str, Callable[[], Cases]] = {
    "nested_cond": _nested_cond,
    "shared_while": _shared_while,
    "cond_in_while_in_cond": _cond_in_while_in_cond,
    "scan_with_cond": _scan_with_cond,
    "map_rows": _map_rows,
    "mixture_of_experts": _mixture_of_experts,
    "early_exit": _early_exit,
    "stateful": _stateful,
    "aliased_results": _aliased_results,
}
"""Models by name: a function that makes the module and inputs that between them take every branch."""
