"""Every picture of a plan, read back: its numbers are the plan's."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

import lowtide
from lowtide import Buffer, Plan, Problem
from lowtide.base.errors import UnsupportedError
from lowtide.ir.memory_map import Bank, MemoryMap
from lowtide.ir.problem import Arena
from lowtide.lifetimes.lowering import lower
from lowtide.lifetimes.timeline import build_problem
from lowtide.outputs.html import page_data, picture_to_html
from lowtide.outputs.picture import Picture, make_picture
from lowtide.outputs.picture.colours import CATEGORIES, WAYS, colour, short_operator
from lowtide.outputs.term import picture_to_lines
from lowtide.outputs.trace import picture_to_trace
from lowtide.pack.planner import plan_problem
from pictures import HOSTILE, busy_plan, bytes_alive, embedded
from sketch import Sketch
from strategies import plans

few = settings(max_examples=30)


def ticks(picture: Picture) -> range:
    return range(picture.start - 1, picture.stop + 1)


@few
@given(plans())
def test_a_picture_has_the_rectangles_and_the_curve_of_its_plan(plan: Plan) -> None:
    picture = make_picture(plan)
    drawn = [(arena.id, r) for arena in picture.arenas for r in arena.rectangles]
    wanted = [
        (buffer.arena, i, start, stop, plan.offsets[i], buffer.size)
        for i, buffer in enumerate(plan.problem.buffers)
        for start, stop in buffer.lifetime
    ]
    assert sorted((a, r.buffer, r.start, r.stop, r.offset, r.size) for a, r in drawn) == sorted(wanted)
    for arena in picture.arenas:
        assert arena.top >= max((r.offset + r.size for r in arena.rectangles), default=0)
        if plan.problem.has_permissions:
            continue
        for tick in range(picture.start, picture.stop):
            live = arena.live.at(tick) or arena.reserved
            assert live == arena.reserved + bytes_alive(plan, arena.id, tick)
        assert max(arena.peak[2], arena.reserved) == arena.use.live_peak_bytes


@few
@given(plans())
def test_steps_leave_no_gap_and_nothing_changes_within_one(plan: Plan) -> None:
    picture = make_picture(plan)
    assert [step.start for step in picture.steps[1:]] == [step.stop for step in picture.steps[:-1]]
    for position, step in enumerate(picture.steps):
        alive = picture.alive(step.start)
        assert all(picture.alive(tick) == alive for tick in range(step.start, step.stop))
        assert all(picture.step_at(tick) == position for tick in range(step.start, step.stop))
        sizes = [plan.problem.buffers[i].size for i in alive]
        assert sizes == sorted(sizes, reverse=True)
    if picture.steps:
        assert (picture.steps[0].start, picture.steps[-1].stop) == (picture.start, picture.stop)


@few
@given(plans())
def test_bands_lie_inside_those_above_them(plan: Plan) -> None:
    bands = make_picture(plan).bands
    spans = [(region.name, *span) for region in plan.problem.regions for span in region.span]
    assert sorted((band.region, band.start, band.stop) for band in bands) == sorted(spans)
    for band in bands:
        around = [b for b in bands if b is not band and b.start <= band.start and band.stop <= b.stop]
        assert len([b for b in around if b.depth < band.depth]) >= band.depth
        assert not [
            b
            for b in bands
            if b is not band and b.depth == band.depth and b.start < band.stop and band.start < b.stop
        ]


def test_steps_go_by_the_program_or_else_by_what_begins_there() -> None:
    sketch = Sketch()
    x = sketch.input("x", 64)
    sketch.outputs[0] = (sketch.op("relu", x, size=64),)
    program = sketch.build()
    plan = plan_problem(build_problem(program))
    flow = lower(program)
    named = make_picture(plan, flow=flow)
    assert [step.name for step in named.steps] == [flow.describe(tick) for tick in range(len(flow.points))]
    alone = make_picture(busy_plan())
    assert alone.steps[alone.step_at(1)].name == "root/a"
    assert alone.steps[alone.step_at(4)].name == "root/b/c"


@few
@given(plans(), st.sampled_from(WAYS))
def test_every_buffer_has_a_colour(plan: Plan, by: Any) -> None:
    made = colour(make_picture(plan), by)
    assert len(made.labels) == len(made.light) == len(made.dark) <= len(CATEGORIES["light"]) + 1
    assert len(made.groups) == len(plan.problem.buffers)
    assert set(made.groups) == set(range(len(made.labels)))
    if by == "kind":
        assert [made.labels[g] for g in made.groups] == [b.kind for b in plan.problem.buffers]


def test_sizes_are_coloured_in_order() -> None:
    problem = Problem(tuple(Buffer(f"b{i}", 3**i, ((i, i + 1),)) for i in range(30)))
    made = colour(make_picture(plan_problem(problem, packer="greedy")), "size")
    assert list(made.groups) == sorted(made.groups)
    assert len(made.labels) == 7


@few
@given(plans())
def test_a_page_holds_the_numbers_of_its_plan(plan: Plan) -> None:
    data = embedded(picture_to_html(make_picture(plan, title="a <title> & more")))
    texts, buffers = data["texts"], data["buffers"]
    assert data["title"] == "a <title> & more"
    assert buffers["size"] == [b.size for b in plan.problem.buffers]
    assert [texts[i] for i in buffers["name"]] == [b.label for b in plan.problem.buffers]
    assert [texts[i] for i in buffers["source"]] == [b.source or "" for b in plan.problem.buffers]
    assert {a["id"]: a["bytes"] for a in data["arenas"]} == plan.arenas
    assert sum(a["lower_bound"] for a in data["arenas"]) == plan.lower_bound_bytes
    for arena in data["arenas"]:
        columns = arena["rectangles"]
        for i, start, stop, offset in zip(
            *(columns[c] for c in ("buffer", "start", "stop", "offset")), strict=True
        ):
            assert offset == plan.offsets[i]
            assert (start, stop) in plan.problem.buffers[i].lifetime


def test_a_page_needs_nothing_else_and_runs_nothing_of_the_plan() -> None:
    page = picture_to_html(make_picture(busy_plan(), title=HOSTILE))
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert not re.search(r"(src|href)\s*=|https?:|@import|url\(", page)
    assert "default-src 'none'" in page
    assert "{{" not in page.replace("`${{", "")


def test_numbers_that_a_page_cannot_hold_are_refused() -> None:
    plan = plan_problem(Problem((Buffer("vast", 2**60, ((0, 1),)),)))
    with pytest.raises(UnsupportedError, match="use --svg or --png"):
        picture_to_html(make_picture(plan))


def test_a_drawing_has_a_path_for_every_rectangle() -> None:
    pytest.importorskip("matplotlib")
    from lowtide.outputs.svg import picture_to_svg

    picture = make_picture(busy_plan(), title=HOSTILE)
    text = picture_to_svg(picture)
    assert text == picture_to_svg(picture)
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    groups = {g.get("id"): g for g in root.iter(f"{space}g")}
    for arena in picture.arenas:
        paths = list(groups[f"buffers-{arena.id}"].iter(f"{space}path"))
        assert len(paths) == len([r for r in arena.rectangles if r.size])
        boxes = [_box(path.get("d", "")) for path in paths]
        shown = [r for r in arena.rectangles if r.size]
        wide, tall = boxes[0][1] / (shown[0].stop - shown[0].start), boxes[0][3] / shown[0].size
        for (x, width, y, height), r in zip(boxes, shown, strict=True):
            assert width == pytest.approx(wide * (r.stop - r.start), abs=0.01)
            assert height == pytest.approx(tall * r.size, abs=0.01)
            assert x - boxes[0][0] == pytest.approx(wide * (r.start - shown[0].start), abs=0.01)
            assert boxes[0][2] - y == pytest.approx(tall * (r.offset - shown[0].offset), abs=0.01)
    bands = list(groups["regions"].iter(f"{space}path"))
    assert len(bands) == len(picture.bands)
    assert "relu" not in text
    assert any("add" in (t.text or "") for t in root.iter(f"{space}text"))


def _box(path: str) -> tuple[float, float, float, float]:
    """Left, width, bottom and height of a path."""
    numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", path)]
    xs, ys = numbers[::2], numbers[1::2]
    return min(xs), max(xs) - min(xs), max(ys), max(ys) - min(ys)


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_an_image_has_the_colours_of_its_theme(theme: Any) -> None:
    pytest.importorskip("matplotlib")
    import io

    from matplotlib.image import imread

    from lowtide.outputs.picture.figure import INKS
    from lowtide.outputs.png import picture_to_png

    picture = make_picture(busy_plan())
    pixels = imread(io.BytesIO(picture_to_png(picture, theme=theme)))
    assert pixels.shape[1] == 1680
    seen = {tuple(round(255 * float(v)) for v in pixel[:3]) for row in pixels[::3] for pixel in row[::3]}

    def channels(colour: str) -> tuple[int, ...]:
        return tuple(bytes.fromhex(colour[1:]))

    assert tuple(round(255 * float(v)) for v in pixels[0][0][:3]) == channels(INKS[theme].sheet)
    made = colour(picture, "operator")
    assert channels(made.colours(theme)[made.groups[1]]) in seen  # the largest buffer


def test_nothing_to_draw_is_drawn() -> None:
    pytest.importorskip("matplotlib")
    from lowtide.outputs.svg import picture_to_svg

    for problem in (Problem(()), Problem((Buffer("empty", 0, ((0, 1),)),), arenas=(Arena(1, reserved=8),))):
        picture = make_picture(plan_problem(problem))
        assert ElementTree.fromstring(picture_to_svg(picture)) is not None
        assert embedded(picture_to_html(picture))["buffers"]["size"] == [0] * len(problem.buffers)
        assert json.loads(picture_to_trace(picture))["traceEvents"] is not None
        assert picture_to_lines(picture, width=40)


@few
@given(plans())
def test_events_of_a_trace_last_as_long_as_what_is_alive(plan: Plan) -> None:
    picture = make_picture(plan)
    events = json.loads(picture_to_trace(picture))["traceEvents"]
    buffers = [event for event in events if event["ph"] == "X"]
    for arena in picture.arenas:
        for thread, step in enumerate(picture.steps):
            here = [e for e in buffers if (e["pid"], e["tid"]) == (arena.id, thread)]
            assert sum(event["dur"] for event in here) == bytes_alive(plan, arena.id, step.start)
            for event in here:
                i = next(
                    i for i in picture.alive(step.start) if plan.problem.buffers[i].label == event["name"]
                )
                assert event["dur"] == event["args"]["bytes"]
                assert event["args"]["offset"] == event["ts"]
                assert i >= 0
    names = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert len(names) == len(picture.steps) * len(picture.arenas)


def test_a_trace_that_no_viewer_opens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = tuple(Buffer(f"b{i}", 1, ((i, 1600),)) for i in range(1600))
    plan = plan_problem(Problem(buffers), packer="naive")
    picture = make_picture(plan)
    monkeypatch.setattr("lowtide.outputs.trace.EVENT_LIMIT", 1_280_000)
    with pytest.raises(UnsupportedError, match="1,280,800 events"):
        picture_to_trace(picture)


@few
@given(plans(), st.sampled_from([1, 24, 40, 80, 200]), st.booleans(), st.sampled_from([*WAYS, None]))
def test_the_terminal_is_never_too_narrow(plan: Plan, width: int, in_colour: bool, by: Any) -> None:
    lines = picture_to_lines(make_picture(plan), width=width, in_colour=in_colour, by=by)
    for line in lines:
        assert cell_len(line.plain) <= max(width, 24)
        assert "\x1b" not in line.plain
        assert in_colour or not line.spans


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_terminal_shows_when_buffers_live(width: int) -> None:
    problem = Problem((Buffer("first", 100, ((0, 5),), kind="input"), Buffer("second", 50, ((5, 10),))))
    lines = [
        t.plain for t in picture_to_lines(make_picture(plan_problem(problem)), width=width, in_colour=False)
    ]
    facts = " ".join(" ".join(lines[:2]).split())
    assert facts.startswith("arena 100 B = lower bound, live peak 100 B at step 0")
    columns = width - 11
    half = columns // 2
    bottom = next(line for line in lines if line.startswith("      0 B "))[10:]
    assert bottom == "▓" * half + "█" * (columns - half)
    live = next(line for line in lines if line.startswith("     live "))[10:]
    assert live == "█" * half + "▄" * (columns - half)
    assert "▓ input" in lines[-1]


def test_colours_in_the_terminal_are_those_of_the_legend() -> None:
    picture = make_picture(busy_plan())
    made = colour(picture, "kind")
    lines = picture_to_lines(picture, width=80, by="kind")
    used = {str(span.style) for line in lines for span in line.spans}
    for label, shade in zip(made.labels, made.dark, strict=True):
        assert any(shade in style for style in used), label


def test_columns_of_a_page_are_as_long_as_what_they_describe() -> None:
    plan = busy_plan(extra=50)
    data = page_data(make_picture(plan))
    assert {len(column) for column in data["buffers"].values()} == {len(plan.problem.buffers)}
    assert {len(made["groups"]) for made in data["colourings"]} == {len(plan.problem.buffers)}
    assert len(data["steps"]["start"]) == len(data["steps"]["name"])


@pytest.mark.parametrize(
    ("operator", "short"),
    [
        ("aten.conv2d.default", "conv2d"),
        ("aten::add.out", "add"),
        ("executorch_prim::et_view.default", "et_view"),
        ("while_loop", "while_loop"),
        (None, "no operator"),
    ],
)
def test_operators_go_by_their_names(operator: str | None, short: str) -> None:
    assert short_operator(operator) == short


def test_banks_have_lanes_of_their_own_with_their_names() -> None:
    problem = Problem((Buffer("a", 64, ((0, 2),)), Buffer("b", 640, ((0, 2),), kind="state")))
    memory = MemoryMap((Bank("fast", 64, 1), Bank("slow", 1 << 20, 2, read_cost=9.0)))
    picture = make_picture(lowtide.plan(problem, memory_map=memory))
    assert [arena.label for arena in picture.arenas] == ["bank fast", "bank slow"]
    # The slow bank is a thousand times as large as what is in it, which would be a line at its bottom.
    assert [(arena.capacity, arena.top) for arena in picture.arenas] == [(64, 64), (None, 640)]
    assert [arena["label"] for arena in page_data(picture)["arenas"]] == ["bank fast", "bank slow"]
    text = [line.plain for line in picture_to_lines(picture, width=60)]
    assert any("bank fast" in line for line in text)
