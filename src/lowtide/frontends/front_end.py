"""What a front end is: from one format, or one kind of object, to Sources.

A front end has a name and four functions (``FrontEnd``). One whose files hold plans may judge them
(``Judge``), and one that can write its files again may do that (``Rewriter``): ``lowtide audit`` and
``lowtide repack`` serve whatever format has these. ``registry`` knows them all, and
``docs/how-to/front-end.md`` builds one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, runtime_checkable

from lowtide.ir.request import Request

if TYPE_CHECKING:
    from lowtide.base.errors import Violation
    from lowtide.base.files import StrPath
    from lowtide.ir.contents import Contents
    from lowtide.ir.device_memory import DeviceMemory
    from lowtide.ir.flow import FlowGraph
    from lowtide.ir.plan import Applied, Plan
    from lowtide.ir.problem import Problem
    from lowtide.ir.program import Program
    from lowtide.pack.hierarchy import Hierarchy
    from lowtide.pack.registry import Options
    from lowtide.pack.techniques import Layouts
    from lowtide.verifier.checks import Follow


@dataclass(frozen=True)
class Source:
    """Something to plan: what every front end makes of what a user has.

    Args:
        problem: the buffers to be placed, without any technique.
        program: what runs; a plan's bytes are followed through it.
        follow: where a front end has program points of its own instead: follows a plan's bytes through them.
        flow: those program points; of a plan that came with the source, the points that it is of.
        layouts: the problem under each choice of techniques, where there are program points to look at.
        planner: plans it in a way of its own, where a runtime places by its own rules what a plan leaves out.
        asked: names of buffers in the order in which a runtime asks its planner for their places, where that
            is known; empty for what nothing uses.
        plan: the plan that it came with, if any.
        faults: why the plan that it came with is wrong, where that is so wrong that no Plan can say it.
        contents: what it has beside its arenas, as far as the format tells.
        device_memory: all that it takes on the device that the request names, if the format tells that.
        origin: the front end's own object, which leads back to what it was made of.
        file: what messages call the whole that it is a part of.
        name: tells apart what one file holds, such as methods.
        remarks: for people.
        applied: what was changed before planning, for reports.
        extra: what the front end adds to every plan, by its namespace; see ``Plan``.
        request: what was asked for.
        moves_interface: whether inputs and outputs could stay in memory that the caller provides.
    """

    problem: Problem
    program: Program | None = None
    follow: Follow | None = None
    flow: FlowGraph | None = None
    layouts: Layouts | None = None
    planner: Planner | None = None
    asked: tuple[str, ...] | None = None
    plan: Plan | None = None
    faults: tuple[Violation, ...] = ()
    contents: Contents | None = None
    device_memory: DeviceMemory | None = None
    origin: Any = None
    file: str = ""
    name: str = ""
    remarks: tuple[str, ...] = ()
    applied: tuple[Applied, ...] = ()
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    request: Request = field(default_factory=Request)
    moves_interface: bool = True

    @property
    def runs(self) -> Program | Follow | None:
        """What a plan's bytes are followed through, if anything is known of what runs."""
        return self.program if self.program is not None else self.follow

    @property
    def points(self) -> FlowGraph | None:
        """Program points, if anything is known of what runs."""
        if self.flow is not None or self.layouts is None:
            return self.flow
        from lowtide.pack.techniques import Techniques

        return self.layouts(Techniques())[1]


class Planner(Protocol):
    """Plans a Source in a way of its own."""

    def __call__(self, source: Source, *, packer: str, hierarchy: Hierarchy, options: Options) -> Plan:
        """A plan with the techniques that the source's request allows, within the capacity of its problem.

        Raises:
            InfeasibleError: no plan fits the capacity, or none was found.
            UnsupportedError: the packer, or the hierarchy, cannot honour something in the problem.
        """
        ...


@dataclass(frozen=True, slots=True)
class FormatOption:
    """An option that only one format has: a keyword in Python, ``--name`` on the command line.

    Args:
        name: in Python; the command line has hyphens for underscores.
        help: one line, for ``--help``.
        metavar: what the command line calls its value; empty for a flag.
        commands: those that take it, if not all do.
    """

    name: str
    help: str
    metavar: str = ""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that was opened once, so that a pipe will do where a format can be read from front to end.

    Args:
        name: what messages call it.
        head: its first bytes, which have been read from ``rest`` already.
        rest: everything behind them.
        path: as the user gave it; None for bytes in memory.
    """

    name: str
    head: bytes
    rest: BinaryIO
    path: StrPath | None = None

    def content(self) -> bytes:
        """All of its bytes."""
        return self.head + self.rest.read()


class FrontEnd(Protocol):
    """Reads one format. A front end is light: it imports what it needs when it is used.

    Args:
        name: of the format, such as ``pte``.
        options: options of this format alone.
    """

    name: str
    options: tuple[FormatOption, ...]

    def sniff(self, head: bytes, suffix: str) -> float:
        """How sure it is that a file is of its format: 1 by content, less by the suffix, 0 if not at all.

        Args:
            head: the first bytes of the file.
            suffix: of its name, in lower case, with the dot.

        """
        ...

    def takes(self, value: object) -> bool:
        """Whether it loads such an object; must not import what the user has not imported."""
        ...

    def read(self, file: Opened, request: Request) -> Any:
        """The object that a file holds.

        Raises:
            InputError: it is damaged, or a library that it needs is not installed.
            UnsupportedError: it is sound, but cannot be read.
        """
        ...

    def load(self, value: Any, request: Request) -> Sequence[Source]:
        """What an object holds, to be planned: one or more.

        Raises:
            InputError: an option does not fit it.
            UnsupportedError: it cannot be planned.
        """
        ...


class Findings(Protocol):
    """What ``judge`` found; the front end's own type has more."""

    @property
    def safe(self) -> bool:
        """Whether nothing was found."""
        ...

    def to_json(self) -> str:
        """All of it as JSON text."""
        ...

    def lines(self) -> Iterator[str]:
        """All of it for people: a fault a line, then the verdict."""
        ...


@dataclass(frozen=True, slots=True)
class RewrittenArena:
    """What became of one arena of one program in a file, in bytes.

    Args:
        method: name of the program, where a file has several.
        memory: memory id.
        before, after: its size in the file, slack included.
        lower_bound: no plan of what is alive can be smaller; slack included.
        slack: bytes behind the last tensor that a backend may touch.
        reason: why it is as it was, if it is.
    """

    method: str
    memory: int
    before: int
    after: int
    lower_bound: int
    slack: int = 0
    reason: str = ""


class Rewritten(Protocol):
    """What ``rewrite`` made; the front end's own type may have more."""

    @property
    def data(self) -> bytes:
        """The new file; the old one if nothing could be improved."""
        ...

    @property
    def changed(self) -> bool:
        """Whether anything has moved."""
        ...

    @property
    def arenas(self) -> tuple[RewrittenArena, ...]:
        """Every arena of every program."""
        ...

    @property
    def faults_before(self) -> int:
        """Faults of the plan that the file had."""
        ...

    @property
    def plans(self) -> Mapping[str, Plan]:
        """The plan of each program by its name, where there is a memory map."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What had to be assumed, for people."""
        ...

    @property
    def seconds(self) -> float:
        """Time that it took."""
        ...


@runtime_checkable
class Judge(Protocol):
    """A front end whose files hold plans: ``lowtide audit``."""

    def judge(self, value: Any, *, alignment: int) -> Findings:
        """Whether the plan in a file is safe, on every path."""
        ...


@runtime_checkable
class Rewriter(Protocol):
    """A front end whose files can be written again with another plan: ``lowtide repack``."""

    def rewrite(
        self, value: Any, request: Request, *, alignment: int | None, packer: str, options: Options
    ) -> Rewritten:
        """The same file with a better plan, judged before it is returned.

        Args:
            value: what ``read`` made of the file.
            request: what is planned.
            alignment: bytes; None for what the format, or the file's own plan, wants.
            packer, options: how it is searched.
        """
        ...


@runtime_checkable
class Graphs(Protocol):
    """A front end of graphs that may be changed before they are planned: folded, reordered, split."""

    def graph_of(self, value: Any) -> Any:
        """The exported program or graph module to change.

        Raises:
            InputError: the object is fixed already.
        """
        ...
