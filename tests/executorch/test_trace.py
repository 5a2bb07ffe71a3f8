"""Traces are laid out as ExecuTorch's own inspector lays them out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")

from executorch.exir import ExecutorchBackendConfig, to_edge  # noqa: E402
from executorch.util.activation_memory_profiler import generate_memory_trace  # noqa: E402

from lowtide import plan  # noqa: E402
from lowtide.executorch import MemoryPlanningPass  # noqa: E402
from lowtide.outputs.picture import make_picture  # noqa: E402
from lowtide.outputs.trace import picture_to_trace  # noqa: E402


def test_events_have_what_executorch_writes(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).eval()
    exported = torch.export.export(model, (torch.ones(1, 8),))
    lowered = to_edge(exported).to_executorch(
        ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass())
    )
    file = tmp_path / "trace.json"
    generate_memory_trace(lowered, str(file), enable_memory_offsets=True)
    theirs = json.loads(file.read_text())["traceEvents"]
    ours = json.loads(picture_to_trace(make_picture(plan(exported))))["traceEvents"]
    ours = [event for event in ours if event["ph"] == "X"]
    assert theirs
    assert ours
    for event in theirs:
        assert event["dur"] == event["args"]["bytes"]
        assert event["pid"] == event["args"]["Memory ID"]
    assert {key for event in ours for key in event} == {key for event in theirs for key in event}
    assert {event["cat"] for event in ours} == {event["cat"] for event in theirs}
    for key in {key for event in theirs for key in event["args"]}:
        assert all(key in event["args"] for event in ours), key
