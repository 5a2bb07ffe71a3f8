"""How smooth a page of 20,000 buffers is in headless Chromium: first paint, and frames while panning.

    python benchmarks/page.py [--buffers 20000] [--against bokeh,plotly]

Needs playwright and a chromium; bokeh and plotly only to compare with (pip install bokeh plotly).
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowtide import Buffer, Plan, Problem
from lowtide.outputs.html import picture_to_html
from lowtide.outputs.picture import make_picture
from lowtide.pack.planner import plan_problem

OPERATORS = ("conv2d", "add", "relu", "mm", "softmax")
COLOURS = ("#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f")

FRAMES = """() => {
  window.frames_seen = [];
  let last = performance.now();
  const tick = () => {
    const now = performance.now();
    frames_seen.push(now - last);
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}"""


def make_plan(count: int) -> Plan:
    """Buffers as a large network has them: most live briefly, a few very long; sizes over four decades."""
    chance = random.Random(1)
    buffers = tuple(
        Buffer(
            id=f"root/node_{i}",
            size=64 * int(chance.lognormvariate(6, 1.5) + 1),
            lifetime=((i, min(count + 1, i + 2 + int(chance.paretovariate(1.1)))),),
            alignment=64,
            operator=f"aten.{chance.choice(OPERATORS)}.default",
            dtype="float32",
            shape=(1, 16),
            source=f"model.py:{i % 900} in forward",
        )
        for i in range(count)
    )
    return plan_problem(Problem(buffers), packer="first-fit")


def lowtide_page(plan: Plan) -> str:
    return picture_to_html(make_picture(plan, title="synthetic"))


def bokeh_page(plan: Plan, *, all_while_panning: bool = True) -> str:
    """The same rectangles by bokeh; it draws every tenth while panning unless told not to."""
    from bokeh.embed import file_html
    from bokeh.models import ColumnDataSource, HoverTool
    from bokeh.plotting import figure
    from bokeh.resources import INLINE

    buffers = plan.problem.buffers
    source = ColumnDataSource(
        {
            "left": [b.lifetime[0][0] for b in buffers],
            "right": [b.lifetime[0][1] for b in buffers],
            "bottom": list(plan.offsets),
            "top": [offset + b.size for offset, b in zip(plan.offsets, buffers, strict=True)],
            "name": [b.id for b in buffers],
            "colour": [COLOURS[i % 5] for i in range(len(buffers))],
        }
    )
    drawn = figure(
        width=1200, height=700, tools="pan,wheel_zoom", active_drag="pan", active_scroll="wheel_zoom"
    )
    if all_while_panning:
        drawn.lod_threshold = None
    boxes = drawn.quad(
        left="left",
        right="right",
        bottom="bottom",
        top="top",
        fill_color="colour",
        line_width=0,
        source=source,
    )
    drawn.add_tools(HoverTool(renderers=[boxes], tooltips=[("name", "@name")]))
    return str(file_html(drawn, INLINE, "bokeh"))


def plotly_page(plan: Plan) -> str:
    """The same rectangles by plotly, as bars that float."""
    import plotly.graph_objects as go

    buffers = plan.problem.buffers
    bars = go.Bar(
        x=[sum(b.lifetime[0]) / 2 for b in buffers],
        width=[b.lifetime[0][1] - b.lifetime[0][0] for b in buffers],
        base=list(plan.offsets),
        y=[b.size for b in buffers],
        hovertext=[b.id for b in buffers],
    )
    made = go.Figure(bars)
    made.update_layout(dragmode="pan", width=1200, height=700, barmode="overlay")
    return str(made.to_html(include_plotlyjs=True))


def measure(browser: Any, html: str, seconds: float, zoom: bool) -> dict[str, float]:
    """Open a page, drag to and fro, and watch the frames."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(html)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(file.as_uri(), wait_until="load", timeout=120_000)
        page.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
        paints = page.evaluate("() => performance.getEntriesByType('paint').map(p => p.startTime)")
        ready = page.evaluate("() => performance.now()")
    page.mouse.move(700, 450)
    if zoom:
        page.mouse.wheel(0, -400)
    page.wait_for_timeout(1000)
    page.evaluate(FRAMES)
    page.mouse.down()
    began, moves = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        moves += 1
        page.mouse.move(700 + 200 * (1 if moves // 20 % 2 else -1) * (moves % 20) / 20, 450)
    page.mouse.up()
    frames = sorted(page.evaluate("() => frames_seen")[2:])
    page.close()
    return {
        "bytes": len(html.encode()),
        "first paint": max(paints, default=0.0),
        "drawn": ready,
        "frames/s": 1000 * len(frames) / sum(frames),
        "median": statistics.median(frames),
        "p95": frames[int(len(frames) * 0.95)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--buffers", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=4.0, help="of panning")
    parser.add_argument("--against", default="", metavar="NAMES", help="bokeh, plotly; separated by commas")
    parser.add_argument("--chromium", default=shutil.which("chromium"), metavar="PATH")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    plan = make_plan(arguments.buffers)
    pages: dict[str, Callable[[], str]] = {"lowtide": lambda: lowtide_page(plan)}
    if "bokeh" in arguments.against:
        pages["bokeh, all"] = lambda: bokeh_page(plan)
        pages["bokeh, a tenth"] = lambda: bokeh_page(plan, all_while_panning=False)
    if "plotly" in arguments.against:
        pages["plotly"] = lambda: plotly_page(plan)
    print(f"{arguments.buffers:,} buffers, panning for {arguments.seconds:g} s; times in ms")
    heads = ("MB", "written in", "first paint", "drawn", "frames/s", "median", "p95")
    print(f"{'page':24}" + "".join(f"{head:>12}" for head in heads))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        for name, make in pages.items():
            began = time.monotonic()
            html = make()
            written = 1000 * (time.monotonic() - began)
            for zoom in (False, True):
                row = measure(browser, html, arguments.seconds, zoom)
                label = f"{name}, zoomed" if zoom else name
                figures = (row["first paint"], row["drawn"], row["frames/s"], row["median"], row["p95"])
                cells = [
                    f"{row['bytes'] / 1e6:.1f}",
                    f"{written:.0f}",
                    *(f"{figure:.1f}" for figure in figures),
                ]
                print(f"{label:24}" + "".join(f"{cell:>12}" for cell in cells), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
