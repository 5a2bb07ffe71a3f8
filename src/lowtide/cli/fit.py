"""lowtide fit: make a program fit its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli import options as o

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from lowtide.fitting import Fitted

FitFile = Annotated[
    str, typer.Argument(metavar="FILE.pt2", show_default=False, help="A .pt2 that torch.export.save wrote.")
]
Out = Annotated[
    str | None,
    typer.Option(
        "-o", "--out", metavar="OUT.pt2", show_default=False, help="Where to write the fitted program."
    ),
]
MaxArena = Annotated[
    str | None,
    typer.Option(
        "--max-arena",
        metavar="SIZE",
        show_default=False,
        help="Bytes to fit into, such as 256KiB; the smallest arena if not given.",
    ),
]
MaxMacs = Annotated[
    float, typer.Option("--max-macs", metavar="TIMES", help="Multiply-adds allowed, over the program's.")
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0.0, help="Time that search may take; 0: no limit."),
]
RuntimeName = Annotated[
    str | None,
    typer.Option(
        "--runtime",
        metavar="NAME",
        show_default=False,
        help="Whose kernels and whose arena: executorch, or pytorch; executorch where it is installed.",
    ),
]
Front = Annotated[
    bool, typer.Option("--front", help="Show the whole trade, live bytes against multiply-adds, as a table.")
]
FrontPicture = Annotated[
    str | None,
    typer.Option(
        "--front-picture",
        metavar="PICTURE",
        show_default=False,
        help="Draw the trade, as a .png or .svg.",
    ),
]
AllowRounding = Annotated[
    bool, typer.Option("--allow-rounding", help="Allow changes whose outputs may round differently.")
]


def fit(
    file: FitFile,
    out: Out = None,
    max_arena: MaxArena = None,
    max_macs: MaxMacs = 1.10,
    timeout: Timeout = 60.0,
    runtime: RuntimeName = None,
    no_plan_inputs: o.NoPlanInputs = False,
    no_plan_outputs: o.NoPlanOutputs = False,
    fold_limit: o.FoldLimit = "64KiB",
    allow_rounding: AllowRounding = False,
    front: Front = False,
    front_picture: FrontPicture = None,
    json: o.JsonOut = False,
    quiet: o.Quiet = False,
) -> None:
    """Find the cheapest way to make FILE fit its memory, and write the changed program.

    What costs nothing comes first: packing, outputs over inputs that die, copies left out, constants folded,
    another order. Then chains of operators are run part by part, which may compute some values twice. The
    outputs keep every bit; original and fitted program are run and compared.

    Exits 0 if the program fits, 1 if not: then the smallest arena that was reached is told, and written.

    [bold]Examples[/]

      lowtide fit model.pt2 --max-arena 256KiB -o fitted.pt2

      lowtide fit model.pt2 --max-macs 1.05 -o fitted.pt2 --json

      lowtide fit model.pt2 --runtime pytorch --front --front-picture front.svg
    """
    from lowtide.base.files import write_all_atomically
    from lowtide.base.units import parse_size
    from lowtide.cli.screen import trying
    from lowtide.fitting import fit as run

    draw = _drawer(front_picture)
    limit = None if max_arena is None else parse_size(max_arena)
    _require_writable(out)
    with trying(f"reading {file}", quiet or json) as progress:
        found = run(
            file,
            max_arena=limit,
            max_macs=max_macs,
            timeout=timeout or None,
            runtime=runtime,
            plan_inputs=not no_plan_inputs,
            plan_outputs=not no_plan_outputs,
            fold_limit=None if fold_limit is None else parse_size(fold_limit),
            allow_rounding=allow_rounding,
            trade=front or front_picture is not None,
            progress=progress,
        )
    written: list[tuple[str, str | bytes]] = []
    if out is not None:
        written.append((out, _content(found, file)))
    if front_picture is not None:
        written.append((front_picture, draw(found)))
    write_all_atomically(written)
    if json:
        from lowtide.outputs.json import fitted_to_json

        typer.echo(fitted_to_json(found, file), nl=False)
    elif not quiet:
        _show(found, file, out, front)
    if found.interrupted:
        typer.echo("lowtide: interrupted: this is the best that was found until then", err=True)
    if not found.fits:
        raise typer.Exit(1)


def _require_writable(out: str | None) -> None:
    """Refuse an output that cannot be written before the search, which may take a minute.

    Raises:
        InputError: its folder is not there, or it is one.
    """
    import os

    from lowtide.base.errors import InputError
    from lowtide.base.files import show_path

    if out is None:
        return
    if os.path.isdir(out):
        raise InputError(f"{show_path(out)}: is a directory: name a file in it")
    folder = os.path.dirname(os.path.realpath(out))
    if not os.path.isdir(folder):
        raise InputError(f"{show_path(out)}: cannot be written: there is no folder {show_path(folder)}")
    target = out if os.path.exists(out) else folder
    if not os.access(target, os.W_OK):
        raise InputError(f"{show_path(out)}: cannot be written: {show_path(target)} is write-protected")


def _drawer(picture: str | None) -> Callable[[Fitted], str | bytes]:
    """What draws the trade, by the ending of the file.

    Raises:
        InputError: it has another ending.
    """
    from lowtide.base.errors import InputError

    if picture is not None and not picture.lower().endswith((".png", ".svg")):
        raise InputError(f"--front-picture {picture!r}: write a .png or a .svg")

    def draw(found: Fitted) -> str | bytes:
        from lowtide.outputs.picture.front import front_to_png, front_to_svg

        assert picture is not None
        return front_to_png(found) if picture.lower().endswith(".png") else front_to_svg(found)

    return draw


def _content(found: Fitted, file: str) -> bytes:
    """The fitted program as torch.export.save writes it, complete before anything is replaced.

    A program in which nothing had to change is the file that was given, byte for byte.
    """
    import io
    from pathlib import Path

    if not found.changed:
        return Path(file).read_bytes()
    import torch

    content = io.BytesIO()
    torch.export.save(found.program, content)
    return content.getvalue()


def _show(found: Fitted, name: str, out: str | None, front: bool) -> None:
    from rich.markup import escape

    from lowtide.cli.screen import console
    from lowtide.outputs import fit_wording as words

    screen = console()
    screen.print(f"[bold]{escape(name)}[/]: {words.outcome(found)}")
    _show_steps(found, screen)
    for line in words.sentences(found):
        screen.print(escape(line))
    if front:
        _show_front(found, screen)
    if out is not None:
        what = "the fitted program" if found.changed else "the program as it was"
        screen.print(f"{escape(out)}: {what}.")


def _show_steps(found: Fitted, screen: Console) -> None:
    from rich.markup import escape

    from lowtide.base.units import both
    from lowtide.cli.tables import Column, show_table
    from lowtide.outputs.fit_wording import KINDS, part_sentence

    rows = [["as it was", both(found.arena_before), "", "", ""]]
    for step in found.steps:
        macs = f"+{step.macs:,}" if step.macs > 0 else f"{step.macs:,}" if step.macs else ""
        file = f"{step.file_bytes:+,}" if step.file_bytes else ""
        what = KINDS[step.kind] + (f": {escape(step.remark)}" if step.remark else "")
        rows.append([what, both(step.arena_bytes), both(step.wins), macs, file])
    titles = ("arena", "won", "multiply-adds", "constants")
    show_table(screen, [Column("", text=True), *(Column(title) for title in titles)], rows)
    for step in found.steps:
        for part in step.parts:
            screen.print(escape(f"  {part_sentence(part)}"))


def _show_front(found: Fitted, screen: Console) -> None:
    from lowtide.base.units import both
    from lowtide.cli.tables import Column, show_table
    from lowtide.outputs.fit_wording import trade

    rows = [
        [both(size), f"{macs:,}", f"{macs / found.macs_before:.3f}" if found.macs_before else "-"]
        for size, macs in trade(found)
    ]
    titles = ("live bytes", "multiply-adds", "of the program's")
    show_table(screen, [Column(title) for title in titles], rows)
