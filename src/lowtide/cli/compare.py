"""lowtide compare: policies by packers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli import options as o

if TYPE_CHECKING:
    from typing import Any

    from lowtide.frontends.front_end import Source
    from lowtide.ir.plan import Plan
    from lowtide.ir.problem import Problem
    from lowtide.pack.hierarchy import Hierarchy

Packers = Annotated[
    list[str] | None,
    typer.Option(
        "--packer",
        metavar="NAME",
        show_default=False,
        help="Only these packers; may be repeated.",
        autocompletion=o.complete_packer,
    ),
]
JsonOut = Annotated[bool, typer.Option("--json", help="Print the table as JSON.")]


@o.with_groups("hierarchy", "packer")
def compare(
    file: o.File,
    planned: o.Planned,
    searched: o.Searched,
    packer: Packers = None,
    json: JsonOut = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Plan FILE under every hierarchy policy with every packer; each plan is verified.

    Each is made as by `lowtide plan`, and its bytes are followed if anything is known of what runs.

    [bold]Examples[/]

      lowtide compare model.pt2

      lowtide compare model.pt2 --packer auto --packer greedy --json

      lowtide compare model.pt2 --memory-map board.toml
    """
    from lowtide.cli.screen import counting, working
    from lowtide.pack.hierarchy import POLICIES
    from lowtide.pack.registry import names
    from lowtide.sources import load

    request = planned.request()
    with working(f"reading {file}", quiet=quiet or json, verbose=verbose):
        source = load(file, request)
    rows: list[dict[str, Any]] = []
    plans: list[Plan] = []
    wanted = packer or names()
    regions = {buffer.region for buffer in source.problem.buffers}
    # A runtime with a planner of its own lays all of them out together.
    policies = POLICIES if len(regions) > 1 and source.planner is None else POLICIES[:1]
    with counting("comparing", quiet or json, verbose=verbose) as progress:
        for name in wanted:
            for policy in policies:
                row, plan = _row(source, name, policy, searched)
                rows.append(row)
                plans += [plan] if plan is not None else []
                if progress is not None:
                    progress(len(rows), len(wanted) * len(policies))
    if json:
        import json as encoder

        typer.echo(encoder.dumps({"file": file, "plans": rows}, indent=2))
    elif not quiet:
        _show(file, rows, _bound(plans))


def _row(
    source: Source, packer: str, policy: Hierarchy, searched: o.Searched
) -> tuple[dict[str, Any], Plan | None]:
    """What is told of one plan, and the plan if there is one."""
    from lowtide.api import plan_source
    from lowtide.base.errors import InfeasibleError, UnsupportedError
    from lowtide.verifier.checks import verify

    try:
        plan = plan_source(source, packer=packer, hierarchy=policy, options=searched.options())
        verify(plan, source.runs)
    except (UnsupportedError, InfeasibleError) as error:
        return {"packer": packer, "hierarchy": policy, "error": str(error)}, None
    return {
        "packer": packer,
        "hierarchy": policy,
        "arena_bytes": plan.arena_bytes,
        "lower_bound_bytes": plan.lower_bound_bytes,
        "optimal": plan.is_optimal,
        **({} if plan.cost is None else {"cost": plan.cost, "cost_bound": plan.cost_bound}),
        "seconds": round(plan.seconds, 6),
    }, plan


def _bound(plans: list[Plan]) -> int:
    """Bytes below which none of these plans can be.

    What one packer proved of a problem holds for the others; but one plan may make use of techniques that
    another found no use for, and then they are of different problems.
    """
    proved: dict[Problem, int] = {}
    for plan in plans:
        bound = plan.lower_bound_bytes if plan.object_ids is None else plan.live_peak_bytes
        proved[plan.problem] = max(proved.get(plan.problem, 0), bound)
    return min(proved.values(), default=0)


def _show(file: str, rows: list[dict[str, Any]], bound: int) -> None:
    from rich.markup import escape

    from lowtide.base.units import both
    from lowtide.cli.screen import console, ratio
    from lowtide.cli.tables import Column, show_table
    from lowtide.outputs.wording import cost_text

    out = console()
    planned = [row for row in rows if "error" not in row]
    if not planned:
        out.print(f"[bold]{escape(file)}[/]: no packer found a plan")
    least = min((row["arena_bytes"] for row in planned), default=0)
    costs = [row["cost"] for row in planned if "cost" in row]  # with a memory map, of every plan
    columns = [
        Column("packer", text=True),
        Column("hierarchy"),
        Column("arena bytes"),
        Column("ratio to bound"),
        Column("seconds"),
        Column("", text=True),
    ]
    table = []
    for row in rows:
        if "error" in row:
            error = f"[dim]{escape(row['error'])}[/]"
            table.append([row["packer"], row["hierarchy"], "-", "-", "-", error])
            continue
        arena = row["arena_bytes"]
        verdict = "[green]optimal[/]" if arena == bound else "smallest" if arena == least else ""
        if costs:
            verdict = "cheapest" if row["cost"] == min(costs) else ""
            verdict = "[green]proved[/]" if verdict and row["cost"] == row["cost_bound"] else verdict
        bytes, times = both(arena), ratio(arena, bound)
        table.append([row["packer"], row["hierarchy"], bytes, times, f"{row['seconds']:.3f}", verdict])
    if costs:
        least_cost = cost_text(min(row["cost_bound"] for row in planned))
        out.print(f"[bold]{escape(file)}[/]: no plan costs less than {least_cost}; every plan verified")
        columns.insert(2, Column("cost"))
        for row, shown in zip(rows, table, strict=True):
            shown.insert(2, cost_text(row["cost"]) if "cost" in row else "-")
    elif planned:
        out.print(f"[bold]{escape(file)}[/]: lower bound {both(bound)}; every plan verified")
    show_table(out, columns, table)
