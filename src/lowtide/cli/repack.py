"""lowtide repack: the same file with a better memory plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli import options as o
from lowtide.cli.audit import AuditedFile, Imports, import_modules

if TYPE_CHECKING:
    from lowtide.frontends.front_end import Rewritten

Out = Annotated[
    str, typer.Option("--output", "-o", metavar="OUT", show_default=False, help="Where to write it.")
]
Alignment = Annotated[
    str | None,
    typer.Option(
        "--alignment",
        metavar="BYTES",
        show_default=False,
        help="Of every offset; if not given 16, or what the file's own plan shows to be more.",
    ),
]


@o.with_groups("alignment", "hierarchy")
def repack(
    file: AuditedFile,
    out: Out,
    planned: o.Planned,
    searched: o.Searched,
    alignment: Alignment = None,
    imports: Imports = None,
    quiet: o.Quiet = False,
) -> None:
    """Write FILE, a .pte or a .tflite, again with other offsets and smaller arenas, and nothing else changed.

    The new file is audited before it is written. No arena of a safe file grows; an unsafe file becomes a safe
    one, or is refused with the reason. With a memory map the tensors of a .pte go to its banks, so that
    accesses cost least: memory ids change. If nothing can be improved, OUT is FILE.

    [bold]Examples[/]

      lowtide repack model.pte -o smaller.pte

      lowtide repack model.tflite -o smaller.tflite -O2

      lowtide repack model.pte -o banked.pte --memory-map board.toml
    """
    from lowtide.api import rewriter_of
    from lowtide.base.files import write_atomically
    from lowtide.base.units import parse_size
    from lowtide.cli.screen import searching, working
    from lowtide.sources import open_source

    unit = None if alignment is None else parse_size(alignment)
    request = planned.request()
    with working(f"reading {file}", quiet=quiet):
        value, front_end = open_source(file, request)
        rewriter = rewriter_of(front_end)
        import_modules(imports)
    with searching(quiet) as progress:
        found = rewriter.rewrite(
            value, request, alignment=unit, packer=searched.packer, options=searched.options(progress)
        )
    write_atomically(out, found.data)
    if not quiet:
        show(found, file, out)


def show(found: Rewritten, name: str, out: str) -> None:
    """A row for each arena, before and after."""
    from rich.markup import escape

    from lowtide.base.units import both, many
    from lowtide.cli.screen import console, cost_line, ratio, show_banks
    from lowtide.cli.tables import Column, show_table
    from lowtide.report.banks import bank_shares

    screen = console()
    if found.faults_before:
        screen.print(f"{escape(name)}: was not safe: {many(found.faults_before, 'fault')}")
    rows = [
        [
            escape(arena.method),
            str(arena.memory),
            both(arena.before),
            both(arena.after),
            both(arena.lower_bound),
            ratio(arena.after, arena.lower_bound),
            escape(arena.reason),
        ]
        for arena in found.arenas
    ]
    titles = ("arena", "before", "after", "lower bound", "ratio")
    columns = [Column("method", text=True), *(Column(t) for t in titles), Column("unchanged", text=True)]
    show_table(screen, columns, rows)
    for method, plan in found.plans.items():
        screen.print(f"\n[bold]{escape(method)}[/]")
        show_banks(bank_shares(plan), screen)
        screen.print(cost_line(plan))
    for note in found.notes:
        screen.print(f"note: {escape(note)}")
    what = "audited: safe" if found.changed else "nothing to improve: the file as it was"
    screen.print(f"{escape(out)}: {what}. {len(found.data):,} bytes, {found.seconds:.3f} s.")
