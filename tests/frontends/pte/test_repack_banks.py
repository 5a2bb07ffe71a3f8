"""Files moved to the banks of a memory map: right on the real runtime, nothing else changed."""

from __future__ import annotations

import pytest
import torch
from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
from executorch.exir.passes import MemoryPlanningPass as StockPass
from test_repack import delegated, run_methods

import lowtide
from command_line import run
from lowtide.base.errors import InfeasibleError, InputError, UnsupportedError
from lowtide.executorch import MemoryPlanningPass, audit, repack
from lowtide.frontends.pte import analyse, open_pte
from lowtide.ir.memory_map import Bank, MemoryMap, Pin
from models import REAL_MODELS
from quick_zoo import quick
from runtime import differences, edge_of, lower, run_file
from stock_files import NOT_TOLD_BY_FILE, files_of, methods_file, real_files, stock_file
from zoo import ZOO

QUICK = ("two_conds_added", "scan_and_map_and_cond")


def two_banks(fast: int, *pins: Pin, ids: tuple[int, int] = (1, 2), **options: int) -> MemoryMap:
    slow = Bank("slow", 1 << 22, ids[1], read_cost=8.0, write_cost=10.0)
    return MemoryMap((Bank("fast", fast, ids[0], **options), slow), pins)


def half_of(data: bytes) -> int:
    """Half of what the largest arena of a file needs."""
    return max(arena.after for arena in repack(data).arenas) // 32 * 16


def places(data: bytes) -> dict[str, dict[int, tuple[int, int, int]]]:
    found: dict[str, dict[int, tuple[int, int, int]]] = {}
    for analysis in analyse(open_pte(data)):
        method = analysis.method
        found[method.name] = {
            t.index: (t.place.memory, t.place.start, t.place.stop) for t in method.planned if t.place
        }
    return found


def within(data: bytes, memory: MemoryMap) -> None:
    """Every arena is a bank's and no larger, every tensor in it, and no byte of the reserve is used."""
    for analysis in analyse(open_pte(data)):
        for id, size in analysis.method.arenas.items():
            assert not size or size <= memory.by_id[id].size
        for memory_id, start, stop in places(data)[analysis.method.name].values():
            bank = memory.by_id[memory_id]
            assert stop <= analysis.method.arenas[memory_id]
            assert stop == start or (start >= bank.reserved and start % bank.alignment == 0)


def only_places_changed(before: bytes, after: bytes) -> None:
    old, new = open_pte(before), open_pte(after)
    assert new.segments == old.segments
    first = _flatbuffer_to_program(before[: old.program_bytes])
    second = _flatbuffer_to_program(after[: new.program_bytes])
    for plan, other in zip(first.execution_plan, second.execution_plan, strict=True):
        for value, twin in zip(plan.values, other.values, strict=True):
            if getattr(value.val, "allocation_info", None) is not None:
                value.val.allocation_info = twin.val.allocation_info
        plan.non_const_buffer_sizes = other.non_const_buffer_sizes
    assert first == second


def same_bits(before: bytes, after: bytes, calls) -> bool:
    return differences(run_file(before, calls), run_file(after, calls), close=False) == []


@pytest.mark.parametrize("name", quick(ZOO, QUICK))
def test_the_zoo_in_two_banks(name):
    files = files_of(name)
    if files.stock is None or name in NOT_TOLD_BY_FILE:
        pytest.skip("no stock file whose views are told")
    fast = max(half_of(files.stock), 16)
    for techniques in ({}, {"in_place": True, "elide_copies": True}):
        memory = two_banks(fast)
        # Said, since the new offsets of a small file may look like those of a larger alignment by chance.
        given = {"memory_map": memory, "alignment": 16, **techniques}
        found = repack(files.stock, **given)
        assert audit(found.data).safe
        within(found.data, memory)
        only_places_changed(files.stock, found.data)
        assert files.right(found.data)
        assert repack(found.data, **given).data == found.data


@pytest.mark.parametrize("name", quick(REAL_MODELS, ()))
def test_real_models_in_three_banks_bit_for_bit(name):
    inputs, stock, _ = real_files(name)
    whole = sum(arena.after for arena in repack(stock).arenas)
    banks = (
        Bank("tcm", max(whole // 4, 4096), 3, alignment=64, reserved=100),
        Bank("sram", max(whole // 2, 4096), 1, read_cost=2.0, write_cost=3.0),
        Bank("psram", 1 << 28, 2, read_cost=8.0, write_cost=12.0),
    )
    memory = MemoryMap(banks, (Pin("input", "psram"),))
    found = repack(stock, memory_map=memory)
    assert found.changed
    within(found.data, memory)
    only_places_changed(stock, found.data)
    assert same_bits(stock, found.data, [inputs, inputs])
    (plan,) = found.plans.values()
    assert plan.cost is not None
    assert plan.cost >= (plan.cost_bound or 0)
    used = {id for id, start, stop in places(found.data)["forward"].values() if stop > start}
    assert {2, 3} <= used
    (method,) = (analysis.method for analysis in analyse(open_pte(found.data)))
    for value in method.inputs:
        assert method.tensors[value].place is None or method.tensors[value].place.memory == 2


def test_a_file_that_has_banks_already_goes_to_others():
    """What its memory ids were does not hold its tensors back; an id that is no bank's does."""
    torch.manual_seed(0)
    model, calls = ZOO["scan_and_map_and_cond"]()
    edge = edge_of(model, calls[0])
    whole = MemoryPlanningPass()
    lower(edge, whole)
    fast = whole.plan.arena_bytes // 2 // 16 * 16
    first = lower(edge, MemoryPlanningPass(memory_map=two_banks(fast))).buffer
    turned = two_banks(fast, ids=(2, 1))
    second = repack(first, memory_map=turned)
    assert second.changed
    within(second.data, turned)
    assert same_bits(first, second.data, calls)
    apart = two_banks(fast, ids=(3, 4))
    third = repack(first, memory_map=apart)
    kept = {v for v, place in places(first)["forward"].items() if place[0] == 2}
    assert kept
    assert all(places(third.data)["forward"][v] == places(first)["forward"][v] for v in kept)
    assert {place[0] for v, place in places(third.data)["forward"].items() if v not in kept} <= {3, 4}
    assert same_bits(first, third.data, calls)


def test_xnnpack_has_its_padding_in_every_bank_and_its_inputs_where_asked():
    stock = delegated()
    calls = [(torch.randn(1, 3, 16, 16),), (torch.randn(1, 3, 16, 16),)]
    fast = half_of(stock)
    free = repack(stock, memory_map=two_banks(fast))
    memory = two_banks(fast, Pin("read-by:XnnpackBackend", "slow"))
    pinned = repack(stock, memory_map=memory)
    for found in (free, pinned):
        within(found.data, memory)
        assert same_bits(stock, found.data, calls)
        (analysis,) = analyse(open_pte(found.data))
        for id, size in analysis.method.arenas.items():
            ends = [t.place.stop for t in analysis.method.planned if t.place and t.place.memory == id]
            assert not ends or size >= max(ends) + 64
    read = {
        analysis.views.base.get(value, value)
        for instruction, effect in zip(analysis.method.instructions, analysis.effects, strict=True)
        if instruction.kind == "delegate"
        for value in effect.reads
        if value in analysis.method.tensors and analysis.method.tensors[value].place
    }
    assert read
    assert {places(pinned.data)["forward"][value][0] for value in read} == {2}
    assert {places(free.data)["forward"][value][0] for value in read} != {2}
    with pytest.raises(InputError, match="no step of such a name or operator"):
        repack(stock, memory_map=two_banks(fast, Pin("read-by:EthosUBackend", "slow")))


@pytest.mark.parametrize("shared", [False, True])
def test_several_methods_find_their_state(shared):
    torch.manual_seed(0)
    stock = methods_file(StockPass(share_mutable_buffers=shared))
    ids = (1, 3) if shared else (1, 2)
    memory = two_banks(384, ids=ids)
    found = repack(stock, memory_map=memory)
    assert found.changed
    assert audit(found.data).safe
    only_places_changed(stock, found.data)
    state = [
        (a.method.name, value, places(stock)[a.method.name][value])
        for a in analyse(open_pte(stock))
        for value in a.views.state
    ]
    assert state
    assert all(places(found.data)[name][value] == place for name, value, place in state)
    script = [(name, torch.rand(4, 6)) for name in ("add", "read", "add", "add", "read")]
    before, after = run_methods(stock, script), run_methods(found.data, script)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_pattern_need_only_match_in_one_method():
    stock = methods_file(StockPass())
    name = next(iter(places(stock)["read"]))
    memory = two_banks(384, Pin(f"read/%{name}", "slow"))
    assert places(repack(stock, memory_map=memory).data)["read"][name][0] == 2
    with pytest.raises(InputError, match="no buffer has such a name"):
        repack(stock, memory_map=two_banks(4096, Pin("write/%1", "slow")))


def test_what_cannot_be_is_refused_in_one_line():
    stock = stock_file("scan_and_map_and_cond")
    with pytest.raises(InfeasibleError, match="fits in no bank"):
        repack(stock, memory_map=MemoryMap((Bank("a", 16, 1), Bank("b", 16, 2))))
    for memory in (two_banks(4096, ids=(2, 3)), two_banks(352)):
        with pytest.raises(UnsupportedError, match="state lies in bytes 288 to 384 of arena 1"):
            repack(methods_file(StockPass()), memory_map=memory)
    with pytest.raises(UnsupportedError, match="memory id 2 holds state that other methods may share"):
        repack(methods_file(StockPass(share_mutable_buffers=True)), memory_map=two_banks(4096))
    with pytest.raises(InputError, match="cannot go to a bank with another memory id"):
        repack(methods_file(StockPass()), memory_map=two_banks(4096, Pin("state", "slow")))


def test_the_file_stays_where_nothing_costs_less():
    files = files_of("two_conds_added")
    memory = two_banks(half_of(files.stock))
    once = repack(files.stock, memory_map=memory)
    again = repack(once.data, memory_map=memory, packer="naive")
    assert again.data == once.data
    assert not again.changed
    assert {arena.reason for arena in again.arenas} == {"no plan was found that costs less"}


def test_plans_of_a_file_with_a_map_are_followed_in_their_banks():
    """plan, and verify with the map: tensors of different banks share no bytes, whatever their offsets."""
    data = stock_file("scan_and_map_and_cond")
    memory = two_banks(half_of(data))
    plan = lowtide.plan(data, memory_map=memory)
    assert {bank.name for bank in plan.banks} == {"fast", "slow"}
    lowtide.verify(plan, data, memory_map=memory)
    assert {buffer.arena for buffer in plan.problem.buffers} == {1, 2}


MAP = """
[[bank]]
name = "fast"
size = {fast}
mem_id = 1
read_cost = 1.0
write_cost = 1.0

[[bank]]
name = "slow"
size = "1MiB"
mem_id = 2
read_cost = 8.0
write_cost = 8.0
"""


def test_on_the_command_line(tmp_path):
    data = stock_file("scan_and_map_and_cond")
    fast = half_of(data)
    (tmp_path / "model.pte").write_bytes(data)
    (tmp_path / "board.toml").write_text(MAP.format(fast=fast))
    files = [str(tmp_path / name) for name in ("model.pte", "out.pte", "board.toml")]
    done = run("repack", files[0], "-o", files[1], "--memory-map", files[2])
    assert done.returncode == 0
    assert "Accesses cost" in done.stdout
    assert "audited: safe" in done.stdout
    within((tmp_path / "out.pte").read_bytes(), two_banks(fast))
    (tmp_path / "board.toml").write_text(MAP.format(fast=fast) + '[place]\nstate = "quick"\n')
    done = run("repack", files[0], "-o", files[1], "--memory-map", files[2])
    assert done.returncode == 2
