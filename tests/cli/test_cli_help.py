"""Every command's help has examples, and every example works as it stands."""

from __future__ import annotations

import inspect
import logging
import shlex
import shutil
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lowtide
from command_line import CSV
from lowtide.cli.app import app

COMMANDS = {
    command.name or command.callback.__name__: command
    for command in app.registered_commands
    if command.callback is not None
}


BOARD = "".join(
    f"[[bank]]\nname = '{name}'\nsize = '{size}'\nmem_id = {id}\nread_cost = {cost}\nwrite_cost = {cost}\n"
    for name, size, id, cost in (("fast", "1KiB", 1, 1), ("slow", "1MiB", 2, 8))
)


def examples(name: str) -> list[str]:
    """The lines of a command's help that are commands themselves."""
    text = inspect.cleandoc(COMMANDS[name].callback.__doc__ or "")
    return [line.strip() for line in text.splitlines() if line.strip().startswith("lowtide ")]


EXAMPLES = [pytest.param(name, line, id=line) for name in COMMANDS for line in examples(name)]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "buffers.csv").write_text(CSV)
    (folder / "my_operators.py").write_text("")
    old, new = (lowtide.Problem((lowtide.Buffer("a", size, ((0, 2),)),)) for size in (4, 8))
    (folder / "old.json").write_text(lowtide.plan(old).to_json())
    (folder / "new.json").write_text(lowtide.plan(new).to_json())
    (folder / "board.toml").write_text(BOARD)
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.narrow = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = torch.relu(self.wide(x))
            return torch.cond(h.sum() > 0, lambda h: self.narrow(h), lambda h: h[:, :8] * 2, (h,))

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        exported = torch.export.export(Net().eval(), (torch.randn(4, 8),))
        torch.export.save(exported, folder / "model.pt2")
    (folder / "plan.json").write_text(lowtide.plan(exported).to_json())
    if any(".pte" in line for name in COMMANDS for line in examples(name)):
        _write_pte(folder / "model.pte", exported)
    _write_tflite(folder / "model.tflite")
    return folder


def _write_tflite(path: Path) -> None:
    """A model of a convolution, where the schema package is installed."""
    try:
        from tflite_building import Net
    except ImportError:
        return
    net = Net()
    main = net.graph()
    x, weights = main.input((1, 8, 8, 4)), main.constant([[[[0.5] * 4]]] * 4, "FLOAT32")
    made = main.tensor((1, 8, 8, 4))
    main.op("CONV_2D", [x, weights], [made], strideW=1, strideH=1)
    main.outputs = [main.made("TANH", [made])]
    path.write_bytes(net.finish())


def _write_pte(path: Path, exported: object) -> None:
    """The model as an ExecuTorch program, where ExecuTorch is installed."""
    try:
        from executorch.exir import EdgeCompileConfig, to_edge
    except ImportError:
        return
    logging.disable(logging.WARNING)
    try:
        edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
        path.write_bytes(edge.to_executorch().buffer)
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example(name: str) -> None:
    assert any(line.startswith(f"lowtide {name} ") for line in examples(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_its_examples_whole(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "160", "TERM": "dumb"})
    assert result.exit_code == 0
    for line in examples(name):
        assert line in result.output


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_an_example_runs(
    name: str, line: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ".pte" in line and not (prepared / "model.pte").exists():
        pytest.skip("ExecuTorch is not installed")
    if ".tflite" in line and not (prepared / "model.tflite").exists():
        pytest.skip("tflite-micro is not installed")
    for file in prepared.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(app, shlex.split(line)[1:], prog_name="lowtide")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == (1 if name == "diff" else 0), result.output
