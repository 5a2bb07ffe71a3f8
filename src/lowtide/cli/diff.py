"""lowtide diff: what a change makes of the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli import options as o

if TYPE_CHECKING:
    from lowtide.report.difference import BufferChange, Difference

ROWS = 20
"""Buffers that are listed unless asked for all."""

Old = Annotated[str, typer.Argument(metavar="OLD", show_default=False, help="A plan or a model, as it was.")]
New = Annotated[str, typer.Argument(metavar="NEW", show_default=False, help="A plan or a model, as it is.")]


@o.with_groups()
def diff(
    old: Old,
    new: New,
    planned: o.Planned,
    searched: o.Searched,
    json: o.JsonOut = False,
    markdown: o.MarkdownOut = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Compare the memory of two plans or models: arenas, bounds, and the buffers that are not as they were.

    Plans are taken as they stand, and verified; anything else is planned first. Buffers are matched by what
    they are, so that a number that shifted in all names is no difference. The exit status is that of diff: 0
    if nothing differs, 1 if something does, 2 if there is trouble.

    [bold]Examples[/]

      lowtide diff old.json new.json

      lowtide diff old.json model.pt2 --markdown
    """
    from lowtide.base.errors import InputError
    from lowtide.cli.screen import planned_file
    from lowtide.report.difference import compare

    if json and markdown:
        raise InputError("--json and --markdown cannot share stdout: run the command twice")
    (first, before), (second, after) = (
        planned_file(file, planned, searched, quiet=quiet or json or markdown, verbose=verbose)
        for file in (old, new)
    )
    found = compare(before, after, (old, new), (first, second))
    if json:
        typer.echo(found.to_json(), nl=False)
    elif markdown:
        typer.echo(found.to_markdown(), nl=False)
    elif not quiet:
        _show(found, verbose)
    if found.differs:
        raise typer.Exit(1)


def _show(found: Difference, verbose: bool) -> None:
    from rich.markup import escape

    from lowtide.base.units import amount, many
    from lowtide.cli.screen import console
    from lowtide.cli.tables import Column, show_table

    out = console()
    change = found.new_bytes - found.old_bytes
    verdict = "as before" if not change else _signed(change)
    names = f"[bold]{escape(found.old)}[/] to [bold]{escape(found.new)}[/]"
    out.print(f"{names}: {found.old_bytes:,} to {amount(found.new_bytes)}, {verdict}")
    rows = []
    for arena in found.arenas:
        peaks = dict.fromkeys(peak.step for peak in (arena.old_peak, arena.new_peak) if peak is not None)
        rows.append(
            [
                str(arena.arena),
                _pair(arena.old_bytes, arena.new_bytes),
                _signed(arena.new_bytes - arena.old_bytes),
                _pair(arena.old_bound_bytes, arena.new_bound_bytes),
                escape(" to ".join(peaks)),
            ]
        )
    columns = [Column("arena"), Column("bytes"), Column(""), Column("lower bound"), Column("peak", text=True)]
    show_table(out, columns, rows)
    changes = found.changes if verbose else [c for c in found.changes if c.kind != "moved"][:ROWS]
    if changes:
        columns = [Column("change"), Column("bytes"), Column("offset"), Column("buffer", text=True)]
        show_table(out, columns, [_row(change) for change in changes])
    counts = {kind: sum(c.kind == kind for c in found.changes) for kind in ("came", "went", "grew", "shrank")}
    said = [f"{count:,} {kind}" for kind, count in counts.items() if count]
    moved = sum(c.kind == "moved" for c in found.changes)
    said += [f"{many(moved, 'buffer')} moved, {found.unchanged:,} unchanged"]
    out.print(", ".join(said) + ("" if len(changes) == len(found.changes) else "; --verbose lists them all"))


def _row(change: BufferChange) -> list[str]:
    from rich.markup import escape

    old, new = change.old, change.new
    name = change.name
    if old is not None and new is not None and old.name != new.name:
        name += f" (was {old.name})"
    made_by = " ".join(filter(None, [change.operator, change.source]))
    name = escape(name) + (f"\n[dim]{escape(made_by)}[/]" if made_by else "")
    if old is None or new is None:
        place = old or new
        assert place is not None
        return [change.kind, _signed(change.bytes), f"{place.offset:,}", name]
    return [change.kind, _pair(old.bytes, new.bytes), _pair(old.offset, new.offset), name]


def _pair(old: int, new: int) -> str:
    return f"{new:,}" if old == new else f"{old:,} to {new:,}"


def _signed(change: int) -> str:
    from lowtide.base.units import both

    if not change:
        return ""
    colour = "red" if change > 0 else "green"
    return f"[{colour}]{'+' if change > 0 else '-'}{both(abs(change))}[/]"
