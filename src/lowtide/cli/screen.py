"""What people see: tables on stdout, progress and remarks on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from lowtide.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.table import Table

    from lowtide.problem import Plan, Progress


def console(*, stderr: bool = False) -> Console:
    """A rich console that never breaks a line of a pipe in two."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 200, highlight=False)


def table(*columns: str, title: str | None = None) -> Table:
    """A table whose first column is a name and whose others are numbers."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for i, column in enumerate(columns):
        made.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    return made


def both(size: int) -> str:
    """A size for machines and people: ``1,048,576 (1.0 MiB)``."""
    return f"{size:,}" if size < 1024 else f"{size:,} ({format_size(size)})"


def ratio(size: int, bound: int) -> str:
    """How far above the bound, to four digits; rounded up, so that only what meets it shows 1.000."""
    if size == bound:
        return "1.000"
    if bound == 0:
        return "-"
    thousandths = -(-size * 1000 // bound)
    return f"{thousandths // 1000}.{thousandths % 1000:03d}"


def show_plan(plan: Plan, name: str, reuse_pairs: int) -> None:
    """The arenas of a plan, and what was proved."""
    from rich.measure import Measurement

    out = console()
    made = _arenas(plan, both)
    if Measurement.get(out, out.options.update(width=1000), made).maximum > out.width:
        made = _arenas(plan, "{:,}".format)
    count = _count(len(plan.offsets), "buffer")
    out.print(f"[bold]{_escape(name)}[/]: {count}, planned by {plan.packer}, {plan.hierarchy}")
    out.print(made)
    if plan.problem.frees:
        count = _count(len(plan.problem.frees), "buffer")
        out.print(f"{count} of unbounded size, not planned; the plan says where each is freed.")
    out.print(f"Verified: {reuse_pairs:,} pairs of buffers reuse each other's bytes. {plan.seconds:.3f} s.")


def _arenas(plan: Plan, size: Callable[[int], str]) -> Table:
    """A row for each arena."""
    made = table("arena", "buffers", "bytes", "live peak", "lower bound", "ratio", "")
    for use in plan.uses:
        here = sum(buffer.arena == use.id for buffer in plan.problem.buffers)
        verdict = "[green]optimal[/]" if use.bytes == use.lower_bound_bytes else ""
        made.add_row(
            str(use.id),
            f"{here:,}",
            size(use.bytes),
            size(use.live_peak_bytes),
            size(use.lower_bound_bytes),
            ratio(use.bytes, use.lower_bound_bytes),
            verdict,
        )
    return made


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


@contextlib.contextmanager
def searching(quiet: bool) -> Iterator[Callable[[Progress, int], None] | None]:
    """A line on the terminal that follows a long search: best, bound, gap, nodes, elapsed."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.live import Live
    from rich.spinner import Spinner

    began, state = time.monotonic(), "planning"
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


@contextlib.contextmanager
def counting(what: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on the terminal for work in known pieces: call it with (done, in all)."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress as Bar

    with Bar(console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
