"""lowtide check: does the arena keep its budget?"""

from __future__ import annotations

import typer

from lowtide.cli import options as o


@o.with_groups()
def check(
    file: o.File,
    planned: o.Planned,
    searched: o.Searched,
    max_arena: o.MaxArena = None,
    max_ram: o.MaxRam = None,
    json: o.JsonOut = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Hold the arena of FILE, or all RAM, against a budget: one line, and exit 0 if it is kept, 1 if not.

    A plan is taken as it stands, and verified; anything else is planned first. What FILE's format has to say
    of the arena follows below the line.

    [bold]Examples[/]

      lowtide check model.pt2 --max-arena 256KiB

      lowtide check plan.json --max-arena 1=256KiB

      lowtide check model.pte --device cortex-m --max-ram 64KiB
    """
    from lowtide.base.errors import InputError
    from lowtide.base.units import parse_size
    from lowtide.cli.screen import planned_file
    from lowtide.outputs.wording import budget_line
    from lowtide.report.budget import check_budget
    from lowtide.report.ram import check_ram

    if not max_arena and max_ram is None:
        raise InputError("there is nothing to check: give --max-arena or --max-ram")
    limits = o.parse_limits(max_arena or [], "budget")
    ram = None if max_ram is None else parse_size(max_ram)
    source, plan = planned_file(file, planned, searched, quiet=quiet or json, verbose=verbose)
    budgets = check_budget(plan, limits)
    if ram is not None:
        budgets = (*budgets, check_ram(source, plan, ram))
    if json:
        from lowtide.outputs.json import budgets_to_json

        typer.echo(budgets_to_json(file, budgets), nl=False)
    elif not quiet:
        typer.echo(budget_line(file, budgets))
        for remark in source.remarks:
            typer.echo(remark)
    if not all(budget.is_kept for budget in budgets):
        raise typer.Exit(1)
