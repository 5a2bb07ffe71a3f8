"""Options that several commands share: one at a time, and in two groups that commands take as a whole.

A command names a group by a parameter of its type, such as ``planned: Planned``; ``with_groups`` puts the
group's options in its place, so that the command line shows them and the command gets them as one value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from lowtide.base.constants import DEFAULT_TIMEOUT
from lowtide.base.errors import InputError
from lowtide.base.units import parse_size
from lowtide.frontends.registry import format_options

if TYPE_CHECKING:
    from lowtide.ir.plan import Progress
    from lowtide.ir.request import Request
    from lowtide.pack.registry import Options

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="A .pt2, .pte, .tflite, .json or .csv; see lowtide --help.",
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
        help="Bytes by which the file may grow for it, such as 64KiB.",
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
Capacity = Annotated[
    list[str] | None,
    typer.Option(
        "--capacity",
        metavar="SIZE",
        show_default=False,
        help="Largest arena, such as 256KiB, or 2=64KiB for arena 2.",
    ),
]
MemoryMapFile = Annotated[
    str | None,
    typer.Option(
        "--memory-map",
        metavar="BOARD.toml",
        show_default=False,
        help="Banks of memory, fastest first; each buffer goes to one, so that accesses cost least.",
    ),
]
MaxArena = Annotated[
    list[str] | None,
    typer.Option(
        "--max-arena",
        metavar="SIZE",
        show_default=False,
        help="Most bytes, such as 256KiB, of all arenas together, or 2=64KiB for arena 2; may be repeated.",
    ),
]
MaxRam = Annotated[
    str | None,
    typer.Option(
        "--max-ram",
        metavar="SIZE",
        show_default=False,
        help="Most bytes of RAM that everything may take on the --device, such as 64KiB.",
    ),
]
Scratch = Annotated[
    list[str] | None,
    typer.Option(
        "--scratch",
        metavar="STEP=SIZE",
        show_default=False,
        help="What a step's kernel needs while it runs, such as CONV_2D=12KiB; may be repeated.",
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


@dataclass(frozen=True)
class Planned:
    """What is planned: options of every command that takes a FILE."""

    alignment: Alignment = "16"
    capacity: Capacity = None
    memory_map: MemoryMapFile = None
    no_plan_inputs: NoPlanInputs = False
    no_plan_outputs: NoPlanOutputs = False
    no_plan_state: NoPlanState = False
    reset_state: ResetState = False
    scratch: Scratch = None
    level: Level = 0
    in_place: InPlace = False
    elide_copies: ElideCopies = False
    fold_constants: FoldConstants = False
    fold_limit: FoldLimit = None
    reorder: Reorder = False
    of_formats: dict[str, Any] = field(default_factory=dict)

    def request(self) -> Request:
        """What the options ask of a program.

        Raises:
            InputError: they contradict each other, or one is no size.
        """
        from lowtide.ir.request import Request

        level = self.level
        memory = None
        if self.memory_map is not None:
            from lowtide.formats.memory_map import read_memory_map

            memory = read_memory_map(self.memory_map)
        if self.fold_limit is not None and not (self.fold_constants or level >= 3):
            raise InputError("--fold-limit is of --fold-constants: give both, or -O3")
        return Request(
            alignment=parse_size(self.alignment),
            plan_inputs=not self.no_plan_inputs,
            plan_outputs=not self.no_plan_outputs,
            plan_state=not self.no_plan_state,
            reset_state=self.reset_state,
            scratch=parse_scratch(self.scratch),
            capacity=parse_capacity(self.capacity),
            memory_map=memory,
            in_place=self.in_place or level >= 1,
            elide_copies=self.elide_copies or level >= 2,
            fold_constants=self.fold_constants or level >= 3,
            fold_limit=None if self.fold_limit is None else parse_size(self.fold_limit),
            reorder=self.reorder or level >= 3,
            format_options=self.of_formats,
        )


@dataclass(frozen=True)
class Searched:
    """How it is searched: options of every command that plans."""

    hierarchy: Hierarchy = "joint"
    packer: Packer = "auto"
    timeout: Timeout = DEFAULT_TIMEOUT
    seed: Seed = 0
    threads: Threads = 0

    def options(self, progress: Callable[[Progress, int], None] | None = None) -> Options:
        """What a packer may spend."""
        from lowtide.pack.registry import Options

        return Options(timeout=self.timeout or None, seed=self.seed, threads=self.threads, progress=progress)


C = TypeVar("C", bound=Callable[..., None])

_PANELS = {Planned: "What is planned", Searched: "How it is searched"}


def with_groups(*without: str) -> Callable[[C], Callable[..., None]]:
    """Decorator: a command whose groups of options are spelled out on the command line.

    Args:
        without: options of the groups that this command does not take, by name.
    """

    def spell_out(command: C) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        taken: dict[str, tuple[type, dict[str, str]]] = {}
        for parameter in inspect.signature(command).parameters.values():
            group = hints[parameter.name]
            if group not in _PANELS:
                named = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                parameters.append(named.replace(annotation=hints[parameter.name]))
                continue
            made = list(_parameters(group, command.__name__, without))
            parameters += made
            taken[parameter.name] = group, {p.name: p.name for p in made}

        @wraps(command)
        def run(**given: Any) -> None:
            for name, (group, names) in taken.items():
                given[name] = _group(group, {key: given.pop(key) for key in names})
            command(**given)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        return run

    return spell_out


def _parameters(group: type, command: str, without: tuple[str, ...]) -> Any:
    """A parameter for each option of a group that the command takes, those of single formats included."""
    hints = get_type_hints(group, include_extras=True)
    for one in fields(group):
        if one.name == "of_formats":
            for option in format_options().values():
                if option.commands and command not in option.commands:
                    continue
                yield _parameter(option.name, *_typed(option.help, option.name, option.metavar), group)
        elif one.name not in without:
            assert one.default is not MISSING
            yield _parameter(one.name, hints[one.name], one.default, group)


def _parameter(name: str, annotation: Any, default: Any, group: type) -> inspect.Parameter:
    import copy

    kind, option = annotation.__origin__, copy.copy(annotation.__metadata__[0])
    option.rich_help_panel = _PANELS[group]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _typed(help: str, name: str, metavar: str) -> tuple[Any, Any]:
    """Annotation and default of an option that a single format has."""
    flag = "--" + name.replace("_", "-")
    if not metavar:
        return Annotated[bool, typer.Option(flag, help=help)], False
    return Annotated[str | None, typer.Option(flag, metavar=metavar, show_default=False, help=help)], None


def _group(group: type, given: dict[str, Any]) -> Any:
    own = {one.name for one in fields(group)}
    if "of_formats" in own:
        given["of_formats"] = {name: given.pop(name) for name in list(given) if name not in own}
        # An empty text was given, and its front end refuses it; what is false or None was not.
        given["of_formats"] = {n: value for n, value in given["of_formats"].items() if value or value == ""}
    return group(**given)


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


def parse_scratch(texts: list[str] | None) -> dict[str, int]:
    """``["CONV_2D=12KiB"]`` as bytes by name.

    Raises:
        InputError: one is not of that form, or two are of one name.
    """
    found: dict[str, int] = {}
    for text in texts or ():
        name, equals, size = text.rpartition("=")
        if not name or not equals or name in found:
            raise InputError(f"scratch {text!r}: write STEP=SIZE, such as CONV_2D=12KiB, once a step")
        found[name] = parse_size(size)
    return found


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
