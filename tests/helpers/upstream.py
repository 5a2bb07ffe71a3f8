"""Run ExecuTorch's own tests of memory planning with Lowtide in place of what they test.

    python tests/helpers/upstream.py pass        # Lowtide's pass instead of the stock pass
    python tests/helpers/upstream.py algorithm   # Lowtide's algorithm inside the stock pass

The tests are those of the installed wheel. Where they name the algorithm ``naive``, Lowtide's packer of
that name is used. Prints a JSON object: how many passed, and each failure with the last line of its error.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import unittest
import warnings
from typing import Any

import executorch.exir.memory_planning as stock
import executorch.exir.passes as passes

import lowtide.executorch

TESTS = "executorch.exir.tests.test_memory_planning"


class Substitute(lowtide.executorch.MemoryPlanningPass):
    """Lowtide's pass, with a packer in place of the algorithm that a test asks for."""

    def __init__(self, memory_planning_algo: Any = None, *arguments: Any, **options: Any) -> None:
        algorithms = getattr(memory_planning_algo, "algo_list", [memory_planning_algo])
        packer = "naive" if stock.naive in algorithms else "auto"
        super().__init__(None, *arguments, packer=packer, **options)


def substitute(what: str) -> None:
    """Put Lowtide where the tests will look; before they are imported."""
    if what == "pass":
        passes.MemoryPlanningPass = Substitute
        _set_default_pass(Substitute())
    else:
        best, naive = lowtide.executorch.algorithm(), lowtide.executorch.algorithm(packer="naive")
        best.__name__, naive.__name__ = "greedy", "naive"
        stock.greedy, stock.naive = best, naive


def _set_default_pass(planning: Any) -> None:
    """The pass of a config that names none."""
    from executorch.exir.capture import _config

    initialise = _config.ExecutorchBackendConfig.__init__
    names = initialise.__code__.co_varnames[1 : initialise.__code__.co_argcount]
    with_default = names[len(names) - len(initialise.__defaults__) :]
    initialise.__defaults__ = tuple(
        planning if name == "memory_planning_pass" else value
        for name, value in zip(with_default, initialise.__defaults__, strict=True)
    )


def run(what: str) -> dict[str, Any]:
    """Run all tests; what passed, failed and was skipped."""
    substitute(what)
    suite = unittest.defaultTestLoader.loadTestsFromName(TESTS)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = unittest.TextTestRunner(stream=printed, verbosity=0).run(suite)
    failed = {
        test.id().removeprefix(f"{TESTS}."): trace.strip().splitlines()[-1]
        for test, trace in (*result.failures, *result.errors)
    }
    skipped = {test.id().removeprefix(f"{TESTS}."): reason for test, reason in result.skipped}
    return {
        "run": result.testsRun,
        "passed": result.testsRun - len(failed) - len(skipped),
        "failed": failed,
        "skipped": skipped,
    }


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1]), indent=2))
