"""What the arena of a model holds on a device, as far as the file tells."""

from __future__ import annotations

import pytest

import lowtide
from lowtide import InputError
from lowtide.frontends.tflite.interpreter import simulate
from lowtide.report.ram import check_ram
from lowtide.sources import load, make_request
from tflite_nets import branches, variable


def test_head_temporaries_and_variables() -> None:
    for data in (branches(), variable()):
        source = load(data, make_request({"device": "host"}))
        memory, simulation = source.device_memory, simulate(source.origin, None, ())
        assert memory is not None
        assert memory.pool_bytes("arena") == simulation.head
        # While it plans, the interpreter needs its temporaries in place of the head.
        assert simulation.head + memory.pool_bytes("temporary") == max(
            simulation.head, simulation.temporaries
        )
        held = sum(tensor.size for tensor in source.origin.tensors if tensor.variable)
        assert memory.pool_bytes("method") == held
        assert memory.untold == ("the interpreter's structures",)
        assert lowtide.explain(data, device="host").ram == memory


def test_a_limit_holds_the_plan_that_is_made() -> None:
    source = load(branches(), make_request({"device": "cortex-m"}))
    plan = lowtide.plan(branches())
    assert check_ram(source, plan, 1 << 20).bytes == plan.arena_bytes
    with pytest.raises(InputError, match="device 'toaster'"):
        load(branches(), make_request({"device": "toaster"}))
