"""lowtide repack: the same .pte with a better memory plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.base.constants import DEFAULT_TIMEOUT
from lowtide.cli import options as o
from lowtide.cli.audit import Imports, PteFile, import_modules

if TYPE_CHECKING:
    from lowtide.frontends.pte.repacking import Repacked

Out = Annotated[
    str, typer.Option("--output", "-o", metavar="OUT.pte", show_default=False, help="Where to write it.")
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


def repack(
    file: PteFile,
    out: Out,
    packer: o.Packer = "auto",
    timeout: o.Timeout = DEFAULT_TIMEOUT,
    alignment: Alignment = None,
    seed: o.Seed = 0,
    threads: o.Threads = 0,
    imports: Imports = None,
    in_place: o.InPlace = False,
    elide_copies: o.ElideCopies = False,
    quiet: o.Quiet = False,
) -> None:
    """Write FILE.pte again with other offsets and smaller arenas, and nothing else changed.

    The new file is audited before it is written. No arena of a safe file grows; an unsafe file becomes a safe
    one, or is refused with the reason. If nothing can be improved, OUT.pte is FILE.pte.

    [bold]Example[/]

      lowtide repack model.pte -o smaller.pte
    """
    from lowtide.base.files import write_atomically
    from lowtide.base.units import parse_size
    from lowtide.cli.screen import working
    from lowtide.frontends.pte import open_pte

    unit = None if alignment is None else parse_size(alignment)
    with working(f"reading {file}", quiet=quiet):
        program = open_pte(file)
        import_modules(imports)
    with working(f"planning {file}", quiet=quiet):
        from lowtide.executorch import repack as plan_again

        found = plan_again(
            program,
            packer=packer,
            timeout=timeout or None,
            seed=seed,
            threads=threads,
            alignment=unit,
            in_place=in_place,
            elide_copies=elide_copies,
        )
    write_atomically(out, found.data)
    if not quiet:
        show(found, file, out)


def show(found: Repacked, name: str, out: str) -> None:
    """A row for each arena, before and after."""
    from rich.markup import escape

    from lowtide.cli.screen import console, ratio
    from lowtide.cli.tables import Column, show_table
    from lowtide.outputs.wording import both, many

    screen = console()
    if found.before.findings:
        screen.print(f"{escape(name)}: was not safe: {many(len(found.before.findings), 'fault')}")
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
    for note in found.after.notes:
        screen.print(f"note: {escape(note)}")
    what = "audited: safe" if found.changed else "nothing to improve: the file as it was"
    screen.print(f"{escape(out)}: {what}. {len(found.data):,} bytes, {found.seconds:.3f} s.")
