"""One call tried from end to end: traced, read, its claims tried, planned with everything on, replayed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch

from lowtide.base.errors import LowtideError, UnsupportedError
from lowtide.frontends.torch_export import import_program
from lowtide.lifetimes.timeline import build_problem
from lowtide.pack.planner import plan_problem
from lowtide.replay import replay
from lowtide.verifier.checks import verify
from operator_facts.cases import Case
from operator_facts.claims import Fault, faults_of
from operator_facts.programs import NoCall, Untraced, program_of


def try_case(case: Case) -> Iterator[Fault]:
    """Everything that is wrong with what Lowtide makes of a call."""
    warnings.simplefilter("ignore")
    with torch.no_grad():
        try:
            yield from _tried(case)
        except NoCall:
            return
        except Untraced as error:
            yield Fault("untraced", str(error))
        except UnsupportedError as error:
            yield Fault("refused", str(error))
        except Exception as error:  # whatever it is: neither the program nor Lowtide may break down
            yield Fault("raises", repr(error))


def _tried(case: Case) -> Iterator[Fault]:
    imported = import_program(program_of(case))
    torch.manual_seed(0)
    yield from faults_of(imported, case.tensors)
    try:
        plan = plan_problem(
            build_problem(imported.program, in_place=True, elide_copies=True), packer="first-fit"
        )
        verify(plan, imported.program)
    except LowtideError as error:
        yield Fault("plan", str(error))
        return
    try:
        replay(imported, plan, tuple(case.tensors), times=1, eager="empty" not in case.operator)
    except LowtideError as error:
        yield Fault("replay", str(error))
