"""lowtide plan: the main job."""

from __future__ import annotations

from typing import Annotated

import typer

from lowtide.cli import options as o
from lowtide.constants import DEFAULT_TIMEOUT

JsonOut = Annotated[
    str | None,
    typer.Option("--json", metavar="OUT|-", show_default=False, help="Write the plan as JSON; - for stdout."),
]
CsvOut = Annotated[
    str | None,
    typer.Option(
        "--csv", metavar="OUT|-", show_default=False, help="Write buffers and offsets as CSV; - for stdout."
    ),
]


def plan(
    file: o.File,
    hierarchy: o.Hierarchy = "joint",
    packer: o.Packer = "auto",
    alignment: o.Alignment = "16",
    timeout: o.Timeout = DEFAULT_TIMEOUT,
    capacity: o.Capacity = None,
    no_plan_inputs: o.NoPlanInputs = False,
    no_plan_outputs: o.NoPlanOutputs = False,
    no_plan_state: o.NoPlanState = False,
    reset_state: o.ResetState = False,
    pins: o.Pins = False,
    seed: o.Seed = 0,
    threads: o.Threads = 0,
    json: JsonOut = None,
    csv: CsvOut = None,
    quiet: o.Quiet = False,
) -> None:
    """Give every buffer of FILE an offset, check the plan, and say how small the arena is.

    [bold]Examples[/]

      lowtide plan model.pt2

      lowtide plan model.pt2 --no-plan-inputs --json plan.json

      lowtide plan buffers.csv --capacity 1MiB --csv offsets.csv

    Ctrl-C ends the search, not the program: the best plan found until then is checked, written and shown.
    """
    from typing import cast

    from lowtide.api import load
    from lowtide.cli.screen import searching, show_plan
    from lowtide.errors import InputError
    from lowtide.files import write_all_atomically
    from lowtide.hierarchy import Hierarchy
    from lowtide.pack.registry import Options
    from lowtide.planner import plan_problem
    from lowtide.verifier import verify

    if json == csv == "-":
        raise InputError("--json - and --csv - cannot share stdout: write one of them to a file")
    request = o.request(
        alignment, no_plan_inputs, no_plan_outputs, no_plan_state, reset_state, pins, capacity
    )
    loaded = load(file, request)
    with searching(quiet) as progress:
        found = plan_problem(
            loaded.problem,
            packer=packer,
            hierarchy=cast(Hierarchy, hierarchy),
            options=Options(timeout=timeout or None, seed=seed, threads=threads, progress=progress),
        )
    report = verify(found, loaded.program)  # nothing leaves before it has been checked
    written: list[tuple[str, str]] = []
    if json is not None:
        from lowtide.outputs.json import plan_to_json

        written.append((json, plan_to_json(found)))
    if csv is not None:
        from lowtide.outputs.csv import plan_to_csv

        written.append((csv, plan_to_csv(found)))
    write_all_atomically([(path, text) for path, text in written if path != "-"])
    for path, text in written:
        if path == "-":
            typer.echo(text, nl=not text.endswith("\n"))
    if not quiet and "-" not in (json, csv):
        show_plan(found, file, report.reuse_pairs)
    if not quiet and found.interrupted:
        typer.echo("lowtide: interrupted: this is the best plan found until then", err=True)
