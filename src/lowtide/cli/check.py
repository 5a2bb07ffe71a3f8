"""lowtide check: does the arena keep its budget?"""

from __future__ import annotations

import typer

from lowtide.base.constants import DEFAULT_TIMEOUT
from lowtide.cli import options as o


def check(
    file: o.File,
    max_arena: o.MaxArena,
    hierarchy: o.Hierarchy = "joint",
    packer: o.Packer = "auto",
    alignment: o.Alignment = "16",
    timeout: o.Timeout = DEFAULT_TIMEOUT,
    no_plan_inputs: o.NoPlanInputs = False,
    no_plan_outputs: o.NoPlanOutputs = False,
    no_plan_state: o.NoPlanState = False,
    reset_state: o.ResetState = False,
    pins: o.Pins = False,
    level: o.Level = 0,
    in_place: o.InPlace = False,
    elide_copies: o.ElideCopies = False,
    method: o.Method = None,
    json: o.JsonOut = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Hold the arena of FILE against a budget: one line, and exit 0 if it is kept, 1 if it is not.

    A plan is taken as it stands, and verified; anything else is planned first.

    [bold]Examples[/]

      lowtide check model.pt2 --max-arena 256KiB

      lowtide check plan.json --max-arena 1=256KiB
    """
    from lowtide.cli.screen import planned
    from lowtide.outputs.wording import budget_line
    from lowtide.report.budget import check_budget

    limits = o.parse_limits(max_arena, "budget")
    request = o.request(
        alignment,
        no_plan_inputs,
        no_plan_outputs,
        no_plan_state,
        reset_state,
        pins,
        method=method,
        in_place=in_place,
        elide_copies=elide_copies,
        level=level,
    )
    _, plan = planned(
        file,
        request,
        packer=packer,
        hierarchy=hierarchy,
        timeout=timeout or None,
        quiet=quiet or json,
        verbose=verbose,
    )
    budgets = check_budget(plan, limits)
    if json:
        from lowtide.outputs.json import budgets_to_json

        typer.echo(budgets_to_json(file, budgets), nl=False)
    elif not quiet:
        typer.echo(budget_line(file, budgets))
    if not all(budget.is_kept for budget in budgets):
        raise typer.Exit(1)
