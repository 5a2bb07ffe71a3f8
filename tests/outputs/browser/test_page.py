"""The page in a real browser: pointed at, searched, zoomed, clicked; what it says is what the plan says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lowtide import Buffer, Plan, Problem
from lowtide.base.units import format_size
from lowtide.ir.problem import RegionSpan
from lowtide.outputs.html import picture_to_html
from lowtide.outputs.picture import Picture, make_picture
from lowtide.outputs.picture.colours import colour
from lowtide.pack.planner import plan_problem
from pictures import busy_plan, bytes_alive

DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


class Opened:
    """A page in the browser, and the picture that it was made of."""

    def __init__(
        self, browser: Any, plan: Plan, folder: Path, *, title: str = "plan", **context: Any
    ) -> None:
        self.picture: Picture = make_picture(plan, title=title)
        self.plan = plan
        file = folder / "page.html"
        file.write_text(picture_to_html(self.picture))
        self.context = browser.new_context(**{"viewport": DESKTOP, **context})
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.frame()

    def frame(self) -> None:
        """Wait until what was asked for is drawn."""
        self.page.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def at(self, name: str) -> tuple[float, float]:
        """Where the middle of a buffer's first rectangle is on the screen."""
        place = self.page.evaluate("name => lowtide.locate(name)", name)
        return place["x"], place["y"]

    def at_step(self, tick: int) -> tuple[float, float]:
        place = self.page.evaluate("tick => lowtide.locateStep(tick)", tick)
        return place["x"], place["y"]

    def sight(self) -> tuple[float, float]:
        """First and last tick in sight."""
        return tuple(self.page.evaluate("() => [lowtide.view.t0, lowtide.view.t1]"))  # type: ignore[return-value]

    def text(self, selector: str) -> str:
        return " ".join(self.page.inner_text(selector).split())

    def rows(self, section: str) -> list[str]:
        """Names in the list of a section, in order."""
        found: list[str] = self.page.eval_on_selector_all(
            f"{section} .row", "rows => rows.map(row => row.title)"
        )
        return found

    def close(self) -> None:
        assert self.problems == []
        assert len(self.requests) == 1  # itself
        self.context.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    """A hand-made plan: two arenas, nested regions, a buffer with a hole in its life."""
    page = Opened(browser, busy_plan(extra=30), tmp_path, title="busy.json")
    yield page
    page.close()


def check_hover(opened: Opened, position: int) -> None:
    """The tip over a buffer names everything that the plan knows of it."""
    buffer, offset = opened.plan.problem.buffers[position], opened.plan.offsets[position]
    opened.page.mouse.move(*opened.at(buffer.label))
    opened.frame()
    tip = opened.text("#tip")
    lifetime = " ".join(f"[{start:,}, {stop:,})" for start, stop in buffer.lifetime)
    assert tip.startswith(" ".join(buffer.label.split()))
    assert f"size {buffer.size:,} B" in tip
    assert buffer.size < 1024 or f"({format_size(buffer.size)})" in tip
    assert f"alive {lifetime}" in tip
    assert f"place {offset:,} to {offset + buffer.size:,}" in tip
    for fact in (buffer.dtype, buffer.operator, buffer.source, buffer.kind):
        assert fact is None or " ".join(fact.split()) in tip
    if buffer.shape is not None:
        assert f"[{', '.join(map(str, buffer.shape))}]" in tip


def check_step(opened: Opened, tick: int) -> None:
    """A click on a step lists what is alive there, largest first, and how much that is."""
    opened.page.mouse.click(*opened.at_step(tick))
    opened.frame()
    buffers = opened.plan.problem.buffers
    alive = opened.picture.alive(tick)
    live = sum(bytes_alive(opened.plan, arena.id, tick) + arena.reserved for arena in opened.picture.arenas)
    shown = opened.page.locator("#step")
    assert int(shown.get_attribute("data-live")) == live
    assert int(shown.get_attribute("data-alive")) == len(alive)
    assert opened.rows("#step") == [buffers[i].label for i in alive[:60]]
    assert f"live {live:,} B" in opened.text("#step")
    opened.page.keyboard.press("Escape")
    opened.frame()
    assert opened.page.locator("#step").count() == 0


def test_hover_and_steps_say_what_the_plan_says(opened: Opened) -> None:
    assert opened.text("#title") == "busy.json"
    for position in (0, 1, 2, 4):
        check_hover(opened, position)
    for tick in range(9):
        check_step(opened, tick)
    facts = opened.text("#facts")
    assert f"{opened.plan.arena_bytes:,} B" in facts
    assert format_size(opened.plan.lower_bound_bytes) in facts


def test_search_goes_from_hit_to_hit(opened: Opened) -> None:
    page = opened.page
    page.keyboard.press("/")
    page.keyboard.type("more1")
    opened.frame()
    hits = [b.label for b in opened.plan.problem.buffers if "more1" in b.label]
    assert sorted(opened.rows("#hits")) == sorted(hits)
    assert opened.text("#found") == str(len(hits))
    for number, name in enumerate(opened.rows("#hits")[:3], start=1):
        page.keyboard.press("Enter")
        opened.frame()
        assert opened.text("#found") == f"{number} / {len(hits)}"
        assert name in opened.text("#buffer")
    page.fill("#search", "model.py mul aten")
    opened.frame()
    assert opened.rows("#hits") == []
    page.fill("#search", "MODEL.py add")
    opened.frame()
    assert opened.rows("#hits") == ["root/a"]
    page.keyboard.press("Escape")
    opened.frame()
    assert page.input_value("#search") == ""
    assert page.locator("#hits").count() == 0


def test_zoom_keeps_what_is_under_the_pointer_and_drag_moves_it(opened: Opened) -> None:
    page = opened.page
    assert opened.sight() == (0, 9)
    x, y = opened.at_step(2)
    page.mouse.move(x, y - 100)
    page.mouse.wheel(0, -500)
    opened.frame()
    first, last = opened.sight()
    assert 3 <= last - first < 5
    assert opened.at_step(2)[0] == pytest.approx(x, abs=1)
    page.mouse.down()
    page.mouse.move(x - 60, y - 100)
    page.mouse.up()
    opened.frame()
    assert opened.at_step(2)[0] == pytest.approx(x - 60, abs=1)
    page.mouse.dblclick(*opened.at("root/b/c"))
    opened.frame()
    start, stop = opened.sight()
    assert start <= 4
    assert stop >= 6
    assert opened.page.evaluate("() => lowtide.view.b1 - lowtide.view.b0") < 1
    page.click("#fit")
    opened.frame()
    assert opened.sight() == (0, 9)
    page.keyboard.down("Shift")
    page.mouse.move(opened.at_step(1)[0], y - 60)
    page.mouse.down()
    page.mouse.move(opened.at_step(5)[0], y - 160, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    opened.frame()
    assert opened.sight() == pytest.approx((1.5, 5.5), abs=0.05)


def test_the_peak_is_one_press_away(opened: Opened) -> None:
    opened.page.click("#peak")
    opened.frame()
    peak = max(
        sum(bytes_alive(opened.plan, arena.id, tick) for arena in opened.picture.arenas) for tick in range(9)
    )
    reserved = sum(arena.reserved for arena in opened.picture.arenas)
    assert int(opened.page.get_attribute("#step", "data-live")) == peak + reserved
    assert opened.page.get_attribute("#peak", "aria-pressed") == "true"
    opened.page.keyboard.press("p")
    opened.frame()
    assert opened.page.get_attribute("#peak", "aria-pressed") == "false"


def test_everything_is_within_reach_of_the_keyboard(opened: Opened) -> None:
    page = opened.page
    page.focus("#plot")
    for step in range(4):
        page.keyboard.press("ArrowRight")
        opened.frame()
        assert opened.text("#step h2") == f"Step {step}"
    assert "bytes" not in opened.text("#spoken")
    assert opened.text("#spoken").startswith("Step 3, ")
    page.keyboard.press("ArrowUp")
    opened.frame()
    lowest = page.evaluate("() => lowtide.view.buffer")
    page.keyboard.press("ArrowUp")
    opened.frame()
    assert page.evaluate("() => lowtide.view.buffer") != lowest
    before = opened.sight()
    page.keyboard.press("+")
    page.keyboard.press("Shift+ArrowRight")
    opened.frame()
    assert opened.sight()[1] - opened.sight()[0] < before[1] - before[0]
    page.keyboard.press("0")
    opened.frame()
    assert opened.sight() == before
    page.keyboard.press("c")
    opened.frame()
    assert page.eval_on_selector("#colour", "e => e.selectedOptions[0].text") in ("kind", "region", "size")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def test_a_region_can_be_zoomed_to_and_an_arena_seen_alone(opened: Opened) -> None:
    page = opened.page
    y = page.evaluate("() => document.getElementById('plot').getBoundingClientRect().top + 6 + 18 + 8")
    page.mouse.click(opened.at_step(4)[0], y)
    opened.frame()
    assert opened.sight() == pytest.approx((3.5, 6.5), abs=0.6)
    page.select_option("#arena", label="2")
    opened.frame()
    assert opened.rows("#largest") == [b.label for b in opened.plan.problem.buffers if b.arena == 2]
    page.click("#peak")
    opened.frame()
    assert int(page.get_attribute("#step", "data-live")) == opened.plan.uses[1].live_peak_bytes


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_buffers_have_the_colours_of_the_legend(browser: Any, tmp_path: Path, theme: Any) -> None:
    opened = Opened(browser, busy_plan(), tmp_path, color_scheme=theme)
    made = colour(opened.picture, "operator")
    pixel = """([x, y]) => {
      const canvas = document.getElementById("base"), box = canvas.getBoundingClientRect();
      const [column, row] = [Math.round(x - box.left), Math.round(y - box.top)];
      return [...canvas.getContext("2d").getImageData(column, row, 1, 1).data.slice(0, 3)];
    }"""
    x, y = opened.at_step(7)[0], opened.at("root/a")[1]  # away from the peak, which is shaded
    seen = opened.page.evaluate(pixel, [x, y + 20])
    wanted = bytes.fromhex(made.colours(theme)[made.groups[1]][1:])
    assert seen == pytest.approx(list(wanted), abs=40)  # one of three shades
    assert opened.page.evaluate("() => document.documentElement.dataset.theme") == theme
    other = {"light": "dark", "dark": "light"}[theme]
    opened.page.emulate_media(color_scheme=other)  # the page follows the system until somebody chooses
    opened.frame()
    assert opened.page.evaluate("() => document.documentElement.dataset.theme") == other
    ground = opened.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    opened.page.keyboard.press("t")
    opened.frame()
    assert opened.page.evaluate("() => getComputedStyle(document.body).backgroundColor") != ground
    opened.page.emulate_media(color_scheme=theme)
    opened.page.emulate_media(color_scheme=other)
    opened.frame()
    assert opened.page.evaluate("() => document.documentElement.dataset.theme") == theme
    opened.close()


def test_a_phone_shows_it_all(browser: Any, tmp_path: Path) -> None:
    opened = Opened(browser, busy_plan(), tmp_path, viewport=PHONE, has_touch=True, is_mobile=True)
    assert opened.page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    for button in opened.page.locator(".buttons button").all():
        box = button.bounding_box()
        assert box["height"] >= 36
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
    opened.page.touchscreen.tap(*opened.at("root/a"))
    opened.frame()
    assert "root/a" in opened.text("#buffer")
    assert opened.page.locator("#step").count() == 1
    before = opened.sight()
    pinch(opened, opened.at("root/a"), apart=(40, 120))
    opened.frame()
    after = opened.sight()
    assert after[1] - after[0] == pytest.approx((before[1] - before[0]) / 3, abs=0.3)
    opened.close()


def pinch(opened: Opened, place: tuple[float, float], apart: tuple[int, int]) -> None:
    """Two fingers, side by side about a place, that move apart."""
    touch = opened.context.new_cdp_session(opened.page)
    for kind, distance in (("touchStart", apart[0]), ("touchMove", sum(apart) / 2), ("touchMove", apart[1])):
        fingers = [
            {"x": place[0] + side * distance / 2, "y": place[1], "id": number}
            for number, side in enumerate((-1, 1))
        ]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_many_arenas_and_deep_regions_have_room(browser: Any, tmp_path: Path) -> None:
    buffers = tuple(Buffer(f"b{i}", 64, ((i, i + 4),), arena=i) for i in range(12))
    names = ["/".join(["root", *("r" * depth)]) for depth in range(40)]
    regions = tuple(
        RegionSpan(name, "body", ((0, 80 - depth),), names[depth - 1] if depth else None)
        for depth, name in enumerate(names)
    )
    opened = Opened(browser, plan_problem(Problem(buffers, regions=regions)), tmp_path)
    box = opened.page.locator("#plot").bounding_box()
    for buffer in buffers:
        x, y = opened.at(buffer.id)
        assert box["x"] < x < box["x"] + box["width"]
        assert box["y"] + 100 < y < box["y"] + box["height"]
    assert box["height"] > 12 * 100
    opened.page.select_option("#arena", label="11")
    opened.frame()
    assert opened.page.locator("#plot").bounding_box()["height"] < 800
    opened.close()


def test_sizes_read_as_everywhere_else(opened: Opened) -> None:
    sizes = [
        0,
        1,
        1023,
        1024,
        1075,
        1076,
        1536,
        10240,
        1048524,
        1048525,
        1048576,
        2**31 - 1,
        2**40,
        2**52 + 1,
    ]
    assert opened.page.evaluate("sizes => sizes.map(lowtide.human)", sizes) == list(map(format_size, sizes))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v2", "cond_in_while_in_cond", "nested_cond"])
def test_pages_of_real_programs(browser: Any, tmp_path: Path, name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from lowtide.sources import load
    from models import CONTROL_FLOW_MODELS, REAL_MODELS

    torch.manual_seed(0)
    if name in REAL_MODELS:
        model, inputs = REAL_MODELS[name]()
    else:
        model, cases = CONTROL_FLOW_MODELS[name]()
        inputs = cases[0]
    loaded = load(torch.export.export(model, inputs))
    opened = Opened(browser, plan_problem(loaded.problem), tmp_path, title=name)
    seen = [i for i, b in enumerate(opened.plan.problem.buffers) if b.size * 40 > opened.plan.arena_bytes]
    for position in seen[:12]:
        check_hover(opened, position)
    for step in opened.picture.steps[:: max(1, len(opened.picture.steps) // 12)]:
        check_step(opened, step.start)
    opened.page.click("#peak")
    opened.frame()
    live = int(opened.page.get_attribute("#step", "data-live"))
    assert live == opened.plan.live_peak_bytes
    opened.close()
