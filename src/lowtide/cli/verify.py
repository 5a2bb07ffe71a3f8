"""lowtide verify: is a plan right?"""

from __future__ import annotations

import typer

from lowtide.cli import options as o


@o.with_groups()
def verify(
    file: o.File,
    plan_file: o.PlanFile,
    planned: o.Planned,
    searched: o.Searched,  # makes no difference, but belongs to the options that lowtide plan had
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Check PLAN.json against FILE: every byte is followed through the program, on every path.

    Give the options that the plan was made with; how it was searched makes no difference here.
    Exits 0 if the plan is right, 1 if it is not.

    [bold]Example[/]

      lowtide verify model.pt2 plan.json
    """
    from lowtide.cli.screen import working
    from lowtide.formats.json.reading import read_plan
    from lowtide.sources import load
    from lowtide.verifier.banks import check_map
    from lowtide.verifier.checks import verify as check

    plan = read_plan(plan_file)
    request = planned.request()
    with working(f"reading {file}", quiet=quiet, verbose=verbose):
        source = load(file, request)
    with working(f"verifying {plan_file}", quiet=quiet, verbose=verbose):
        if request.memory_map is not None:
            check_map(plan, request.memory_map, source.points)
        report = check(plan, source.runs if source.runs is not None else source.problem)
    if not quiet:
        how = "every byte followed through the program" if report.followed else "lifetimes against offsets"
        typer.echo(
            f"{plan_file}: right ({how}): {report.buffers:,} buffers, "
            f"{report.reuse_pairs:,} pairs reuse each other's bytes"
        )
