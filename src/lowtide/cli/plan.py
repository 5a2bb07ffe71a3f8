"""lowtide plan: the main job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli import options as o

if TYPE_CHECKING:
    from lowtide.frontends.front_end import Source
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
PlannerOut = Annotated[
    str | None,
    typer.Option(
        "--planner",
        metavar="OUT.h|-",
        show_default=False,
        help="Write a MicroMemoryPlanner in C++ that puts a .tflite's tensors in the banks of the map.",
    ),
]


@o.with_groups()
def plan(
    file: o.File,
    planned: o.Planned,
    searched: o.Searched,
    json: JsonOut = None,
    csv: CsvOut = None,
    header: HeaderOut = None,
    header_offsets: HeaderOffsets = False,
    header_prefix: HeaderPrefix = None,
    planner: PlannerOut = None,
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

      lowtide plan model.pte --method forward --device cortex-m --header model_plan.h

      lowtide plan model.tflite --scratch CONV_2D=12KiB

      lowtide plan model.tflite --memory-map board.toml --planner model_planner.h

    Ctrl-C ends the search, not the program: the best plan found until then is checked, written and shown.
    """
    from lowtide.base.errors import InputError
    from lowtide.base.files import write_all_atomically
    from lowtide.cli.screen import show_plan, working
    from lowtide.outputs.wording import beside_sentence
    from lowtide.report.ram import told_memory
    from lowtide.sources import load_all

    outputs = (json, csv, header, planner)
    if outputs.count("-") > 1:
        raise InputError("only one output can have stdout: write the others to files")
    request = planned.request()
    with working(f"reading {file}", quiet=quiet, verbose=verbose):
        everything = load_all(file, request)
    if len(everything) > 1 and any(outputs):
        names = ", ".join(source.name for source in everything)
        raise InputError(f"{file}: has several methods: choose one with --method to write its plan: {names}")
    for source in everything:
        told_memory(source)  # refused before the search
    written: list[tuple[str, str]] = []
    done = []
    for source in everything:
        found, report = _plan(source, searched, quiet, verbose)
        done.append((source, found, report))
    memories = [told_memory(source, found) for source, found, _ in done]
    found = done[0][1]
    if json is not None:
        from lowtide.formats.json.writing import plan_to_json

        written.append((json, plan_to_json(found)))
    if csv is not None:
        from lowtide.formats.csv.writing import plan_to_csv

        written.append((csv, plan_to_csv(found)))
    if header is not None:
        from lowtide.outputs.header import plan_to_header

        text = plan_to_header(found, file, prefix=header_prefix, offsets=header_offsets, memory=memories[0])
        written.append((header, text))
    if planner is not None:
        from lowtide.outputs.planner import plan_to_planner

        asked = done[0][0].asked
        if asked is None:
            raise InputError(f"{file}: --planner is for a .tflite: its interpreter asks a planner for places")
        written.append((planner, plan_to_planner(found, asked, file, prefix=header_prefix)))
    write_all_atomically([(path, text) for path, text in written if path != "-"])
    for path, text in written:
        if path == "-":
            typer.echo(text, nl=not text.endswith("\n"))
    for (source, found, report), memory in zip(done, memories, strict=True):
        if not quiet and "-" not in outputs:
            name = f"{file}, {source.name}" if source.name else file
            show_plan(found, name, report.reuse_pairs, verbose=verbose)
            for remark in source.remarks:
                typer.echo(remark)
            if memory is not None:
                typer.echo(beside_sentence(memory))
        if not quiet and found.interrupted:
            typer.echo("lowtide: interrupted: this is the best plan found until then", err=True)


def _plan(source: Source, searched: o.Searched, quiet: bool, verbose: bool) -> tuple[Plan, Report]:
    """Plan one thing and check the plan: nothing leaves before it has been checked."""
    from lowtide.cli.screen import search, working
    from lowtide.verifier.checks import verify

    found = search(source, searched, quiet=quiet, verbose=verbose)
    with working("verifying", quiet=quiet, verbose=verbose):
        return found, verify(found, source.runs)
