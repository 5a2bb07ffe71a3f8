"""lowtide compare: policies by packers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli import options as o
from lowtide.constants import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from typing import Any

    from lowtide.hierarchy import Hierarchy
    from lowtide.problem import Problem
    from lowtide.program import Program

Packers = Annotated[
    list[str] | None,
    typer.Option("--packer", metavar="NAME", show_default=False, help="Only these packers; may be repeated."),
]
JsonOut = Annotated[bool, typer.Option("--json", help="Print the table as JSON.")]


def compare(
    file: o.File,
    packer: Packers = None,
    alignment: o.Alignment = "16",
    timeout: o.Timeout = DEFAULT_TIMEOUT,
    no_plan_inputs: o.NoPlanInputs = False,
    no_plan_outputs: o.NoPlanOutputs = False,
    no_plan_state: o.NoPlanState = False,
    reset_state: o.ResetState = False,
    pins: o.Pins = False,
    json: JsonOut = False,
    quiet: o.Quiet = False,
) -> None:
    """Plan FILE under every hierarchy policy with every packer; each plan is verified.

    [bold]Examples[/]

      lowtide compare model.pt2

      lowtide compare model.pt2 --packer auto --packer greedy --json
    """
    from lowtide.api import load
    from lowtide.cli.screen import counting
    from lowtide.hierarchy import POLICIES
    from lowtide.pack.registry import names

    loaded = load(
        file, o.request(alignment, no_plan_inputs, no_plan_outputs, no_plan_state, reset_state, pins)
    )
    rows = []
    wanted = packer or names()
    policies = POLICIES if len({buffer.region for buffer in loaded.problem.buffers}) > 1 else POLICIES[:1]
    with counting("comparing", quiet or json) as progress:
        for name in wanted:
            for policy in policies:
                rows.append(_row(loaded.problem, loaded.program, name, policy, timeout))
                if progress is not None:
                    progress(len(rows), len(wanted) * len(policies))
    if json:
        import json as encoder

        typer.echo(encoder.dumps({"file": file, "plans": rows}, indent=2))
    elif not quiet:
        _show(file, rows)


def _row(
    problem: Problem, program: Program | None, packer: str, policy: Hierarchy, timeout: float
) -> dict[str, Any]:
    from lowtide.errors import UnsupportedError
    from lowtide.pack.registry import Options
    from lowtide.planner import plan_problem
    from lowtide.verifier import verify

    try:
        plan = plan_problem(
            problem, packer=packer, hierarchy=policy, options=Options(timeout=timeout or None)
        )
    except UnsupportedError as error:
        return {"packer": packer, "hierarchy": policy, "error": str(error)}
    verify(plan, program)
    return {
        "packer": packer,
        "hierarchy": policy,
        "arena_bytes": plan.arena_bytes,
        "lower_bound_bytes": plan.lower_bound_bytes,
        "optimal": plan.is_optimal,
        "seconds": round(plan.seconds, 6),
    }


def _show(file: str, rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    from lowtide.cli.screen import both, console, ratio, table

    made = table("packer", "hierarchy", "arena bytes", "ratio to bound", "seconds", "")
    least = min((row["arena_bytes"] for row in rows if "error" not in row), default=0)
    for row in rows:
        if "error" in row:
            made.add_row(row["packer"], row["hierarchy"], "-", "-", "-", f"[dim]{escape(row['error'])}[/]")
            continue
        verdict = (
            "[green]optimal[/]" if row["optimal"] else ("smallest" if row["arena_bytes"] == least else "")
        )
        gap = ratio(row["arena_bytes"], row["lower_bound_bytes"])
        made.add_row(
            row["packer"], row["hierarchy"], both(row["arena_bytes"]), gap, f"{row['seconds']:.3f}", verdict
        )
    out = console()
    bound = next((row["lower_bound_bytes"] for row in rows if "error" not in row), 0)
    out.print(f"[bold]{escape(file)}[/]: lower bound {both(bound)}; every plan verified")
    out.print(made)
