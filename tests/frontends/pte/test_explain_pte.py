"""explain, check and diff on ExecuTorch programs: the plan that the file holds, and what its steps do."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

import lowtide
from command_line import run
from lowtide.report.curve import live_peaks
from lowtide.sources import load
from peaks import check_peaks

to_edge = pytest.importorskip("executorch.exir").to_edge


class Net(torch.nn.Module):
    """A mask of constants that waits, beside a wide layer whose weight is transposed at run time."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(16).remainder(3).float()
        return self.narrow(torch.relu(self.wide(x))) * mask + torch.rand(16)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program in a file."""
    path = tmp_path_factory.mktemp("pte") / "net.pte"
    logging.disable(logging.WARNING)
    try:
        exported = torch.export.export(Net().eval(), (torch.randn(8, 16),))
        path.write_bytes(to_edge(exported).to_executorch().buffer)
    finally:
        logging.disable(logging.NOTSET)
    return path


def test_the_peak_and_who_waits(file: Path) -> None:
    explanation = lowtide.explain(file)
    loaded = load(file)
    assert loaded.plan is not None
    check_peaks(explanation, loaded.plan.problem)
    (peak,) = explanation.peaks
    assert peak.arena_bytes == loaded.plan.arena_bytes
    assert explanation.followed
    assert peak.at.operator is not None
    assert all(alive.written is not None for alive in peak.alive)
    assert any(alive.idle for alive in peak.alive)


def test_constants_computed_at_run_time(file: Path) -> None:
    explanation, loaded = lowtide.explain(file), load(file)
    assert loaded.contents is not None
    assert loaded.plan is not None
    operators = {b.id: b.operator for b in loaded.plan.problem.buffers}
    computed = {operators[name] for name in loaded.contents.computed if name in operators}
    assert {"aten::permute_copy.out", "aten::arange.start_out"} <= computed
    assert not [operator for operator in computed if "rand" in (operator or "")]
    (advice,) = [a for a in explanation.advice if a.kind == "constants"]
    assert sum(live_peaks(loaded.plan.problem).values()) - advice.wins == sum(advice.peaks.values())


def test_memory_beside_the_arena(file: Path) -> None:
    memory = {share.what: share for share in lowtide.explain(file).memory}
    weights = 4 * (16 * 64 + 64 + 64 * 16 + 16)
    held = memory["constants"].bytes
    assert held is not None
    assert held >= weights
    assert (memory["delegate blobs"].bytes, memory["delegate scratch"].bytes) == (0, 0)
    assert memory["inputs"].bytes == 8 * 16 * 4


def test_check_and_diff(file: Path, tmp_path: Path) -> None:
    plan = load(file).plan
    assert plan is not None
    assert run("check", file, "--max-arena", str(plan.arena_bytes)).returncode == 0
    over = run("check", file, "--max-arena", str(plan.arena_bytes - 1))
    assert over.returncode == 1
    assert "1 byte too many" in over.stdout
    assert run("diff", file, file).returncode == 0
    again = tmp_path / "again.json"
    again.write_text(lowtide.plan(file).to_json())
    assert run("diff", file, again, "-q").returncode in (0, 1)
