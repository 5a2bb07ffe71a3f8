"""lowtide audit: is the memory plan in an existing file safe?"""

from __future__ import annotations

from typing import Annotated

import typer

from lowtide.cli import options as o

AuditedFile = Annotated[str, typer.Argument(metavar="FILE", show_default=False, help="A .pte or a .tflite.")]
Alignment = Annotated[
    str,
    typer.Option("--alignment", metavar="BYTES", help="What every offset must be a multiple of."),
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        show_default=False,
        help="Python module that declares operators of your own; may be repeated.",
    ),
]


def audit(
    file: AuditedFile,
    alignment: Alignment = "16",
    imports: Imports = None,
    json: o.JsonOut = False,
    quiet: o.Quiet = False,
) -> None:
    """Look for tensors of FILE that share bytes while both are needed, in every method, on every path.

    Exits 0 if the plan is safe and 1 if it is not. Each fault is shown with the steps concerned (in a .pte
    instructions, whose numbers are ExecuTorch's debug handles), and with a path that leads to it. Which
    way a branch goes is not looked at: a path that the model's own conditions exclude counts as well.

    [bold]Examples[/]

      lowtide audit model.pte

      lowtide audit model.pte --import my_operators --json

      lowtide audit model.tflite
    """
    from lowtide.api import judge_of
    from lowtide.base.units import parse_size
    from lowtide.cli.screen import working
    from lowtide.sources import open_source

    least = parse_size(alignment)
    with working(f"reading {file}", quiet=quiet):
        value, front_end = open_source(file)
        judge = judge_of(front_end)
        import_modules(imports)
    with working(f"auditing {file}", quiet=quiet):
        found = judge.judge(value, alignment=least)
    if json:
        typer.echo(found.to_json(), nl=False)
    elif not quiet:
        for line in found.lines():
            typer.echo(line)
    if not found.safe:
        raise typer.Exit(1)


def import_modules(names: list[str] | None) -> None:
    """Import modules for the operators that they declare.

    Raises:
        InputError: one cannot be imported.
    """
    import importlib

    from lowtide.base.errors import InputError

    name = ""
    try:
        for name in names or ():
            importlib.import_module(name)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"--import {name}: cannot be imported: {reason}") from None
