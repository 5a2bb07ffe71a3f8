"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.base.errors import InputError
from lowtide.base.units import parse_size

if TYPE_CHECKING:
    from lowtide.api import Request

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE", show_default=False, help="A .pt2, .pte, .json or .csv file; see lowtide --help."
    ),
]
PlanFile = Annotated[
    str,
    typer.Argument(metavar="PLAN.json", show_default=False, help="A plan that lowtide plan --json wrote."),
]


def complete_packer() -> list[str]:
    """Names of the packers, for the shell."""
    from lowtide.pack.registry import names

    return list(names())


def complete_hierarchy() -> list[str]:
    """Names of the policies, for the shell."""
    from lowtide.pack.hierarchy import POLICIES

    return list(POLICIES)


Packer = Annotated[
    str,
    typer.Option("--packer", metavar="NAME", help="Packing algorithm.", autocompletion=complete_packer),
]
Hierarchy = Annotated[
    str,
    typer.Option(
        "--hierarchy",
        metavar="POLICY",
        help="What regions share: joint, block, stacked or sum.",
        autocompletion=complete_hierarchy,
    ),
]
Alignment = Annotated[
    str,
    typer.Option(
        "--alignment",
        metavar="BYTES",
        help="Of every offset and size, for programs; a CSV or JSON says its own.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0.0, help="Time that search may take; 0: no limit."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of every random choice.")]
Threads = Annotated[int, typer.Option("--threads", min=0, help="Workers; 0: one a processor.")]
NoPlanInputs = Annotated[
    bool, typer.Option("--no-plan-inputs", help="Inputs stay in memory that the caller provides.")
]
NoPlanOutputs = Annotated[
    bool, typer.Option("--no-plan-outputs", help="Outputs go to memory that the caller provides.")
]
NoPlanState = Annotated[
    bool, typer.Option("--no-plan-state", help="Mutable buffers stay in memory that the caller provides.")
]
ResetState = Annotated[
    bool, typer.Option("--reset-state", help="State starts afresh at every run: its bytes may be reused.")
]
InPlace = Annotated[
    bool,
    typer.Option("--in-place", help="Outputs may lie over inputs that die, where the kernel is right so."),
]
ElideCopies = Annotated[
    bool, typer.Option("--elide-copies", help="What a step copies may lie where the copy is.")
]
FoldConstants = Annotated[
    bool, typer.Option("--fold-constants", help="Compute ahead of time what depends on weights alone.")
]
FoldLimit = Annotated[
    str | None,
    typer.Option(
        "--fold-limit",
        metavar="SIZE",
        show_default=False,
        help="Bytes by which constants may grow for it, such as 64KiB.",
    ),
]
Reorder = Annotated[bool, typer.Option("--reorder", help="Move independent steps to lower the peak.")]
Level = Annotated[
    int,
    typer.Option(
        "-O",
        "--optimize",
        metavar="LEVEL",
        min=0,
        max=3,
        help="0: lifetimes alone; 1: --in-place; 2: and --elide-copies; 3: and --fold-constants, --reorder.",
    ),
]
Pins = Annotated[bool, typer.Option("--pins", help="Read a CSV's offset column as fixed offsets.")]
Capacity = Annotated[
    list[str] | None,
    typer.Option(
        "--capacity",
        metavar="SIZE",
        show_default=False,
        help="Largest arena, such as 256KiB, or 2=64KiB for arena 2.",
    ),
]
Method = Annotated[
    str | None,
    typer.Option("--method", metavar="NAME", show_default=False, help="Which method of a .pte."),
]
MaxArena = Annotated[
    list[str],
    typer.Option(
        "--max-arena",
        metavar="SIZE",
        show_default=False,
        help="Most bytes, such as 256KiB, of all arenas together, or 2=64KiB for arena 2; may be repeated.",
    ),
]
JsonOut = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
MarkdownOut = Annotated[
    bool, typer.Option("--markdown", help="Print Markdown instead, fit for a comment on a pull request.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Leave nothing out, and say what took how long.")
]


def request(
    alignment: str = "16",
    no_plan_inputs: bool = False,
    no_plan_outputs: bool = False,
    no_plan_state: bool = False,
    reset_state: bool = False,
    pins: bool = False,
    capacity: list[str] | None = None,
    method: str | None = None,
    in_place: bool = False,
    elide_copies: bool = False,
    fold_constants: bool = False,
    fold_limit: str | None = None,
    reorder: bool = False,
    level: int = 0,
) -> Request:
    """What the options ask of a program."""
    from lowtide.api import Request

    if fold_limit is not None and not (fold_constants or level >= 3):
        raise InputError("--fold-limit is of --fold-constants: give both, or -O3")
    return Request(
        alignment=parse_size(alignment),
        plan_inputs=not no_plan_inputs,
        plan_outputs=not no_plan_outputs,
        plan_state=not no_plan_state,
        reset_state=reset_state,
        pins=pins,
        capacity=parse_capacity(capacity),
        method=method,
        in_place=in_place or level >= 1,
        elide_copies=elide_copies or level >= 2,
        fold_constants=fold_constants or level >= 3,
        fold_limit=None if fold_limit is None else parse_size(fold_limit),
        reorder=reorder or level >= 3,
    )


def parse_capacity(texts: list[str] | None) -> int | dict[int, int] | None:
    """``["256KiB"]`` for the only arena, or ``["1=256KiB", "2=64KiB"]`` by memory id.

    Raises:
        InputError: it is neither.
    """
    if not texts:
        return None
    found = parse_limits(texts, "capacity")
    alone = found.pop(None, None)
    if alone is None:
        return {id: size for id, size in found.items() if id is not None}
    if found:
        raise InputError("capacity: write ARENA=SIZE, such as 2=64KiB, once an arena")
    return alone


def parse_limits(texts: list[str], what: str) -> dict[int | None, int]:
    """Sizes by memory id, as ``2=64KiB``; None for a size alone.

    Raises:
        InputError: one is neither, or two are of the same arena.
    """
    found: dict[int | None, int] = {}
    for text in texts:
        id, equals, size = text.rpartition("=")
        if equals and (not id.strip().isdecimal() or len(id) > 18):
            raise InputError(f"{what} {text!r}: write ARENA=SIZE, such as 2=64KiB, once an arena")
        arena = int(id) if equals else None
        if arena in found:
            whose = "there is" if arena is None else f"arena {arena} has"
            raise InputError(f"{what} {text!r}: {whose} one already")
        found[arena] = parse_size(size)
    return found
