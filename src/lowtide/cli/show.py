"""lowtide show: the picture of a plan."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowtide.cli import options as o

if TYPE_CHECKING:
    from lowtide.frontends.front_end import Source
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.plan import Plan
    from lowtide.outputs.picture import Picture
    from lowtide.outputs.picture.colours import By, Theme


def _out(flag: str, what: str, *more: str) -> Any:
    return typer.Option(flag, *more, metavar="OUT|-", show_default=False, help=f"{what}; - for stdout.")


HtmlOut = Annotated[str | None, _out("--html", "Write an HTML page that needs nothing else", "-o")]
PngOut = Annotated[
    str | None,
    typer.Option("--png", metavar="OUT", show_default=False, help="Write a PNG image (needs matplotlib)."),
]
SvgOut = Annotated[str | None, _out("--svg", "Write an SVG drawing (needs matplotlib)")]
TraceOut = Annotated[str | None, _out("--trace", "Write a Chrome trace, as ExecuTorch's inspector does")]
Term = Annotated[bool, typer.Option("--term", help="Draw in the terminal.")]
Of = Annotated[
    str | None,
    typer.Option(
        "--program",
        metavar="FILE",
        show_default=False,
        help="For a plan: the program that it is of, which knows the names of the steps.",
    ),
]
Colour = Annotated[
    str | None,
    typer.Option("--colour", metavar="BY", show_default=False, help="kind, operator, region or size."),
]
Dark = Annotated[bool, typer.Option("--dark", help="PNG and SVG on a dark ground.")]


@o.with_groups()
def show(
    file: o.File,
    planned: o.Planned,
    searched: o.Searched,
    html: HtmlOut = None,
    png: PngOut = None,
    svg: SvgOut = None,
    term: Term = False,
    trace: TraceOut = None,
    program: Of = None,
    colour: Colour = None,
    dark: Dark = False,
    quiet: o.Quiet = False,
) -> None:
    """Draw FILE: time across, bytes up, a rectangle for every buffer.

    A plan is drawn as it is, and so is the one in a .pte; anything else is planned first. Without an output
    option, the HTML page is written to FILE's name with the ending .lowtide.html, in the current directory.

    [bold]Examples[/]

      lowtide show model.pt2 -o model.html

      lowtide show plan.json --program model.pt2 --png plan.png --svg plan.svg

      lowtide show buffers.csv --term

      lowtide show model.pt2 --trace memory.json

      lowtide show model.pte --device cortex-m --term
    """
    from lowtide.base.errors import InputError
    from lowtide.base.files import write_all_atomically
    from lowtide.cli.screen import planned_file
    from lowtide.outputs.picture import make_picture
    from lowtide.report.ram import told_memory

    by = _way(colour)
    if [html, svg, trace].count("-") + term > 1:
        raise InputError("--term and - cannot share stdout: write all but one to files")
    source, plan = planned_file(file, planned, searched, quiet=quiet, verified=False)
    name = os.path.basename(file) or file
    title = f"{name}, {source.name}" if source.name else name
    picture = make_picture(
        plan, title=title, flow=_flow(plan, source, program), memory=told_memory(source, plan)
    )
    if not (html or png or svg or trace or term):
        html = f"{os.path.splitext(os.path.basename(file))[0]}.lowtide.html"
    made = _made(picture, by, "dark" if dark else "light", html=html, png=png, svg=svg, trace=trace)
    write_all_atomically([(path, content) for path, content in made if path != "-"])
    for path, content in made:
        if path == "-":
            typer.echo(content, nl=False)
    if term:
        _draw_here(picture, by)
    elif not quiet and all(path != "-" for path, _ in made):
        for path, content in made:
            typer.echo(f"{path}: {len(content.encode() if isinstance(content, str) else content):,} bytes")


def _way(colour: str | None) -> By | None:
    from lowtide.base.errors import InputError
    from lowtide.outputs.picture.colours import WAYS

    if colour is None:
        return None
    found = next((way for way in WAYS if way == colour), None)
    if found is None:
        raise InputError(f"--colour {colour!r}: choose one of {', '.join(WAYS)}")
    return found


def _flow(plan: Plan, source: Source, program: str | None) -> FlowGraph | None:
    """Program points of what the plan is of, where that is known; says so on stderr if the plan is wrong."""
    from lowtide.base.errors import InputError, VerificationError
    from lowtide.lifetimes.lowering import lower
    from lowtide.sources import load
    from lowtide.verifier.checks import verify

    of = source.program
    if program is not None:
        if source.plan is None:
            raise InputError("--program names what a plan is of: FILE must be a plan")
        of = load(program, source.request).program
        if of is None:
            raise InputError(f"{program}: is no program: --program needs the one that the plan is of")
    try:
        verify(plan, of if of is not None else source.follow)
    except VerificationError as error:
        count = len(error.violations)
        faults = "1 fault" if count == 1 else f"{count:,} faults"
        typer.echo(f"lowtide: this plan is wrong ({faults}): {error.violations[0]}", err=True)
    return None if of is None else lower(of)


def _made(
    picture: Picture,
    by: By | None,
    theme: Theme,
    *,
    html: str | None,
    png: str | None,
    svg: str | None,
    trace: str | None,
) -> list[tuple[str, str | bytes]]:
    """Path and content of every file that is asked for."""
    made: list[tuple[str, str | bytes]] = []
    if html is not None:
        from lowtide.outputs.html import picture_to_html

        made.append((html, picture_to_html(picture, by)))
    if png is not None:
        from lowtide.outputs.png import picture_to_png

        made.append((png, picture_to_png(picture, theme=theme, by=by)))
    if svg is not None:
        from lowtide.outputs.svg import picture_to_svg

        made.append((svg, picture_to_svg(picture, theme=theme, by=by)))
    if trace is not None:
        from lowtide.outputs.trace import picture_to_trace

        made.append((trace, picture_to_trace(picture)))
    return made


def _draw_here(picture: Picture, by: By | None) -> None:
    """As wide as the terminal, or as ``COLUMNS``, or 100 columns; colours only on a terminal."""
    import shutil

    from lowtide.cli.screen import console
    from lowtide.outputs.term import picture_to_lines

    out = console()
    size = shutil.get_terminal_size((100, 40))
    in_colour = out.color_system is not None and not out.no_color
    lines = picture_to_lines(
        picture, width=size.columns, height=min(24, max(8, size.lines - 14)), in_colour=in_colour, by=by
    )
    for line in lines:
        if in_colour:
            out.print(line, no_wrap=True, overflow="crop", crop=False)
        else:
            typer.echo(line.plain)
