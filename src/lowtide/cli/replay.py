"""lowtide replay: run a program in its planned arena."""

from __future__ import annotations

from typing import Annotated

import typer

from lowtide.base.errors import InputError
from lowtide.cli import options as o

OptionalPlan = Annotated[
    str | None,
    typer.Option(
        "--plan", metavar="PLAN.json", show_default=False, help="The plan to run in; made if not given."
    ),
]
Times = Annotated[int, typer.Option("--times", min=1, help="Runs in a row in the same arena.")]


@o.with_groups()
def replay(
    file: o.File,
    planned: o.Planned,
    searched: o.Searched,
    plan_file: OptionalPlan = None,
    times: Times = 2,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Run FILE.pt2 on its example inputs with every tensor at its planned offset; compare every bit.

    Dead bytes are poisoned, and the reference is the same program with separate storage. Exits 1 at the first
    step that reads a wrong byte, 2 if the program itself fails on its inputs.

    [bold]Examples[/]

      lowtide replay model.pt2

      lowtide replay model.pt2 --plan plan.json --times 3
    """
    from lowtide.cli.screen import counting, search, working
    from lowtide.sources import load

    request = planned.request()
    with working(f"reading {file}", quiet=quiet, verbose=verbose):
        source = load(file, request)
    if source.program is None:
        raise InputError(f"{file} holds no program to run: replay takes a .pt2 that torch.export saved")
    if plan_file is not None:
        from lowtide.formats.json.reading import read_plan

        plan = read_plan(plan_file)
    else:
        plan = search(source, searched, quiet=quiet, verbose=verbose)
    from lowtide.replay import replay as run

    with counting("replaying", quiet, verbose=verbose) as progress:
        report = run(source, plan, times=times, progress=progress)
    if quiet:
        return
    typer.echo(
        f"{file}: {report.runs} runs in an arena of {plan.arena_bytes:,} bytes, {report.points:,} points, "
        f"{report.outputs} outputs: every bit as with separate storage"
    )
    for output in report.undefined:
        typer.echo(f"  output {output}: undefined bytes, which the program makes and never writes")
    for difference in report.eager_differences:
        typer.echo(f"  {difference}")
    if not report.eager_differences:
        typer.echo("  and as eager PyTorch computes it")
