"""What the arena of a model holds on a device: the file's own plan, or the one that is made."""

from __future__ import annotations

import pytest

import lowtide
from lowtide import InputError
from lowtide.frontends.tflite.interpreter import simulate
from lowtide.frontends.tflite.reading import read_model
from lowtide.frontends.tflite.tail import tail_of
from lowtide.frontends.tflite.targets import TARGETS
from lowtide.report.ram import check_ram
from lowtide.sources import load, make_request
from tflite_building import Net
from tflite_nets import NETS, branches, loop, resource, variable
from tflite_random_nets import random_net


@pytest.mark.parametrize("device", TARGETS)
@pytest.mark.parametrize("make", [branches, variable, loop, resource, lambda: random_net(1)])
def test_head_tail_and_what_starting_takes(make, device) -> None:
    data = make()
    model = read_model(data)
    arena = simulate(model)
    tail = tail_of(model, arena, None, (), TARGETS[device])
    memory = load(data, make_request({"device": device})).device_memory
    assert memory is not None
    assert memory.pool_bytes("arena") == arena.head
    assert 0 <= memory.pool_bytes("method") - tail.bytes < 16
    assert memory.ram_bytes == tail.arena(arena.head)
    assert memory.untold == ()


def test_a_plan_that_was_made_counts_where_the_file_has_none() -> None:
    """Where starting needs more than the plan, that stays."""
    for data in (loop(), random_net(1)):
        found = lowtide.explain(data, device="host")
        assert found.ram is not None
        assert found.ram.pool_bytes("arena") == found.arena_bytes < simulate(read_model(data)).head
        assert found.ram.ram_bytes == max(found.arena_bytes + found.ram.pool_bytes("method"), found.ram.least)
    kept = lowtide.repack(loop()).data
    assert (
        lowtide.explain(kept, device="host").ram == load(kept, make_request({"device": "host"})).device_memory
    )


def test_a_limit_holds_the_plan_that_is_made() -> None:
    source = load(branches(), make_request({"device": "cortex-m"}))
    plan = lowtide.plan(branches())
    assert source.device_memory is not None
    budget = check_ram(source, plan, 1 << 20)
    assert budget.bytes == plan.arena_bytes + source.device_memory.pool_bytes("method")
    assert budget.lower_bound_bytes == budget.bytes
    with pytest.raises(InputError, match="device 'toaster'"):
        load(branches(), make_request({"device": "toaster"}))


def test_kernels_that_nobody_counted_are_told_of() -> None:
    net = Net()
    main = net.graph()
    x = main.input((1, 16))
    main.outputs = [main.made("CUSTOM", [x], custom="Nobody's")]
    source = load(net.finish(), make_request({"device": "cortex-m"}))
    assert source.device_memory is not None
    assert source.device_memory.untold == ("kernels of Nobody's",)
    assert any("kernels of Nobody's" in remark for remark in source.remarks)


def test_nothing_is_said_to_depend_on_constants_that_reads_a_resource() -> None:
    for name in ("resource", "variable"):
        assert not {"constants"} & {advice.kind for advice in lowtide.explain(NETS[name]()).advice}
