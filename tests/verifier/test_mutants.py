"""Mutated plans of exported programs: what is wrong fails both the verifier and the replay.

The verifier sees all paths, the replay those that its inputs take, byte by byte. So every mutant that the
replay catches must be caught by the verifier; and one that only the verifier catches must have a reason:

* path: what it spoils is on a branch, or in a loop, that these inputs do not run;
* lifetime: by the plan's own lifetimes two live buffers overlap, though no byte is read that was spoilt;
* part: the step reads a part of its storage through a view, and the spoilt bytes are in the other part;
* whole: what was spoilt was written again, part by part: a loop's stacked result by its slices, or a tensor
  through views of it; the verifier does not know which bytes a part is, so it takes them for spoilt still;
* value: the simulator, to which all bytes differ, finds it too, but here the bytes written over others are
  the same (the least and the greatest of one element), or lie in what the alignment adds to a size.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._pytree import tree_flatten  # noqa: E402

from control_flow import CONTROL_FLOW_MODELS  # noqa: E402
from lowtide.base.errors import ReplayError  # noqa: E402
from lowtide.frontends.torch_export import Imported, import_program  # noqa: E402
from lowtide.ir.flow import FlowGraph, Ref  # noqa: E402
from lowtide.lifetimes.lowering import lower  # noqa: E402
from lowtide.lifetimes.timeline import problem_of_flow  # noqa: E402
from lowtide.pack.hierarchy import POLICIES  # noqa: E402
from lowtide.pack.planner import plan_problem  # noqa: E402
from lowtide.replay import replay  # noqa: E402
from lowtide.replay.arena_memory import SeparateMemory  # noqa: E402
from lowtide.replay.interpreter import Interpreter  # noqa: E402
from lowtide.testing import simulate  # noqa: E402
from lowtide.verifier.checks import find_violations  # noqa: E402
from lowtide.verifier.ownership import check_ownership  # noqa: E402
from mutants import MUTATIONS, Mutant, mutants  # noqa: E402
from random_graphs import random_graph  # noqa: E402

SMALL_MODELS = ("mobilenet_v2", "vit", "bert", "llama")
COLUMNS = ("both", "path", "lifetime", "part", "whole", "value", "neither")

Cases = list[tuple[Any, ...]]


class Judge:
    """Both verdicts on mutants of one program's plan.

    Args:
        imported: the program.
        cases: its inputs, for several invocations in a row.
    """

    def __init__(self, imported: Imported, cases: Cases) -> None:
        self.imported, self.cases = imported, cases
        self.flow: FlowGraph = lower(imported.program)
        self.taken = self.ticks()
        used = {s for tick in self.taken for s in self.storages_at(tick)}
        storages = imported.program.storages
        self.used = {storages[s].name for s in used}
        copies = [copy for point in self.flow.points for copy in point.copies if copy.part is not None]
        self.stacked = {storages[c.target_storage].name for c in copies if c.target_storage is not None}

    def ticks(self) -> set[int]:
        """The program points that these inputs reach."""
        interpreter = Interpreter(self.imported, self.flow, SeparateMemory())
        found: set[int] = set()
        with torch.no_grad():
            for case in self.cases:
                interpreter.start(tree_flatten(case)[0])
                running = True
                while running:
                    found.add(interpreter.tick)
                    interpreter.perform()
                    running = interpreter.advance()
                interpreter.finish()
        return found

    def storages_at(self, tick: int) -> Iterator[int]:
        point = self.flow.points[tick]
        yield from (*point.all_reads, *point.full_writes, *point.partial_writes)

    def replayed(self, mutant: Mutant) -> str:
        """What the replay says; nothing if it finds no fault."""
        try:
            replay(self.imported, mutant.plan, self.cases, times=2, eager=False)
        except ReplayError as error:
            return str(error)
        return ""

    def verdict(self, mutant: Mutant) -> str:
        """One of COLUMNS; ``replay`` or ``unexplained`` if something is wrong with Lowtide."""
        violations, _ = find_violations(mutant.plan, self.imported.program)
        seen = self.replayed(mutant)
        if not violations:
            return "replay" if seen else "neither"
        return "both" if seen else self.reason(mutant)

    def reason(self, mutant: Mutant) -> str:
        """Why the verifier may reject what the replay does not mind."""
        faults = check_ownership(self.imported.program, mutant.plan, limit=1000)
        if not faults:
            return "lifetime"
        reasons = {self.explain(str(fault), fault.kind, fault.buffers) for fault in faults}
        if "unexplained" in reasons:
            return "value" if self.simulated(mutant) else "unexplained"
        return next((reason for reason in ("whole", "part") if reason in reasons), "path")

    def simulated(self, mutant: Mutant) -> bool:
        """Whether the simulator finds a fault on some path."""
        return not simulate(self.imported.program, mutant.plan, paths=300).right

    def explain(self, message: str, kind: str, names: tuple[str, ...]) -> str:
        ticks = [int(tick) for tick in re.findall(r"\(tick (\d+)\)", message)]
        if not self.taken.issuperset(ticks) or (not ticks and self.used.isdisjoint(names)):
            return "path"
        if kind != "lost":
            return "unexplained"
        if names[0] in self.stacked or self.written_in_parts(names[0], ticks):
            return "whole"
        return "part" if self.reads_part(ticks[0], names[0]) else "unexplained"

    def written_in_parts(self, name: str, ticks: list[int]) -> bool:
        """Whether a storage was written in part after what spoilt it, and before the read that minds."""
        storages = self.imported.program.storages
        read, spoilt = ticks if len(ticks) == 2 else (0, 0)
        between = self.flow.points[spoilt + 1 : read]
        return any(storages[s].name == name for point in between for s in point.partial_writes)

    def reads_part(self, tick: int, name: str) -> bool:
        """Whether a point sees a storage only through views of a part of it."""
        point, root = self.flow.points[tick], self.imported.program.regions[0]
        refs = [copy.source for copy in point.copies if copy.source is not None]
        if point.kind == "step":
            region = self.imported.program.regions[self.flow.activations[point.activation].region]
            refs += [Ref(point.activation, v) for v in region.steps[point.step].reads]
        elif point.kind == "exit":
            refs += [Ref(point.activation, v) for v in root.outputs if v is not None]
        elif point.decides is not None:
            refs.append(point.decides)
        seen = [whole for ref in refs for storage, whole in self.lies_in(ref) if storage == name]
        return bool(seen) and not any(seen)

    def lies_in(self, ref: Ref) -> Iterator[tuple[str, bool]]:
        """Names of the storages that a value may lie in, and whether it is the whole of each."""
        program, activation = self.imported.program, self.flow.activations[ref.activation]
        value = program.values[ref.value]
        if value.region != activation.region and activation.parent is not None:
            yield from self.lies_in(Ref(activation.parent, ref.value))
        elif ref.value in activation.bindings:
            binding = activation.bindings[ref.value]
            for storage, whole in self.lies_in(binding.ref) if binding.ref is not None else ():
                yield storage, whole and binding.part is None
        else:
            if value.storage is not None:
                yield program.storages[value.storage].name, True
            for alias in value.aliases:
                for storage, whole in self.lies_in(Ref(ref.activation, alias)):
                    yield storage, whole and value.layout != ""


def judge(imported: Imported, cases: Cases, random: Random, count: int) -> Counter[tuple[str, str]]:
    """Verdicts on so many mutants of the plan of a program.

    Raises:
        AssertionError: the replay catches what the verifier does not, or the reverse without a reason.
    """
    judged = Judge(imported, cases)
    packer, policy = random.choice(("auto", "greedy", "best-fit", "first-fit")), random.choice(POLICIES)
    plan = plan_problem(problem_of_flow(judged.flow), packer=packer, hierarchy=policy)
    verdicts: Counter[tuple[str, str]] = Counter()
    for mutant in mutants(plan, random, count):
        verdict = judged.verdict(mutant)
        what = f"{mutant.kind} of {mutant.what}"
        assert verdict != "replay", f"{what}: {judged.replayed(mutant)}; it is verified"
        faults, _ = find_violations(mutant.plan, imported.program)
        assert verdict != "unexplained", f"{what}: {faults[0]}; it replays"
        verdicts[mutant.kind, verdict] += 1
    return verdicts


def exported(make: Any) -> tuple[Imported, Cases]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    module, inputs = make()
    cases = inputs if isinstance(inputs, list) else [inputs]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return import_program(torch.export.export(module, cases[0])), cases


def graph(seed: int) -> tuple[Imported, Cases]:
    torch.set_num_threads(1)
    random = Random(seed)
    case = random_graph(random, steps=random.randint(3, 30), depth=random.randint(0, 3))
    return import_program(case.module), case.inputs


def share_caught(verdicts: Counter[tuple[str, str]]) -> float:
    """Of the mutants that the verifier rejects on some path taken, those that the replay catches."""
    both = sum(n for (_, verdict), n in verdicts.items() if verdict == "both")
    strict = sum(n for (_, verdict), n in verdicts.items() if verdict in COLUMNS[2:-1])
    return both / max(1, both + strict)


@pytest.mark.parametrize("name", CONTROL_FLOW_MODELS)
def test_mutants_of_control_flow(name: str) -> None:
    verdicts = judge(*exported(CONTROL_FLOW_MODELS[name]), Random(1), 16)
    assert share_caught(verdicts) > 0.8


def test_mutants_of_a_real_model() -> None:
    pytest.importorskip("transformers")
    from models import REAL_MODELS

    verdicts = judge(*exported(REAL_MODELS["bert"]), Random(2), 12)
    assert share_caught(verdicts) > 0.8


@pytest.mark.parametrize("seed", [1, 2, 124])
def test_mutants_of_random_graphs(seed: int) -> None:
    judge(*graph(seed), Random(seed), 16)


# Many mutants, in pieces that can run side by side.


def check_many(title: str, verdicts: Counter[tuple[str, str]]) -> None:
    """Prints a table of verdicts; the replay catches nine in ten of what is wrong on a path that it takes."""
    print(f"\n{title:14}" + "".join(f"{column:>10}" for column in COLUMNS))
    for kind in MUTATIONS:
        print(f"{kind:14}" + "".join(f"{verdicts[kind, column]:10}" for column in COLUMNS))
    assert share_caught(verdicts) > 0.9


@pytest.mark.slow
def test_many_mutants_of_control_flow() -> None:
    verdicts: Counter[tuple[str, str]] = Counter()
    for k, make in enumerate(CONTROL_FLOW_MODELS.values()):
        verdicts += judge(*exported(make), Random(k), 60)
    check_many("control flow", verdicts)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL_MODELS)
def test_many_mutants_of_real_models(name: str) -> None:
    pytest.importorskip("transformers")
    from models import REAL_MODELS

    check_many(name, judge(*exported(REAL_MODELS[name]), Random(7), 40))


@pytest.mark.slow
def test_many_mutants_of_random_graphs() -> None:
    verdicts: Counter[tuple[str, str]] = Counter()
    for seed in range(100, 140):
        verdicts += judge(*graph(seed), Random(seed), 15)
    check_many("random graphs", verdicts)
