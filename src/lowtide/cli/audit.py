"""lowtide audit: is the memory plan of an existing .pte safe?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli import options as o

if TYPE_CHECKING:
    from lowtide.frontends.pte.auditing import Audit

PteFile = Annotated[
    str, typer.Argument(metavar="FILE.pte", show_default=False, help="An ExecuTorch program.")
]
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
    file: PteFile,
    alignment: Alignment = "16",
    imports: Imports = None,
    json: o.JsonOut = False,
    quiet: o.Quiet = False,
) -> None:
    """Look for tensors of FILE.pte that share bytes while both are needed, in every method, on every path.

    Exits 0 if the plan is safe and 1 if it is not. Each fault is shown with the instructions concerned, whose
    numbers are ExecuTorch's debug handles, and with a path that leads to it. Which way a branch goes is not
    looked at: a path that the model's own conditions exclude counts as well.

    [bold]Examples[/]

      lowtide audit model.pte

      lowtide audit model.pte --import my_operators --json
    """
    from lowtide.base.units import parse_size
    from lowtide.cli.screen import working
    from lowtide.frontends.pte import open_pte

    least = parse_size(alignment)
    with working(f"reading {file}", quiet=quiet):
        program = open_pte(file)
        import_modules(imports)
    with working(f"auditing {file}", quiet=quiet):
        from lowtide.executorch import audit as look

        found = look(program, alignment=least)
    if json:
        typer.echo(found.to_json(), nl=False)
    elif not quiet:
        show(found)
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


def show(found: Audit) -> None:
    """Every fault on a line of its own, then the verdict."""
    from lowtide.base.files import show_name
    from lowtide.outputs.wording import many

    for finding in found.findings:
        assumed = " (assuming the worst of an unknown operator)" if finding.assumed else ""
        typer.echo(f"  {show_name(finding.method)}: {finding.kind}: {finding.message}{assumed}")
    for note in found.notes:
        typer.echo(f"  note: {note}")
    looked = f"{many(len(found.methods), 'method')}, {many(found.tensors, 'planned tensor')}"
    if found.safe:
        typer.echo(f"{found.name}: safe: no two tensors share bytes while both are needed; {looked}")
    else:
        typer.echo(f"{found.name}: NOT SAFE: {many(len(found.findings), 'fault')}; {looked}")
