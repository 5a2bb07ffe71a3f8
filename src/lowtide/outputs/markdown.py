"""Explanations and differences as Markdown, fit for a comment on a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lowtide.base.errors import InputError
from lowtide.base.units import amount, both, many
from lowtide.outputs.wording import (
    advice_sentence,
    arena_sentence,
    cost_text,
    peak_sentences,
    ram_row,
    ram_sentence,
    room_sentence,
    saving_sentence,
    share,
    waiting,
)
from lowtide.report.difference import Difference
from lowtide.report.findings import Explanation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lowtide.ir.device_memory import DeviceMemory
    from lowtide.report.difference import ArenaChange, BufferChange
    from lowtide.report.findings import Moment, Peak

ROWS = 15
"""Rows of a table before it is cut: a comment is read, not searched."""


def to_markdown(value: Explanation | Difference) -> str:
    """An explanation or a difference as Markdown, fit for a comment on a pull request.

    Raises:
        InputError: it is neither.
    """
    if isinstance(value, Explanation):
        return explanation_to_markdown(value)
    if isinstance(value, Difference):
        return difference_to_markdown(value)
    raise InputError(f"a {type(value).__name__} cannot be written as Markdown: pass a report")


def explanation_to_markdown(explanation: Explanation) -> str:
    """The peak, what is alive at it, and what would lower it."""
    lines = [f"### {code(explanation.name)}: live peak {amount(explanation.peak_bytes)}", ""]
    lines += [arena_sentence(explanation), ""]
    if explanation.banks:
        rows = [
            [code(b.name), both(b.bytes), both(b.capacity), both(b.accessed_bytes), cost_text(b.cost)]
            for b in explanation.banks
        ]
        head = ["bank", "bytes", "capacity", "accessed bytes", "cost"]
        lines += [*_table(head, rows, numbers={1, 2, 3, 4}), ""]
        lines += [f"- {escape(room_sentence(room))}" for room in explanation.more_room]
        lines += [""] if explanation.more_room else []
    for peak in explanation.peaks:
        lines += _peak(peak, alone=len(explanation.peaks) == 1)
    if explanation.advice:
        lines += ["**What would lower it**", ""]
        for advice in explanation.advice:
            most = "" if advice.exact else " at most"
            lines.append(f"- **-{both(advice.wins)}**{most}: {escape(advice_sentence(advice))}")
        lines.append("")
    if explanation.ram is not None:
        lines += _ram(explanation.ram)
    lines += ["<details><summary>What the arena holds, and what it does not</summary>", ""]
    rows = [
        [part.what, "yes" if part.counted else "no", _known(part.bytes), escape(part.remark)]
        for part in explanation.memory
    ]
    lines += [*_table(["memory", "in the arena", "bytes", ""], rows, numbers={2}), "", "</details>", ""]
    return "\n".join(lines)


def _ram(memory: DeviceMemory) -> Iterator[str]:
    yield f"**{escape(ram_sentence(memory))}**"
    yield ""
    rows = [[escape(cell) for cell in ram_row(memory, part)] for part in memory.parts]
    yield from _table(["pool", "memory", "bytes", "share", ""], rows, numbers={2, 3})
    yield ""
    said = [*map(saving_sentence, memory.savings), *memory.notes]
    said += [f"{name}={size}" for name, size in memory.settings]
    yield from (f"- {escape(sentence)}" for sentence in said)
    yield ""


def _peak(peak: Peak, *, alone: bool) -> Iterator[str]:
    arena = "" if alone else f"Arena {peak.arena}: {amount(peak.bytes)}, "
    yield f"{arena}{'At' if alone else 'at'} {_where(peak.at)}. {escape(' '.join(peak_sentences(peak)))}"
    yield ""
    rows = [
        [
            both(alive.bytes),
            share(alive.bytes, peak.bytes),
            code(alive.name),
            code(alive.operator or alive.kind),
            escape(alive.source or ""),
            waiting(alive, peak.at.tick),
        ]
        for alive in peak.alive
    ]
    yield from _table(["bytes", "share", "buffer", "operator", "source", "steps"], rows, numbers={0, 1})
    yield ""


def difference_to_markdown(difference: Difference) -> str:
    """Arenas first, then the buffers."""
    before, after = difference.old_bytes, difference.new_bytes
    if before == after:
        verdict = f"{amount(after)}, as before"
    else:
        grown = after - before
        change = f"{'+' if grown > 0 else '-'}{both(abs(grown))}"
        verdict = f"{before:,} → {amount(after)}, **{change}**"
    lines = [f"### {code(difference.old)} → {code(difference.new)}: {verdict}", ""]
    rows = [_arena(arena) for arena in difference.arenas]
    head = ["arena", "bytes", "", "lower bound", "peak"]
    lines += [*_table(head, rows, numbers={1, 2, 3}), ""]
    moved = sum(change.kind == "moved" for change in difference.changes)
    others = [change for change in difference.changes if change.kind != "moved"]
    if others:
        head = ["", "buffer", "bytes", "operator", "source"]
        lines += [*_table(head, [_change(change) for change in others], numbers={2}), ""]
    lines += [f"{many(moved, 'buffer')} moved, {difference.unchanged:,} unchanged.", ""]
    return "\n".join(lines)


def _arena(arena: ArenaChange) -> list[str]:
    return [
        str(arena.arena),
        _pair(arena.old_bytes, arena.new_bytes),
        f"{arena.new_bytes - arena.old_bytes:+,}",
        _pair(arena.old_bound_bytes, arena.new_bound_bytes),
        _moments(arena.old_peak, arena.new_peak),
    ]


def _change(change: BufferChange) -> list[str]:
    old, new = change.old, change.new
    name = code(change.name)
    if old is not None and new is not None and old.name != new.name:
        name += f" (was {code(old.name)})"
    sizes = _pair(old.bytes, new.bytes) if old and new else f"{change.bytes:+,}"
    return [change.kind, name, sizes, code(change.operator or ""), escape(change.source or "")]


def _pair(old: int, new: int) -> str:
    return both(new) if old == new else f"{old:,} → {both(new)}"


def _moments(old: Moment | None, new: Moment | None) -> str:
    if old is None or new is None or old.step == new.step:
        moment = new or old
        return "" if moment is None else code(moment.step)
    return f"{code(old.step)} → {code(new.step)}"


def _where(moment: Moment) -> str:
    return code(moment.step) + (f", {escape(moment.source)}" if moment.source else "")


def _known(size: int | None) -> str:
    return "not told" if size is None else both(size)


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Iterable[int] = ()
) -> Iterator[str]:
    """A table of at most ``ROWS`` rows, numbers to the right."""
    right = set(numbers)
    yield f"| {' | '.join(head)} |"
    yield "|" + "|".join("---:" if i in right else "---" for i in range(len(head))) + "|"
    for row in rows[:ROWS]:
        yield f"| {' | '.join(row)} |"
    if len(rows) > ROWS:
        yield ""
        yield f"and {len(rows) - ROWS:,} more"


def code(text: str) -> str:
    """A code span that holds whatever characters a name has, also in a cell of a table."""
    shown = " ".join(text.split()).replace("|", "\\|")
    if not shown:
        return ""
    longest = max(map(len, re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if longest else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def escape(text: str) -> str:
    """Text in which no character means anything to Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(text.split()))
