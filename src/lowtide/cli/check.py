"""lowtide check: does the arena keep its budget?"""

from __future__ import annotations

import typer

from lowtide.cli import options as o


@o.with_groups()
def check(
    file: o.File,
    max_arena: o.MaxArena,
    planned: o.Planned,
    searched: o.Searched,
    json: o.JsonOut = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Hold the arena of FILE against a budget: one line, and exit 0 if it is kept, 1 if it is not.

    A plan is taken as it stands, and verified; anything else is planned first. What FILE's format has to say
    of the arena follows below the line.

    [bold]Examples[/]

      lowtide check model.pt2 --max-arena 256KiB

      lowtide check plan.json --max-arena 1=256KiB
    """
    from lowtide.cli.screen import planned_file
    from lowtide.outputs.wording import budget_line
    from lowtide.report.budget import check_budget

    limits = o.parse_limits(max_arena, "budget")
    source, plan = planned_file(file, planned, searched, quiet=quiet or json, verbose=verbose)
    budgets = check_budget(plan, limits)
    if json:
        from lowtide.outputs.json import budgets_to_json

        typer.echo(budgets_to_json(file, budgets), nl=False)
    elif not quiet:
        typer.echo(budget_line(file, budgets))
        for remark in source.remarks:
            typer.echo(remark)
    if not all(budget.is_kept for budget in budgets):
        raise typer.Exit(1)
