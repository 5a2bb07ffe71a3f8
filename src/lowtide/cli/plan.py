"""lowtide plan: the main job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.base.constants import DEFAULT_TIMEOUT
from lowtide.cli import options as o

if TYPE_CHECKING:
    from lowtide.api import Loaded
    from lowtide.ir.plan import Plan
    from lowtide.verifier.checks import Report

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
HeaderOut = Annotated[
    str | None,
    typer.Option(
        "--header", metavar="OUT.h|-", show_default=False, help="Write a C header with the arena sizes."
    ),
]
HeaderOffsets = Annotated[
    bool, typer.Option("--header-offsets", help="Every buffer's offset and size in the header, too.")
]
HeaderPrefix = Annotated[
    str | None,
    typer.Option(
        "--header-prefix",
        metavar="NAME",
        show_default=False,
        help="What the header's macros begin with; LOWTIDE_ and the file's name if not given.",
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
    level: o.Level = 0,
    in_place: o.InPlace = False,
    elide_copies: o.ElideCopies = False,
    fold_constants: o.FoldConstants = False,
    fold_limit: o.FoldLimit = None,
    reorder: o.Reorder = False,
    method: o.Method = None,
    seed: o.Seed = 0,
    threads: o.Threads = 0,
    json: JsonOut = None,
    csv: CsvOut = None,
    header: HeaderOut = None,
    header_offsets: HeaderOffsets = False,
    header_prefix: HeaderPrefix = None,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Give every buffer of FILE an offset, check the plan, and say how small the arena is.

    [bold]Examples[/]

      lowtide plan model.pt2

      lowtide plan model.pt2 --no-plan-inputs --json plan.json

      lowtide plan buffers.csv --capacity 1MiB --csv offsets.csv

      lowtide plan model.pt2 -O3 --fold-limit 64KiB

      lowtide plan model.pt2 --header model_plan.h --header-offsets

      lowtide plan model.pte --method forward

    Ctrl-C ends the search, not the program: the best plan found until then is checked, written and shown.
    """
    from lowtide.api import load_all
    from lowtide.base.errors import InputError
    from lowtide.base.files import write_all_atomically
    from lowtide.cli.screen import show_plan, working

    if (json, csv, header).count("-") > 1:
        raise InputError("only one output can have stdout: write the others to files")
    request = o.request(
        alignment,
        no_plan_inputs,
        no_plan_outputs,
        no_plan_state,
        reset_state,
        pins,
        capacity,
        method,
        in_place=in_place,
        elide_copies=elide_copies,
        fold_constants=fold_constants,
        fold_limit=fold_limit,
        reorder=reorder,
        level=level,
    )
    with working(f"reading {file}", quiet=quiet, verbose=verbose):
        everything = load_all(file, request)
    if len(everything) > 1 and (json or csv or header):
        names = ", ".join(loaded.name for loaded in everything)
        raise InputError(f"{file}: has several methods: choose one with --method to write its plan: {names}")
    written: list[tuple[str, str]] = []
    done = []
    for loaded in everything:
        found, report = _plan(loaded, packer, hierarchy, timeout or None, seed, threads, quiet, verbose)
        done.append((loaded, found, report))
    found = done[0][1]
    if json is not None:
        from lowtide.formats.json.writing import plan_to_json

        written.append((json, plan_to_json(found)))
    if csv is not None:
        from lowtide.formats.csv.writing import plan_to_csv

        written.append((csv, plan_to_csv(found)))
    if header is not None:
        from lowtide.outputs.header import plan_to_header

        written.append((header, plan_to_header(found, file, prefix=header_prefix, offsets=header_offsets)))
    write_all_atomically([(path, text) for path, text in written if path != "-"])
    for path, text in written:
        if path == "-":
            typer.echo(text, nl=not text.endswith("\n"))
    for loaded, found, report in done:
        if not quiet and "-" not in (json, csv, header):
            name = f"{file}, {loaded.name}" if loaded.name else file
            show_plan(found, name, report.reuse_pairs, verbose=verbose)
            for remark in loaded.remarks:
                typer.echo(remark)
        if not quiet and found.interrupted:
            typer.echo("lowtide: interrupted: this is the best plan found until then", err=True)


def _plan(
    loaded: Loaded,
    packer: str,
    hierarchy: str,
    timeout: float | None,
    seed: int,
    threads: int,
    quiet: bool,
    verbose: bool,
) -> tuple[Plan, Report]:
    """Plan one thing and check the plan: nothing leaves before it has been checked."""
    from lowtide.cli.screen import search, working
    from lowtide.verifier.checks import verify

    found = search(loaded, packer, hierarchy, timeout, seed, threads, quiet=quiet, verbose=verbose)
    with working("verifying", quiet=quiet, verbose=verbose):
        return found, verify(found, loaded.runs)
