"""The search for chains to run in parts, against every choice that there is in small programs."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import nn

from lowtide.transforms.split.search import Option, Search


def tiny(seed: int) -> nn.Module:
    """A few layers over an image, or over rows."""
    chance = random.Random(seed)
    layers: list[nn.Module] = []
    channels = chance.choice([2, 4])
    for _ in range(chance.randint(2, 4)):
        wide = chance.choice([2, 4, 8])
        kernel = chance.choice([1, 3])
        layers += [nn.Conv2d(channels, wide, kernel, chance.choice([1, 1, 2]), kernel // 2)]
        layers += [nn.ReLU()] if chance.random() < 0.5 else []
        channels = wide
    return nn.Sequential(nn.Conv2d(2, layers[0].in_channels, 3, padding=1), *layers[:6]).eval()


def every_choice(search: Search) -> list[tuple[int, int]]:
    """Peak and added work of every set of options whose ranges do not overlap."""
    count = len(search.steps)
    places = search._places
    options: list[Option] = []
    for first, end in itertools.combinations(places, 2):
        options += search.options(first, end - 1)
    found: list[tuple[int, int]] = []

    def go(place: int, peak: int, macs: int) -> None:
        if place == count:
            found.append((peak, macs))
            return
        whole = search.lives.whole_peak(place)
        go(place + 1, max(peak, whole), macs)
        for option in options:
            if option.segment.first == place:
                go(option.segment.last + 1, max(peak, option.peak), macs + option.macs)

    go(0, 0, 0)
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("max_macs", [1.0, 1.1, 3.0])
def test_no_choice_is_better(seed: int, max_macs: float) -> None:
    torch.manual_seed(seed)
    program = torch.export.export(tiny(seed), (torch.randn(1, 2, 12, 12),)).run_decompositions()
    search = Search(program, max_macs)
    for first, end in itertools.combinations(search._places, 2):
        for option in search.options(first, end - 1):
            if option.tape is None:
                search._make_exact(option)
    allowed = [(peak, macs) for peak, macs in every_choice(search) if macs <= search.budget]
    lowest = min(peak for peak, _ in allowed)
    assert lowest <= search.least().peak <= lowest * 1.03 + 16
    for limit in sorted({peak for peak, _ in allowed}):
        found = search.within(limit)
        assert found is not None
        assert found.peak <= limit
        least = min(macs for peak, macs in allowed if peak <= limit)
        # Parts may leave out rows that a stride passes over; nothing is split for that alone.
        assert least <= found.macs <= max(least, 0)
    assert search.within(lowest - 1) is None
