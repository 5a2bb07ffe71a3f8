"""lowtide explain: where the memory goes, and what would lower the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lowtide.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

    from lowtide.ir.device_memory import DeviceMemory
    from lowtide.report.findings import Explanation, Peak

ROWS = 12
"""Buffers that are listed unless asked for all."""


@o.with_groups()
def explain(
    file: o.File,
    planned: o.Planned,
    searched: o.Searched,
    json: o.JsonOut = False,
    markdown: o.MarkdownOut = False,
    verbose: o.Verbose = False,
) -> None:
    """Say where the memory of FILE goes: its peak, what is alive then, and what would lower it.

    Each piece of advice was tried: the change is made to a copy of the program, and the peak computed anew.

    [bold]Examples[/]

      lowtide explain model.pt2

      lowtide explain model.pt2 --no-plan-inputs --markdown

      lowtide explain model.pt2 -O2 --packer exact --timeout 30

      lowtide explain model.pt2 --memory-map board.toml

      lowtide explain plan.json --json

      lowtide explain model.pte --device cortex-m
    """
    from typing import cast

    from lowtide.base.errors import InputError
    from lowtide.cli.screen import working
    from lowtide.pack.hierarchy import Hierarchy
    from lowtide.report.explain import explain_source
    from lowtide.sources import load

    if json and markdown:
        raise InputError("--json and --markdown cannot share stdout: run the command twice")
    request = planned.request()
    with working(f"reading {file}", verbose=verbose):
        source = load(file, request)
    with working("looking for the peak", verbose=verbose):
        hierarchy = cast(Hierarchy, searched.hierarchy)
        found = explain_source(
            source, file, packer=searched.packer, hierarchy=hierarchy, options=searched.options()
        )
    if json:
        typer.echo(found.to_json(), nl=False)
    elif markdown:
        typer.echo(found.to_markdown(), nl=False)
    else:
        _show(found, verbose)


def _show(found: Explanation, verbose: bool) -> None:
    from rich.markup import escape

    from lowtide.base.units import amount, both, many
    from lowtide.cli.screen import console, show_banks
    from lowtide.cli.tables import Column, show_table
    from lowtide.outputs.wording import advice_sentence, arena_sentence, room_sentence

    out = console()
    count = many(found.buffers, "buffer")
    out.print(f"[bold]{escape(found.name)}[/]: {count}, live peak {amount(found.peak_bytes)}")
    out.print(arena_sentence(found))
    for peak in found.peaks:
        _show_peak(out, peak, len(found.peaks) > 1, verbose)
    if found.banks:
        out.print("\n[bold]What each bank costs in a run[/]")
        show_banks(found.banks, out)
        for room in found.more_room:
            out.print(escape(room_sentence(room)))
    out.print("\n[bold]What would lower it[/]")
    if found.advice:
        rows = [
            [
                f"[green]-{both(advice.wins)}[/]",
                "" if advice.exact else "at most",
                escape(advice_sentence(advice)),
            ]
            for advice in found.advice
        ]
        show_table(out, [Column("bytes"), Column(""), Column("change", text=True)], rows)
    elif found.followed:
        out.print(
            "Nothing that was tried: keeping inputs or outputs elsewhere, constants ahead of time, "
            "fewer copies, later steps."
        )
    else:
        out.print("Nothing that lifetimes tell: without the program there is little to try.")
    out.print("\n[bold]What the arena holds, and what it does not[/]")
    rows = [
        [
            escape(share.what),
            "yes" if share.counted else "no",
            "not told" if share.bytes is None else both(share.bytes),
            f"[dim]{escape(share.remark)}[/]",
        ]
        for share in found.memory
    ]
    columns = [Column("memory", text=True), Column("in the arena"), Column("bytes"), Column("", text=True)]
    show_table(out, columns, rows)
    if found.ram is not None:
        _show_ram(out, found.ram)


def _show_ram(out: Console, memory: DeviceMemory) -> None:
    from rich.markup import escape

    from lowtide.cli.tables import Column, show_table
    from lowtide.outputs.wording import ram_row, ram_sentence, saving_sentence

    out.print(f"\n[bold]{escape(ram_sentence(memory))}[/]")
    rows = [
        [*map(escape, cells), f"[dim]{escape(remark)}[/]"]
        for *cells, remark in (ram_row(memory, part) for part in memory.parts)
    ]
    names = Column("pool", text=True), Column("memory", text=True)
    show_table(out, [*names, Column("bytes"), Column("share"), Column("", text=True)], rows)
    for sentence in (*map(saving_sentence, memory.savings), *memory.notes):
        out.print(escape(sentence))
    for name, size in memory.settings:
        out.print(escape(f"{name}={size}"))


def _show_peak(out: Console, peak: Peak, several: bool, verbose: bool) -> None:
    from rich.markup import escape

    from lowtide.base.units import amount, both
    from lowtide.cli.tables import Column, show_table
    from lowtide.outputs.wording import peak_sentences, share, waiting, where

    arena = f"Arena {peak.arena}: {amount(peak.bytes)} at " if several else "At "
    out.print(f"\n{arena}[bold]{escape(where(peak.at))}[/]", overflow="fold")
    shown = peak.alive if verbose else peak.alive[:ROWS]
    rows = []
    for alive in shown:
        made_by = " ".join(filter(None, [alive.operator or alive.kind, alive.source]))
        rows.append(
            [
                both(alive.bytes),
                share(alive.bytes, peak.bytes),
                f"{escape(alive.name)}\n[dim]{escape(made_by)}[/]",
                waiting(alive, peak.at.tick),
            ]
        )
    columns = [Column("bytes"), Column("share"), Column("buffer", text=True), Column("steps", text=True)]
    show_table(out, columns, rows)
    if len(shown) < len(peak.alive):
        rest = peak.alive[len(shown) :]
        size = sum(alive.bytes for alive in rest)
        out.print(f"and {len(rest):,} more with {amount(size)} in all; --verbose lists them")
    for sentence in peak_sentences(peak):
        out.print(escape(sentence))
