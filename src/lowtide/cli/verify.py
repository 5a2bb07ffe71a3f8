"""lowtide verify: is a plan right?"""

from __future__ import annotations

import typer

from lowtide.cli import options as o


def verify(
    file: o.File,
    plan_file: o.PlanFile,
    alignment: o.Alignment = "16",
    no_plan_inputs: o.NoPlanInputs = False,
    no_plan_outputs: o.NoPlanOutputs = False,
    no_plan_state: o.NoPlanState = False,
    reset_state: o.ResetState = False,
    pins: o.Pins = False,
    method: o.Method = None,
    level: o.Level = 0,
    in_place: o.InPlace = False,
    elide_copies: o.ElideCopies = False,
    fold_constants: o.FoldConstants = False,
    fold_limit: o.FoldLimit = None,
    reorder: o.Reorder = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Check PLAN.json against FILE: every byte is followed through the program, on every path.

    Give the options that the plan was made with. Exits 0 if the plan is right, 1 if it is not.

    [bold]Example[/]

      lowtide verify model.pt2 plan.json
    """
    from lowtide.api import load
    from lowtide.cli.screen import working
    from lowtide.formats.json.reading import read_plan
    from lowtide.verifier.checks import verify as check

    plan = read_plan(plan_file)
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
        fold_constants=fold_constants,
        fold_limit=fold_limit,
        reorder=reorder,
        level=level,
    )
    with working(f"reading {file}", quiet=quiet, verbose=verbose):
        loaded = load(file, request)
    with working(f"verifying {plan_file}", quiet=quiet, verbose=verbose):
        report = check(plan, loaded.runs if loaded.runs is not None else loaded.problem)
    if not quiet:
        how = "every byte followed through the program" if report.followed else "lifetimes against offsets"
        typer.echo(
            f"{plan_file}: right ({how}): {report.buffers:,} buffers, "
            f"{report.reuse_pairs:,} pairs reuse each other's bytes"
        )
