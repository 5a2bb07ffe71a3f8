"""What the page on models for microcontrollers says to type, works."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lowtide.cli.app import app
from lowtide.frontends.tflite.interpreter import Scratch, simulate
from lowtide.frontends.tflite.reading import read_model
from tflite_building import Net

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "tflite.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.S)


def test_the_page_works(tmp_path, monkeypatch):
    """Every line of shell but xxd's, then the code in C and in Python."""
    monkeypatch.chdir(tmp_path)
    net = Net()
    main = net.graph()
    x, weights = main.input((1, 8, 8, 4)), main.constant([[[[0.5] * 4]]] * 4)
    made = main.tensor((1, 8, 8, 4))
    main.op("CONV_2D", [x, weights], [made], strideW=1, strideH=1)
    for _ in range(7):
        made = main.made("TANH", [made])
    main.outputs = [made]
    Path("model.tflite").write_bytes(net.finish())
    model = read_model(net.finish())
    arena = simulate(model, None, (Scratch(0, 0, 512),))
    Path("target.log").write_text(
        "".join(
            f"(id={i}): size={a.size}, offset={a.offset}, first_used={a.first} last_used={a.last}\n"
            for i, a in enumerate((*arena.tensors.values(), *arena.scratch))
        )
    )
    for line in "".join(blocks("bash")).splitlines():
        if line.startswith("lowtide"):
            done = CliRunner().invoke(app, shlex.split(line)[1:])
            assert done.exit_code == 0, (line, done.output, done.exception)
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), {})
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    use = "\nuint8_t *first(void);\nuint8_t *first(void) { return arena; }\n"
    Path("use.c").write_text(blocks("c")[0] + use)
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
    for language in ("-std=c99", "-std=c11", "-xc++", "-xc++ -std=c++20"):
        command = [compiler, *language.split(), *strict, "-c", "use.c", "-o", "use.o"]
        subprocess.run(command, check=True)
