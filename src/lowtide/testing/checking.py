"""A front end tried as a whole: what it loads is planned under every technique, verified and simulated.

What cannot be tried so is whether the front end tells the truth: the programs that it makes are run, not the
kernels that they stand for.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from lowtide.api import plan_source
from lowtide.base.errors import LowtideError, first_line
from lowtide.base.files import HEAD_BYTES, show_path
from lowtide.formats.json.reading import plan_from_json
from lowtide.formats.json.writing import plan_to_json
from lowtide.frontends.front_end import Judge, Opened, Rewriter
from lowtide.frontends.registry import front_ends
from lowtide.pack.registry import Options
from lowtide.sources import make_request
from lowtide.testing.simulation import simulate
from lowtide.verifier.checks import verify

if TYPE_CHECKING:
    from lowtide.frontends.front_end import FrontEnd, Source
    from lowtide.ir.plan import Plan
    from lowtide.ir.request import Request

TECHNIQUES = tuple(product((False, True), repeat=2))
"""In-place reuse and copies that vanish, each without and with the other."""


class FrontEndError(LowtideError, AssertionError):
    """A front end does not keep to its protocol, or what it loads cannot be planned right."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One plan that was tried.

    Args:
        name: of what was loaded.
        in_place, elide_copies: the techniques that were allowed.
        arena_bytes: what the plan takes.
        followed: whether the verifier could follow the bytes through what runs.
        paths: how many paths were simulated; 0 where nothing is known of what runs.
        complete: whether these are all paths.
        rewritten: whether it was loaded from what the front end wrote.
    """

    name: str
    in_place: bool
    elide_copies: bool
    arena_bytes: int
    followed: bool
    paths: int
    complete: bool
    rewritten: bool = False


@dataclass(frozen=True, slots=True)
class FrontEndReport:
    """What was tried of a front end.

    Args:
        front_end: its name.
        tried: every plan.
        judged: how many files its own judge has judged, rewritten ones too.
        rewritten: how many files were written again, and read.
    """

    front_end: str
    tried: tuple[Tried, ...]
    judged: int
    rewritten: int


def check_front_end(
    front_end: FrontEnd,
    things: Iterable[Any],
    *,
    paths: int = 100,
    timeout: float = 5.0,
    seed: int = 0,
    **request: Any,
) -> FrontEndReport:
    """Try a front end on files or objects of its format.

    Each is read and loaded, twice, to the same problem; planned under every choice of techniques, where the
    front end has such; verified; taken through JSON; and simulated. Its judge judges each file, and the
    plan of one that it calls safe is simulated too. A front end that rewrites writes each file again; what it
    wrote is read, judged and tried just the same.

    Args:
        front_end: need not be registered.
        things: paths of files, or objects that it takes.
        paths: the most that are simulated of each plan.
        timeout: seconds of each search.
        seed: of whatever is random.
        request: what is planned, as for ``lowtide.plan``.

    Raises:
        FrontEndError: the first thing that is wrong, in a line.
    """
    trial = _Trial(front_end, make_request(request), Options(timeout=timeout, seed=seed, threads=1), paths)
    for thing in things:
        trial.check(thing)
    if not trial.tried:
        raise FrontEndError(f"{front_end.name}: there was nothing to try")
    return FrontEndReport(front_end.name, tuple(trial.tried), trial.judged, trial.rewritten)


class _Trial:
    """One call of ``check_front_end``."""

    def __init__(self, front_end: FrontEnd, request: Request, options: Options, paths: int) -> None:
        self.front_end, self.request, self.options, self.paths = front_end, request, options, paths
        self.tried: list[Tried] = []
        self.judged = self.rewritten = 0

    def check(self, thing: Any) -> None:
        """One file or object."""
        if isinstance(thing, (str, os.PathLike)):
            with open(thing, "rb") as file:
                data = file.read()
            suffix = os.path.splitext(os.fspath(thing))[1].lower()
            self.check_file(data, show_path(thing), suffix)
            return
        label = f"a {type(thing).__name__}"
        with self.step(label, "takes"):
            self.want(self.front_end.takes(thing), label, "is not taken")
        self.check_value(thing, label)

    def check_file(self, data: bytes, label: str, suffix: str) -> None:
        """One file, and the one that the front end makes of it."""
        value = self.read(data, label, suffix)
        sources = self.check_value(value, label)
        if isinstance(self.front_end, Judge) and self.judge(value, label):
            self.check_own_plans(sources, label)
        if not isinstance(self.front_end, Rewriter):
            return
        with self.step(label, "rewrite"):
            made = self.front_end.rewrite(
                value, self.request, alignment=None, packer="auto", options=self.options
            )
        again = f"{label}, rewritten"
        self.want(made.changed == (made.data != data), again, "says of itself wrongly whether it changed")
        for arena in made.arenas:
            grown = arena.after > arena.before and not made.faults_before
            self.want(not grown, again, f"has a larger arena {arena.memory}")
        value = self.read(made.data, again, suffix)
        back = self.check_value(value, again, rewritten=True)
        same = [_asked(source) for source in sources] == [_asked(source) for source in back]
        self.want(same, again, "holds other programs or buffers than before")
        self.want(self.judge(value, again), again, "is not safe by its own judge")
        self.check_own_plans(back, again)
        self.rewritten += 1

    def read(self, data: bytes, label: str, suffix: str) -> Any:
        """What a file holds, once the front end is the one that would be asked."""
        head = data[:HEAD_BYTES]
        with self.step(label, "sniff"):
            sure = self.front_end.sniff(head, suffix)
        self.want(0 < sure <= 1, label, f"is not known: sniff says {sure}")
        for other in front_ends():
            if type(other) is not type(self.front_end) and other.sniff(head, suffix) >= sure:
                self.want(False, label, f"would be read by the front end {other.name}, which is as sure")
        with self.step(label, "read"):
            return self.front_end.read(Opened(label, head, io.BytesIO(data[HEAD_BYTES:])), self.request)

    def check_value(self, value: Any, label: str, *, rewritten: bool = False) -> Sequence[Source]:
        """Everything that an object holds, under every choice of techniques."""
        first = self.load(value, self.request, label)
        self.want(bool(first), label, "holds nothing")
        names = [source.name for source in first]
        self.want(len(set(names)) == len(names), label, "holds several programs of one name")
        again = [_asked(source) for source in self.load(value, self.request, label)]
        self.want([_asked(source) for source in first] == again, label, "is loaded differently each time")
        for in_place, elide_copies in TECHNIQUES:
            request = replace(self.request, in_place=in_place, elide_copies=elide_copies)
            for source in self.load(value, request, label):
                if source.layouts is None and (in_place or elide_copies):
                    continue
                name = f"{label} {source.name}".rstrip()
                self.check_plan(source, name, rewritten=rewritten)
        return first

    def check_own_plans(self, sources: Sequence[Source], label: str) -> None:
        """The plans that a file holds, which are said to be right."""
        for source in sources:
            if source.plan is not None and not source.plan.problem.has_permissions:
                self.follow(source, source.plan, f"{label} {source.name}".rstrip() + ", its own plan")

    def load(self, value: Any, request: Request, label: str) -> Sequence[Source]:
        with self.step(label, "load"):
            return [replace(source, request=request) for source in self.front_end.load(value, request)]

    def check_plan(self, source: Source, name: str, *, rewritten: bool) -> None:
        """One plan of a source."""
        with self.step(name, "planning"):
            plan = plan_source(source, packer="auto", hierarchy="joint", options=self.options)
        request = source.request
        followed, ran, complete = self.follow(source, plan, name)
        with self.step(name, "the plan's JSON"):
            self.want(plan_from_json(plan_to_json(plan)) == plan, name, "has a plan that JSON changes")
        done = Tried(name, request.in_place, request.elide_copies, plan.arena_bytes, followed, ran, complete)
        self.tried.append(replace(done, rewritten=rewritten))

    def follow(self, source: Source, plan: Plan, name: str) -> tuple[bool, int, bool]:
        """Verify and simulate: whether the bytes were followed, and on how many paths, and whether on all."""
        with self.step(name, "verifying"):
            report = verify(plan, source.runs if source.runs is not None else source.problem)
        if source.program is None and source.flow is None and source.layouts is None:
            return report.followed, 0, False
        with self.step(name, "simulating"):
            run = simulate(source, plan, paths=self.paths, seed=self.options.seed)
        self.want(run.right, name, f"goes wrong in its arena: {run.fault}")
        return report.followed, run.paths, run.complete

    def judge(self, value: Any, label: str) -> bool:
        """Whether the front end's own judge finds nothing; true without one."""
        if not isinstance(self.front_end, Judge):
            return True
        with self.step(label, "judge"):
            found = self.front_end.judge(value, alignment=1)
            self.want(bool(list(found.lines())), label, "has a judgement without a line")
            found.to_json()
        self.judged += 1
        return found.safe

    @contextmanager
    def step(self, label: str, doing: str) -> Iterator[None]:
        """Whatever is raised, as one line."""
        try:
            yield
        except FrontEndError:
            raise
        except LowtideError as error:
            raise FrontEndError(f"{self.front_end.name}: {label}: {doing}: {error}") from error
        except Exception as error:
            raise FrontEndError(f"{self.front_end.name}: {label}: {doing}: {first_line(error)}") from error

    def want(self, so: bool, label: str, otherwise: str) -> None:
        if not so:
            raise FrontEndError(f"{self.front_end.name}: {label} {otherwise}")


def _asked(source: Source) -> tuple[str, Sequence[tuple[str, int]]]:
    """What is planned of a source, wherever its plan puts it."""
    return source.name, [(buffer.id, buffer.size) for buffer in source.problem.buffers]
