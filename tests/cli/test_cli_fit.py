"""lowtide fit as a user meets it: exit status, files, JSON by the schema, errors of one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

torch = pytest.importorskip("torch")

from command_line import CSV, run  # noqa: E402
from lowtide.outputs.json import json_schema  # noqa: E402


class Chain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.second = torch.nn.Conv2d(16, 4, 3, 2, padding=1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("fit") / "model.pt2"
    torch.export.save(torch.export.export(Chain().eval(), (torch.randn(1, 3, 32, 32),)), path)
    return path


@pytest.fixture(scope="module")
def done(model):
    """A fit with all its outputs."""
    out, picture = model.with_name("fitted.pt2"), model.with_name("front.svg")
    return run(
        "fit", model, "--runtime", "pytorch", "-o", out, "--front", "--front-picture", picture
    ), out, picture  # fmt: skip


def test_it_says_what_was_done_and_what_it_cost(done, model):
    said = done[0]
    assert said.returncode == 0
    assert said.stderr == ""
    assert "the smallest arena that was found is" in said.stdout
    assert "chains run in parts" in said.stdout
    assert "The floor of running in parts is 12,288 bytes (12.0 KiB): 12,288 for inputs." in said.stdout
    assert "of the program's" in said.stdout  # the trade
    assert f"{model.with_name('fitted.pt2')}: the fitted program." in said.stdout


def test_what_was_written_is_a_program_like_any_other(done):
    _, out, picture = done
    planned = run("plan", out, "--in-place", "--elide-copies", "--json", "-")
    assert planned.returncode == 0
    arena = json.loads(planned.stdout)["arena_bytes"]
    assert f"is {arena:,} bytes" in done[0].stdout
    assert run("replay", out, "--in-place", "--elide-copies").returncode == 0
    assert picture.read_text().count("arena after") == 1


def test_json_follows_the_schema_and_the_same_file_comes_out(done, model, tmp_path):
    out = tmp_path / "again.pt2"
    said = run("fit", model, "--runtime", "pytorch", "-o", out, "--json")
    assert said.returncode == 0
    document = json.loads(said.stdout)
    jsonschema.validate(document, json_schema("fit"))
    assert document["arena_bytes"] < document["arena_before"]
    assert document["steps"][-1]["parts"]
    assert document["proof"]["largest"] < 1e-5
    assert out.read_bytes() == done[1].read_bytes()


def test_a_fitted_file_stays_as_it_is(done, tmp_path):
    out = tmp_path / "again.pt2"
    again = run("fit", done[1], "--runtime", "pytorch", "-o", out)
    assert again.returncode == 0
    assert "the program as it was" in again.stdout
    assert out.read_bytes() == done[1].read_bytes()


def test_output_may_replace_the_input(done, model, tmp_path):
    path = tmp_path / "model.pt2"
    shutil.copy(model, path)
    assert run("fit", path, "--runtime", "pytorch", "-o", path, "--quiet").returncode == 0
    assert path.read_bytes() == done[1].read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["model.pt2"]


def test_a_budget_that_is_kept_exits_0_and_one_that_is_not_exits_1(model, tmp_path):
    out = tmp_path / "fitted.pt2"
    kept = run("fit", model, "--runtime", "pytorch", "--max-arena", "1MiB", "-o", out)
    assert kept.returncode == 0
    assert "fits 1,048,576 bytes" in kept.stdout
    assert out.read_bytes() == model.read_bytes()
    missed = run("fit", model, "--runtime", "pytorch", "--max-arena", "12KiB", "-o", out)
    assert missed.returncode == 1
    assert "does not fit 12,288 bytes (12.0 KiB), by" in missed.stdout
    assert out.read_bytes() != model.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-arena", "1KiB"], "the inputs take 12,288 and the outputs 4,096 bytes"),
        (["--max-arena", "huge"], "is not a size"),
        (["--max-macs", "0.5"], "give 1 or more"),
        (["--runtime", "tvm"], "choose executorch or pytorch"),
        (["--front-picture", "front.bmp"], "write a .png or a .svg"),
        (["-o", "nowhere/fitted.pt2"], "there is no folder"),
    ],
)
def test_bad_input_is_one_line_and_exits_2(model, tmp_path, arguments, message):
    said = run("fit", model, *(["--runtime", "pytorch"] if "--runtime" not in arguments else []), *arguments)
    assert said.returncode == 2
    assert said.stdout == ""
    assert message in said.stderr
    assert len(said.stderr.splitlines()) == 1


def test_other_files_are_refused_and_nothing_is_written(tmp_path):
    table, out = tmp_path / "buffers.csv", tmp_path / "fitted.pt2"
    table.write_text(CSV)
    out.write_text("precious")
    said = run("fit", table, "-o", out)
    assert said.returncode == 2
    assert "is a csv file, whose operators cannot be changed" in said.stderr
    assert out.read_text() == "precious"
    assert run("fit", tmp_path / "missing.pt2").returncode == 2
    assert run("fit", tmp_path).returncode == 2
