"""Explain offers parts as advice: tried, with what they win and cost."""

from __future__ import annotations

import json

import jsonschema
import pytest

torch = pytest.importorskip("torch")

import lowtide  # noqa: E402
from lowtide.outputs.json import json_schema  # noqa: E402
from lowtide.outputs.wording import advice_sentence  # noqa: E402


class Chain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.second = torch.nn.Conv2d(16, 4, 3, 2, padding=1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def test_parts_are_advice_and_lowtide_fit_does_as_well() -> None:
    torch.manual_seed(0)
    exported = torch.export.export(Chain().eval(), (torch.randn(1, 3, 32, 32),))
    explanation = lowtide.explain(exported)
    (advice,) = [one for one in explanation.advice if one.kind == "split"]
    fitted = lowtide.fit(exported, runtime="pytorch", prove=False)
    assert fitted.arena_bytes <= advice.peaks[1] < explanation.peak_bytes / 2
    assert advice.wins == explanation.peak_bytes - advice.peaks[1]
    assert 1 <= advice.work <= 1.10
    assert advice_sentence(advice).startswith("Run chains in parts, as lowtide fit does")
    jsonschema.validate(json.loads(explanation.to_json()), json_schema("explanation"))


def test_where_parts_win_nothing_there_is_no_such_advice() -> None:
    exported = torch.export.export(torch.nn.Linear(8, 8), (torch.randn(4, 8),))
    assert all(one.kind != "split" for one in lowtide.explain(exported).advice)


def test_dynamic_programs_are_explained_as_before() -> None:
    batch = torch.export.Dim("batch", min=2, max=8)
    exported = torch.export.export(
        Chain().eval(), (torch.randn(4, 3, 8, 8),), dynamic_shapes={"x": {0: batch}}
    )
    assert all(one.kind != "split" for one in lowtide.explain(exported).advice)
