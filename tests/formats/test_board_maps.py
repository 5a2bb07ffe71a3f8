"""The example maps of boards: each is read, says where its sizes come from, and a model is planned on it."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.formats.memory_map import read_memory_map

ROOT = Path(__file__).parents[2]
BOARDS = sorted((ROOT / "examples" / "boards").glob("*.toml"))
MODEL = ROOT / "benchmarks" / "data" / "executorch-greedy" / "mobilenet_v2.csv"

TOTALS = {
    "esp32_s3": (416 + 64 + 2048) << 10,
    "imxrt1060": (128 + 512 + 256) << 10,
    "nrf5340": 512 << 10,
    "rp2350": (512 + 4) << 10,
    "stm32f746": (64 + 256) << 10,
    "stm32h743": (128 + 512 + 288 + 64) << 10,
}


def scaled(path: Path, most: int) -> str:
    """The model with its sizes divided, so that a board of some bytes holds it."""
    lines = MODEL.read_text().splitlines()
    column = lines[0].split(",").index("size")
    rows = [line.split(",") for line in lines[1:]]
    by = -(-lowtide.plan(MODEL).arena_bytes * 2 // most)
    for row in rows:
        row[column] = str(max(int(row[column]) // by, 1))
    path.write_text("\n".join([lines[0], *map(",".join, rows)]) + "\n")
    return str(path)


def test_every_board_is_known() -> None:
    assert {path.stem for path in BOARDS} == TOTALS.keys()


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_model_is_planned_on_a_board(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    assert "Sizes: " in text or "Size: " in text or "these are the sizes of" in text
    assert "Costs are relative guesses" in text
    memory = read_memory_map(path)
    total = sum(bank.size for bank in memory.banks)
    assert total == TOTALS[path.stem]
    plan = lowtide.plan(scaled(tmp_path / "model.csv", total), memory_map=path)
    plan.verify()
    assert len(plan.banks) == len(memory.banks)
    assert plan.arena_bytes > 0
    for bank in memory.banks:
        assert plan.arenas[bank.mem_id] <= bank.size
