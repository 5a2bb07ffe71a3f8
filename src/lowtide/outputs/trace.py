"""A plan as Chrome trace-event JSON, laid out as ExecuTorch's own memory inspector lays it out.

ExecuTorch's ``generate_memory_trace`` gives every arena a process, every step a thread, and every buffer
that is alive at the step an event whose *time is bytes*: it begins at the offset and lasts for the size.
The same here, so that what reads the one reads the other; beyond it, processes and threads have names,
and events say offset, lifetime, kind, type and shape. Perfetto and ``chrome://tracing`` open it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lowtide.base.errors import UnsupportedError

if TYPE_CHECKING:
    from lowtide.ir.problem import Buffer
    from lowtide.outputs.picture import ArenaView, Picture, PictureStep

EVENT_LIMIT = 2_000_000
"""Events for every buffer at every step multiply; viewers give up earlier than this."""


def picture_to_trace(picture: Picture) -> str:
    """The trace as JSON text, an event a line.

    Raises:
        UnsupportedError: it would have more than two million events.
    """
    alive = [_alive_by_step(picture, arena) for arena in picture.arenas]
    count = sum(len(at) for by_step in alive for at in by_step)
    if count > EVENT_LIMIT:
        raise UnsupportedError(
            f"{picture.title}: its trace would have {count:,} events, one for each buffer at each step, and "
            f"no viewer opens more than {EVENT_LIMIT:,}: use the HTML page"
        )
    lines: list[str] = []
    for arena, by_step in zip(picture.arenas, alive, strict=True):
        # Unlike pictures, a trace has the memory id of an arena that is alone, as ExecuTorch's traces do.
        name = f"arena {arena.id}" if arena.bank is None else arena.label
        lines.append(_named("process_name", name, arena.id))
        for thread, (step, rectangles) in enumerate(zip(picture.steps, by_step, strict=True)):
            lines.append(_named("thread_name", _label(step), arena.id, thread))
            lines.append(json.dumps(_metadata("thread_sort_index", arena.id, thread, sort_index=thread)))
            for position in rectangles:
                buffer, offset = picture.plan.problem.buffers[position], picture.plan.offsets[position]
                lines.append(json.dumps(_event(buffer, offset, thread)))
    return '{"traceEvents": [\n' + ",\n".join(lines) + "\n]}\n"


def _alive_by_step(picture: Picture, arena: ArenaView) -> list[list[int]]:
    """Positions of the buffers alive at each step, by offset."""
    found: list[list[int]] = [[] for _ in picture.steps]
    for rectangle in sorted(arena.rectangles, key=lambda r: (r.offset, r.buffer)):
        first = picture.step_at(rectangle.start)
        for step in range(first, len(picture.steps)):
            if picture.steps[step].start >= rectangle.stop:
                break
            found[step].append(rectangle.buffer)
    return found


def _event(buffer: Buffer, offset: int, thread: int) -> dict[str, Any]:
    return {
        "name": buffer.label,
        "cat": "memory_allocation",
        "ph": "X",
        "ts": offset,
        "dur": buffer.size,
        "pid": buffer.arena,
        "tid": thread,
        "args": {
            "op_name": buffer.operator or "",
            "Memory ID": buffer.arena,
            "fqn": buffer.region,
            "source": buffer.source or "",
            "bytes": buffer.size,
            "offset": offset,
            "lifetime": buffer.lifetime,
            "kind": buffer.kind,
            "dtype": buffer.dtype,
            "shape": buffer.shape,
        },
    }


def _label(step: PictureStep) -> str:
    ticks = f"{step.start}" if step.stop - step.start == 1 else f"{step.start} to {step.stop - 1}"
    return f"{ticks}: {step.name}" if step.name else ticks


def _metadata(what: str, process: int, thread: int = 0, **args: object) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": args}


def _named(what: str, name: str, process: int, thread: int = 0) -> str:
    return json.dumps(_metadata(what, process, thread, name=name))
