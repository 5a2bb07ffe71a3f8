"""What people see: tables on stdout, progress and remarks on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from lowtide.base.units import both, many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from lowtide.cli.options import Planned, Searched
    from lowtide.frontends.front_end import Source
    from lowtide.ir.plan import Plan, Progress
    from lowtide.report.findings import BankShare

_PIPE_WIDTH = 10_000
"""A pipe has no width: lines are not broken there, so that other programs can read them."""


def console(*, stderr: bool = False) -> Console:
    """A rich console: as wide as the terminal, coloured only there, and not if ``NO_COLOR`` is set."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _PIPE_WIDTH, highlight=False)


def ratio(size: int, bound: int) -> str:
    """How far above the bound, to four digits; rounded up, so that only what meets it shows 1.000."""
    if size == bound:
        return "1.000"
    if bound == 0:
        return "-"
    thousandths = -(-size * 1000 // bound)
    return f"{thousandths // 1000}.{thousandths % 1000:03d}"


def show_plan(plan: Plan, name: str, reuse_pairs: int, *, verbose: bool = False) -> None:
    """The arenas of a plan, and what was proved; ``verbose``: how it improved, too."""
    from lowtide.cli.tables import Column, show_table
    from lowtide.report.banks import bank_shares

    out = console()
    count = many(len(plan.offsets), "buffer")
    out.print(f"[bold]{_escape(name)}[/]: {count}, planned by {plan.packer}, {plan.hierarchy}")
    titles = ("arena", "buffers", "bytes", "live peak", "lower bound", "ratio", "")
    columns = [Column(title) for title in titles]
    show_table(out, columns, _arenas(plan, both), _arenas(plan, "{:,}".format))
    if plan.banks:
        show_banks(bank_shares(plan), out)
        out.print(cost_line(plan))
    techniques = [applied.technique for applied in plan.applied]
    if over := techniques.count("in-place"):
        out.print(f"{many(over, 'output')} over an input that dies at the step.")
    if elided := techniques.count("elided-copy"):
        out.print(f"{many(elided, 'copy')} in the bytes of what is copied.")
    if plan.problem.frees:
        count = many(len(plan.problem.frees), "buffer")
        out.print(f"{count} of unbounded size, not planned; the plan says where each is freed.")
    if verbose and plan.history:
        rows = [
            [f"{entry.seconds:.3f}", both(entry.arena_bytes), both(entry.lower_bound_bytes)]
            for entry in plan.history
        ]
        show_table(out, [Column("seconds"), Column("arena bytes"), Column("lower bound")], rows)
    reuse = "1 pair of buffers reuses" if reuse_pairs == 1 else f"{reuse_pairs:,} pairs of buffers reuse"
    out.print(f"Verified: {reuse} each other's bytes. {plan.seconds:.3f} s.")


def show_banks(banks: Sequence[BankShare], out: Console) -> None:
    """The banks of a plan, what is accessed in each, and what that costs."""
    from lowtide.cli.tables import Column, show_table
    from lowtide.outputs.wording import cost_text

    accessed = sum(bank.accessed_bytes for bank in banks)
    rows = [
        [
            _escape(bank.name),
            str(bank.mem_id),
            f"{bank.buffers:,}",
            both(bank.bytes),
            both(bank.capacity),
            both(bank.accessed_bytes),
            f"{bank.accessed_bytes / accessed:.2%}" if accessed else "-",
            cost_text(bank.cost),
            f"{bank.share:.1%}",
        ]
        for bank in banks
    ]
    titles = ("arena", "buffers", "bytes", "capacity", "accessed bytes", "of all", "cost", "of all")
    show_table(out, [Column("bank", text=True), *(Column(title) for title in titles)], rows)


def cost_line(plan: Plan) -> str:
    """What accesses cost in a run, and how far that is from what no plan can beat."""
    cost, bound = plan.cost or 0.0, plan.cost_bound or 0.0
    said = f"Accesses cost {cost:,.0f} a run"
    if cost == bound:
        return f"{said}: no choice of banks costs less."
    above = f", {cost / bound - 1:.2%} above it" if bound else ""
    return f"{said}; none is proved to cost less than {bound:,.0f}{above}."


def _arenas(plan: Plan, size: Callable[[int], str]) -> Sequence[Sequence[str]]:
    """A row for each arena."""
    return [
        [
            str(use.id),
            f"{sum(buffer.arena == use.id for buffer in plan.problem.buffers):,}",
            size(use.bytes),
            size(use.live_peak_bytes),
            size(use.lower_bound_bytes),
            ratio(use.bytes, use.lower_bound_bytes),
            "[green]optimal[/]" if use.bytes == use.lower_bound_bytes else "",
        ]
        for use in plan.uses
    ]


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def planned_file(
    file: str,
    planned: Planned,
    searched: Searched,
    *,
    quiet: bool = False,
    verbose: bool = False,
    verified: bool = True,
) -> tuple[Source, Plan]:
    """What a file holds and its plan: the one that it holds, or else a new one; ``verified`` either way.

    Raises:
        VerificationError: the plan that it holds is wrong.
    """
    from lowtide.base.errors import VerificationError
    from lowtide.sources import load
    from lowtide.verifier.checks import verify

    with working(f"reading {file}", quiet=quiet, verbose=verbose):
        source = load(file, planned.request())
    if source.faults:
        raise VerificationError(source.faults)
    plan = source.plan
    memory = source.request.memory_map
    if plan is not None and memory is not None:
        from lowtide.pack.banks.judging import in_banks
        from lowtide.verifier.banks import check_map

        plan = plan if plan.banks else in_banks(plan, memory, source.points)
        check_map(plan, memory, source.points)
    if plan is None:
        plan = search(source, searched, quiet=quiet, verbose=verbose)
    if verified:
        with working(f"verifying {file}", quiet=quiet, verbose=verbose):
            verify(plan, source.runs)
    return source, plan


def search(source: Source, searched: Searched, *, quiet: bool = False, verbose: bool = False) -> Plan:
    """A new plan of what was loaded, with the search shown on the terminal."""
    from typing import cast

    from lowtide.api import plan_source
    from lowtide.pack.hierarchy import Hierarchy

    with searching(quiet, verbose=verbose) as progress:
        return plan_source(
            source,
            packer=searched.packer,
            hierarchy=cast(Hierarchy, searched.hierarchy),
            options=searched.options(progress),
        )


@contextlib.contextmanager
def working(what: str, *, quiet: bool = False, verbose: bool = False) -> Iterator[None]:
    """A spinner on the terminal while something takes its time; ``verbose`` says afterwards how long."""
    began = time.monotonic()
    if quiet or not sys.stderr.isatty():
        yield
    else:
        with console(stderr=True).status(_escape(what)):
            yield
    _took(what, began, verbose)


def _took(what: str, began: float, verbose: bool) -> None:
    if verbose:
        print(f"{what}: {time.monotonic() - began:.3f} s", file=sys.stderr)


@contextlib.contextmanager
def searching(quiet: bool, *, verbose: bool = False) -> Iterator[Callable[[Progress, int], None] | None]:
    """A line on the terminal that follows a long search: best, bound, gap, nodes, elapsed."""
    began, state = time.monotonic(), "planning"
    if quiet or not sys.stderr.isatty():
        yield None
        _took("planning", began, verbose)
        return
    from rich.live import Live
    from rich.spinner import Spinner

    spinner = Spinner("dots")

    def report(progress: Progress, nodes: int) -> None:
        nonlocal state
        best, bound = progress.arena_bytes, progress.lower_bound_bytes
        state = f"best {best:,}, bound {bound:,}, gap {ratio(best, bound)}, {nodes:,} nodes"

    def line() -> Spinner:  # drawn anew several times a second: time passes even if there is no news
        spinner.update(text=f"{state}, {time.monotonic() - began:.1f} s")
        return spinner

    with Live(get_renderable=line, console=console(stderr=True), transient=True, refresh_per_second=10):
        yield report
    _took("planning", began, verbose)


@contextlib.contextmanager
def counting(what: str, quiet: bool, *, verbose: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on the terminal for work in known pieces: call it with (done, in all)."""
    began = time.monotonic()
    if quiet or not sys.stderr.isatty():
        yield None
        _took(what, began, verbose)
        return
    from rich.progress import Progress as Bar

    with Bar(console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
    _took(what, began, verbose)


@contextlib.contextmanager
def trying(what: str, quiet: bool) -> Iterator[Callable[[str, int], None] | None]:
    """A line on the terminal that follows a search of changes: what is tried, the best so far, elapsed."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.live import Live
    from rich.spinner import Spinner

    began, state, spinner = time.monotonic(), what, Spinner("dots")

    def report(tried: str, best: int) -> None:
        nonlocal state
        state = f"{tried}, best {both(best)}"

    def line() -> Spinner:  # drawn anew several times a second: time passes even if there is no news
        spinner.update(text=f"{state}, {time.monotonic() - began:.1f} s")
        return spinner

    with Live(get_renderable=line, console=console(stderr=True), transient=True, refresh_per_second=10):
        yield report
